"""Seconds that one kernel takes: the calibrated roofline forms of docs/model.md, as plain functions.

All sizes are per GPU, after tensor parallelism. Token counts may be arrays (then so is the result). The forms and their
held-out errors come from a study of public kernel measurements; the coefficients, each with its residual and source,
stand in hardware/engines/kernels/.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from servecast.hardware.engines import DecodeCoefficients, GemmCoefficients, PrefillCoefficients
from servecast.hardware.engines.profile import TOKEN_EDGES

Floats = NDArray[np.float64]

# Columns of one output tile row of an 8-bit GEMM: M*N below 16384 per SM leaves SMs without work.
_TILE_ELEMENTS = 16384
# Width of the query tile of a prefill attention kernel; the last one runs on few SMs.
_QUERY_TILE = 128


@dataclass(frozen=True)
class GemmTime:
    """Time of a GEMM in seconds by cause: fixed (launch, quantisation), and the larger of two limits.

    compute_s is 0 where memory is the limit, memory_s is 0 where compute is.
    """

    fixed_s: Any
    compute_s: Any
    memory_s: Any

    @property
    def total_s(self) -> Any:
        return self.fixed_s + self.compute_s + self.memory_s

    def at_least(self, seconds: float) -> GemmTime:
        """Times of less than `seconds` stretched to that, in all their parts alike."""
        stretch = np.maximum(seconds / self.total_s, 1.0)
        return GemmTime(self.fixed_s * stretch, self.compute_s * stretch, self.memory_s * stretch)

    def where(self, condition: Any, other: GemmTime) -> GemmTime:
        """These times where `condition` holds, else those of `other`."""
        return GemmTime(
            np.where(condition, self.fixed_s, other.fixed_s),
            np.where(condition, self.compute_s, other.compute_s),
            np.where(condition, self.memory_s, other.memory_s),
        )


@dataclass(frozen=True)
class GemmForm:
    """How a weight dtype is multiplied on a GPU.

    weight_bytes, activation_bytes: per element as read by the kernel. quant_bytes: traffic of the
    activation-quantisation kernel per element of the activation. peak_flops, bytes_per_s: datasheet figures that the
    coefficients scale.
    """

    coefficients: GemmCoefficients
    weight_bytes: float
    activation_bytes: float
    quant_bytes: float
    peak_flops: float
    bytes_per_s: float
    sm_count: int

    def seconds(self, m: Floats, n: float, k: float) -> GemmTime:
        """y[m, n] = x[m, k] W[n, k]^T, output in 16 bit; `m` tokens (array, >= 1)."""
        c = self.coefficients
        compute = 2.0 * m * n * k / (c.e_c * self.peak_flops) + self._starved_s(m, n, k)
        traffic = self.weight_bytes * n * k + self.activation_bytes * m * k + 2.0 * m * n
        memory = traffic / (c.e_m * self.bytes_per_s)
        fixed = c.t0_s + self.quant_bytes * m * k / (c.e_m * self.bytes_per_s)
        both = pnorm(compute, memory, c.p)
        bound, factor = compute > memory, self._kernel_factor(m)
        return GemmTime(fixed * factor, np.where(bound, both, 0.0) * factor, np.where(bound, 0.0, both) * factor)

    @property
    def of_quantised(self) -> GemmForm:
        """The form where the kernel before it hands over activations that are quantised already."""
        c = self.coefficients
        launch_s = max(c.t0_s - c.quant_s, 0.0)
        return replace(self, quant_bytes=0.0, coefficients=replace(c, t0_s=launch_s, quant_s=0.0))

    def _kernel_factor(self, m: Floats) -> Any:
        """What the kernel that the library chooses for `m` tokens takes longer than the form."""
        factors = self.coefficients.by_tokens
        return np.asarray(factors)[np.searchsorted(TOKEN_EDGES, m)] if factors else 1.0

    def _starved_s(self, m: Floats, n: float, k: float) -> Any:
        """What too few output tiles cost: the time that a tile took an SM of the GPU on which it was measured."""
        c, measured = self.coefficients, self.coefficients.tile_measured_on
        peak, sm_count = (self.peak_flops, self.sm_count) if measured is None else measured
        share = c.s * (_TILE_ELEMENTS * sm_count / (m * n)) ** c.starvation_power
        return share * 2.0 * m * n * k / (c.e_c * peak)


def pnorm(a: Floats, b: Floats, p: float) -> Floats:
    """(a^p + b^p)^(1/p): a smooth maximum, written so that tiny times do not underflow."""
    high, low = np.maximum(a, b), np.minimum(a, b)
    return np.asarray(high * (1.0 + (low / high) ** p) ** (1.0 / p))


@dataclass(frozen=True)
class PrefillAttention:
    """Causal attention of prompt chunks in one layer. Heads per GPU; sizes in tokens; `window` None for all tokens."""

    coefficients: PrefillCoefficients
    num_heads: int
    num_kv_heads: int
    head_dim: int
    window: int | None
    peak_flops: float
    bytes_per_s: float
    sm_count: int

    @cached_property
    def fixed_s(self) -> float:
        """Once per step that holds any prefill chunk."""
        return self.coefficients.t0_s

    @cached_property
    def tail_s_per_token(self) -> float:
        """Once per step, times the longest chunk: the last query tiles run on few SMs."""
        c = self.coefficients
        flops = c.c_tail * 4 * _QUERY_TILE * self.head_dim * self.sm_count
        return flops / (c.e_c * self.peak_flops)

    @cached_property
    def _compute_s_per_pair(self) -> float:
        return 4.0 * self.num_heads * self.head_dim / (self.coefficients.e_c * self.peak_flops)

    @cached_property
    def _memory_s_per_head(self) -> float:
        """For one token and one head: its vector of 2 B an element."""
        return 2.0 * self.head_dim / (self.coefficients.e_m * self.bytes_per_s)

    def chunk_seconds(self, cached: int, tokens: int) -> float:
        """`tokens` new ones after `cached` that are in the KV cache already; without the fixed and tail parts."""
        pairs = attended_pairs(cached, tokens, self.window) + tokens * self.coefficients.s_half_tokens / 2
        visible = cached if self.window is None else min(cached, self.window)
        # q and o of the chunk, its k and v (computed, then written to the cache), K and V of the visible prefix
        heads = tokens * (2 * self.num_heads + 4 * self.num_kv_heads) + visible * 2 * self.num_kv_heads
        return pairs * self._compute_s_per_pair + heads * self._memory_s_per_head


def attended_pairs(cached: int, tokens: int, window: int | None) -> float:
    """Query-key pairs of a causal chunk: the sum over its tokens of the context that each sees.

    Without a window token i (from 1) counts cached + (i/2 on average), as the calibrated form has it: tokens*(cached
    + tokens/2). With one, no token sees more than `window`.
    """
    if window is None or cached + tokens <= window:
        return tokens * (cached + tokens / 2)
    growing = max(window - cached, 0)
    return growing * (cached + growing / 2) + (tokens - growing) * window


@dataclass(frozen=True)
class DecodeAttention:
    """Attention of one new token for each of b requests in one layer, affine in what it depends on:

    fixed_s + per_request_s * b + per_context_token_s * S + per_longest_token_s * Lmax
    with S the sum of contexts (cut at the window, if any) and Lmax the longest (likewise).
    """

    fixed_s: float
    per_request_s: float
    per_context_token_s: float
    per_longest_token_s: float


def decode_attention(
    coefficients: DecodeCoefficients,
    *,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    kv_bytes: float,
    bytes_per_s: float,
    sm_count: int,
) -> DecodeAttention:
    """Heads per GPU; `kv_bytes` per element of the cache."""
    c = coefficients
    reach = c.e_m * bytes_per_s
    return DecodeAttention(
        fixed_s=c.t0_s,
        per_request_s=4.0 * num_heads * head_dim / reach + c.c_item_s * num_kv_heads / sm_count,
        per_context_token_s=2.0 * num_kv_heads * head_dim * kv_bytes / reach,
        per_longest_token_s=c.c_ctx_s_per_token,
    )
