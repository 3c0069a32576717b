"""Attention forms to fit: prefill without a prefix, and decode, both with sequences of equal length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from servecast.hardware.engines import DecodeCoefficients, PrefillCoefficients
from servecast.hardware.gpus import Gpu
from servecast.model.calibration.fitting import Coefficient, Evidence, Floats, Mask, Rows, Values
from servecast.model.kernels import PrefillAttention, decode_attention

# Tokens from which a context, or a prompt, counts as long.
LONG_CONTEXT, LONG_PROMPT = 4096, 1536
# Kinds of heads from which whole kinds are held out: two for each fold.
_MANY_KINDS = 10
# A cause is seen in a time of which it makes this share.
_SEEN = 0.1
# So large a share of peak or bandwidth that the term vanishes.
_FREE = 1e12

_PREFILL = (
    Coefficient("t0_us", 0.0, 100.0, scale=2.0),
    Coefficient("e_c", 0.1, 1.1, open_end=True),
    Coefficient("e_m", 0.1, 1.1, open_end=True),
    Coefficient("s_half", 0.0, 2000.0, scale=200.0),
    Coefficient("c_tail", 0.0, 1.0, scale=0.2),
)
_DECODE = (
    Coefficient("t0_us", 0.0, 100.0, scale=2.0),
    Coefficient("e_m", 0.2, 1.1, open_end=True),
    Coefficient("c_item_us", 0.0, 20.0, scale=1.0),
    Coefficient("c_ctx_us_per_1k", 0.0, 20.0, scale=0.2),
)


@dataclass(frozen=True)
class AttentionRows(Rows):
    """`batch` sequences; heads per GPU. tokens: of each prompt, or of each context (the new token included)."""

    batch: Floats
    tokens: Floats
    heads: NDArray[np.int64]
    kv_heads: NDArray[np.int64]
    head_dim: NDArray[np.int64]


def _head_kinds(rows: AttentionRows) -> NDArray[np.int64]:
    kinds = np.stack([rows.heads, rows.kv_heads, rows.head_dim])
    return np.unique(kinds, axis=1, return_inverse=True)[1].astype(np.int64)


def _shapes(rows: AttentionRows) -> NDArray[np.int64]:
    """Kinds of heads where there are many; else the lengths too, as a small table has few kinds."""
    kinds = _head_kinds(rows)
    if len(np.unique(kinds)) >= _MANY_KINDS:
        return kinds
    sizes = np.stack([kinds.astype(np.float64), rows.batch, rows.tokens])
    return np.unique(sizes, axis=1, return_inverse=True)[1].astype(np.int64)


@dataclass(frozen=True)
class PrefillFit:
    """Prompts that attend to themselves."""

    gpu: Gpu

    coefficients = _PREFILL

    def seconds(self, rows: AttentionRows, values: Values) -> Floats:
        # the form takes arrays as it does numbers
        form = PrefillAttention(
            prefill_coefficients(values),
            num_heads=rows.heads,  # type: ignore[arg-type]
            num_kv_heads=rows.kv_heads,  # type: ignore[arg-type]
            head_dim=rows.head_dim,  # type: ignore[arg-type]
            window=None,
            peak_flops=self.gpu.peak_flops["16bit"],
            bytes_per_s=self.gpu.memory_bytes_per_s,
            sm_count=self.gpu.sm_count,
        )
        chunk = form.chunk_seconds(0, rows.tokens)  # type: ignore[arg-type]
        return np.asarray(form.fixed_s + rows.batch * chunk + form.tail_s_per_token * rows.tokens)

    def weights(self, rows: AttentionRows) -> Floats:
        return np.ones(len(rows))

    def shapes(self, rows: AttentionRows) -> NDArray[np.int64]:
        return _shapes(rows)

    def evidence(self, rows: AttentionRows, values: Values) -> Mapping[str, Evidence]:
        total = self.seconds(rows, values)
        launch = values["t0_us"] * 1e-6 > _SEEN * total
        compute = self._without_memory(rows, values) > (1 - _SEEN) * total
        memory = total - self._without_memory(rows, values) > _SEEN * total
        middle = rows.tokens * 2 < LONG_PROMPT
        return {
            "t0_us": Evidence(launch, "points where the launch counts"),
            "e_c": Evidence(
                compute & (rows.tokens >= LONG_PROMPT), f"compute-bound points from {LONG_PROMPT} tokens on"
            ),
            "e_m": Evidence(memory, "points where memory counts"),
            "s_half": Evidence(middle, f"prompts below {LONG_PROMPT // 2} tokens"),
            "c_tail": Evidence(rows.batch * rows.heads < self.gpu.sm_count, "batches with fewer heads than SMs"),
        }

    def regimes(self, rows: AttentionRows, values: Values) -> Mapping[str, Mask]:
        launch = values["t0_us"] * 1e-6 > 0.5 * self.seconds(rows, values)
        long = rows.tokens >= LONG_PROMPT
        return {
            "launch-bound": launch,
            f"prompts below {LONG_PROMPT} tokens": ~launch & ~long,
            f"prompts from {LONG_PROMPT} tokens": ~launch & long,
        }

    def _without_memory(self, rows: AttentionRows, values: Values) -> Floats:
        return self.seconds(rows, {**values, "e_m": _FREE})


@dataclass(frozen=True)
class DecodeFit:
    """One new token a sequence. kv_bytes: per element of the cache."""

    gpu: Gpu
    kv_bytes: float

    coefficients = _DECODE

    def seconds(self, rows: AttentionRows, values: Values) -> Floats:
        # the form takes arrays as it does numbers
        form = decode_attention(
            decode_coefficients(values),
            num_heads=rows.heads,  # type: ignore[arg-type]
            num_kv_heads=rows.kv_heads,  # type: ignore[arg-type]
            head_dim=rows.head_dim,  # type: ignore[arg-type]
            kv_bytes=self.kv_bytes,
            bytes_per_s=self.gpu.memory_bytes_per_s,
            sm_count=self.gpu.sm_count,
        )
        contexts = form.per_context_token_s * rows.batch * rows.tokens + form.per_longest_token_s * rows.tokens
        return np.asarray(form.fixed_s + form.per_request_s * rows.batch + contexts)

    def weights(self, rows: AttentionRows) -> Floats:
        return np.ones(len(rows))

    def shapes(self, rows: AttentionRows) -> NDArray[np.int64]:
        return _shapes(rows)

    def evidence(self, rows: AttentionRows, values: Values) -> Mapping[str, Evidence]:
        launch = values["t0_us"] * 1e-6 > _SEEN * self.seconds(rows, values)
        items = rows.batch * rows.kv_heads
        few_and_long = (items < self.gpu.sm_count) & (rows.tokens >= LONG_CONTEXT)
        return {
            "t0_us": Evidence(launch, "points where the launch counts"),
            "e_m": Evidence(self._memory_bound(rows, values), "memory-bound points"),
            "c_item_us": Evidence(items > self.gpu.sm_count, "points with more requests times KV heads than SMs"),
            "c_ctx_us_per_1k": Evidence(few_and_long, f"points with few requests of {LONG_CONTEXT} tokens or more"),
        }

    def regimes(self, rows: AttentionRows, values: Values) -> Mapping[str, Mask]:
        memory = self._memory_bound(rows, values)
        long = rows.tokens >= LONG_CONTEXT
        return {
            "launch-bound": ~memory,
            "memory-bound": memory,
            f"contexts below {LONG_CONTEXT} tokens": ~long,
            f"contexts from {LONG_CONTEXT} tokens": long,
        }

    def _memory_bound(self, rows: AttentionRows, values: Values) -> Mask:
        """Whether the KV cache takes half of the time."""
        without = self.seconds(rows, {**values, "e_m": _FREE})
        return np.asarray(without < 0.5 * self.seconds(rows, values))


def prefill_coefficients(values: Values) -> PrefillCoefficients:
    return PrefillCoefficients(
        t0_s=values["t0_us"] * 1e-6,
        e_c=values["e_c"],
        e_m=values["e_m"],
        s_half_tokens=values["s_half"],
        c_tail=values["c_tail"],
    )


def prefill_values(c: PrefillCoefficients) -> dict[str, float]:
    """By the names of the files."""
    return {"t0_us": c.t0_s * 1e6, "e_c": c.e_c, "e_m": c.e_m, "s_half": c.s_half_tokens, "c_tail": c.c_tail}


def decode_coefficients(values: Values) -> DecodeCoefficients:
    return DecodeCoefficients(
        t0_s=values["t0_us"] * 1e-6,
        e_m=values["e_m"],
        c_item_s=values["c_item_us"] * 1e-6,
        c_ctx_s_per_token=values["c_ctx_us_per_1k"] * 1e-9,
    )


def decode_values(c: DecodeCoefficients) -> dict[str, float]:
    """By the names of the files."""
    return {
        "t0_us": c.t0_s * 1e6,
        "e_m": c.e_m,
        "c_item_us": c.c_item_s * 1e6,
        "c_ctx_us_per_1k": c.c_ctx_s_per_token * 1e9,
    }
