"""Attention rows of kernel tables: prefill and decode, by head size and number type of the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from servecast.configs.kernel_tables.choice import Choice
from servecast.configs.kernel_tables.group import (
    FLUSHED,
    L2_MARGIN,
    SIXTEEN_BIT,
    Chosen,
    Group,
    nothing,
    rows_of_kind,
)
from servecast.configs.kernel_tables.read import KernelTable
from servecast.hardware.engines import EngineProfile, KernelCoefficients
from servecast.hardware.gpus import Gpu
from servecast.model.calibration.attention import (
    AttentionRows,
    DecodeFit,
    PrefillFit,
    decode_values,
    prefill_values,
)
from servecast.model.calibration.fitting import Values

# Head size -> the ending of its groups' names. Other sizes have the coefficients of 128.
_ENDINGS = {128: "", 64: "_hd64", 256: "_hd256"}
# A KV cache up to here is so small that its bytes do not matter.
_NO_BYTES = 1e6


def attention_groups(tables: Sequence[KernelTable], gpu: Gpu, engine: EngineProfile) -> list[Chosen]:
    """Three groups for each head size: prefill, decode, and decode with an FP8 cache."""
    start = rows_of_kind(tables, "attention", gpu)
    if start is None:
        return []
    start.of_engine(engine.engine).newest()
    start.keep(start.rows["window_size"].astype(float) == 0, "with a sliding window")
    start.keep(start.rows["attn_dtype"].isin(SIXTEEN_BIT), "that compute in 8 bit")
    start.keep(start.rows["head_dim"].isin(list(_ENDINGS)), "of head sizes other than 64, 128 and 256")
    if not len(start):
        return [("attention", start, nothing)]
    kernels = engine.kernels_for(gpu.key)
    return [chosen for size in _ENDINGS for chosen in _of_head_size(start, size, gpu, kernels)]


def _of_head_size(start: Choice, size: int, gpu: Gpu, kernels: KernelCoefficients) -> Iterator[Chosen]:
    mine = start.copy().only(start.rows["head_dim"] == size)
    prefill, wide = mine.rows["step"] == 0, mine.rows["kv_cache_dtype"].isin(SIXTEEN_BIT)
    name, defaults = f"prefill{_ENDINGS[size]}", prefill_values(kernels.prefill_for(size))
    yield (
        name,
        mine.copy().only(prefill & wide),
        lambda choice: _group(name, PrefillFit(gpu), "isl", defaults, choice),
    )
    for kind, kv_bytes, of_cache in (("decode", 2.0, wide), ("decode_fp8_kv", 1.0, ~wide)):
        start_values = decode_values(kernels.decode_for(size, fp8_kv=kv_bytes == 1.0))
        rows = mine.copy().only(~prefill & of_cache)
        yield _decode(f"{kind}{_ENDINGS[size]}", DecodeFit(gpu, kv_bytes), rows, start_values)


def _decode(name: str, form: DecodeFit, choice: Choice, defaults: Values) -> Chosen:
    rows = choice.rows
    choice.rows = rows.assign(context=rows["step"] + 1)
    size = 2 * form.kv_bytes * rows["batch_size"] * choice.rows["context"] * rows["num_key_value_heads"]
    size = size * rows["head_dim"]
    cold = (size >= L2_MARGIN * form.gpu.l2_mb * 1e6) | (size <= _NO_BYTES) | (rows["cache"] == FLUSHED)
    if len(rows):
        choice.keep(cold, "whose KV cache stays in the L2 cache")
    return name, choice, lambda choice: _group(name, form, "context", defaults, choice)


def _group(name: str, form: PrefillFit | DecodeFit, tokens: str, defaults: Values, choice: Choice) -> Group:
    heads = (choice.column(c).astype(np.int64) for c in ("num_heads", "num_key_value_heads", "head_dim"))
    seconds = choice.column("latency_us") * 1e-6
    rows = AttentionRows(seconds, choice.column("batch_size"), choice.column(tokens), *heads)
    return Group.of(name, form, rows, defaults, choice)
