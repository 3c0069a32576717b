"""Attention coefficients come back from the times that they make."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from builders import a_gpu, real_engine
from servecast.model.calibration.attention import (
    AttentionRows,
    DecodeFit,
    PrefillFit,
    decode_values,
    prefill_coefficients,
    prefill_values,
)
from servecast.model.calibration.fitting import Values, fit

KERNELS = real_engine().default_kernels


def rows(batches: list[int], lengths: list[int]) -> AttentionRows:
    heads = [(32, 8, 128), (8, 1, 128), (16, 16, 128)]
    sizes = [(b, t, *kind) for b in batches for t in lengths for kind in heads]
    batch, tokens, *kinds = (np.array(column) for column in zip(*sizes, strict=True))
    return AttentionRows(np.ones(len(sizes)), batch.astype(float), tokens.astype(float), *kinds)


def made_by(form: PrefillFit | DecodeFit, blank: AttentionRows, values: Values) -> AttentionRows:
    return replace(blank, seconds=form.seconds(blank, values))


def test_prefill() -> None:
    form, true = PrefillFit(a_gpu()), {"t0_us": 9.0, "e_c": 0.5, "e_m": 0.6, "s_half": 200.0, "c_tail": 0.2}
    measured = made_by(form, rows([1, 4, 16], [16, 64, 256, 1024, 4096, 16384]), true)

    found = fit(form, measured, prefill_values(KERNELS.prefill))

    assert found.values == pytest.approx(true, rel=0.02)
    assert prefill_values(prefill_coefficients(found.values)) == pytest.approx(found.values)


def test_decode() -> None:
    form, true = DecodeFit(a_gpu(), 2.0), {"t0_us": 8.0, "e_m": 0.8, "c_item_us": 3.0, "c_ctx_us_per_1k": 0.5}
    measured = made_by(form, rows([1, 8, 64, 256], [16, 512, 4096, 32768]), true)

    assert fit(form, measured, decode_values(KERNELS.decode)).values == pytest.approx(true, rel=0.01)


def test_short_contexts_do_not_tell_of_bandwidth_and_length() -> None:
    form, defaults = DecodeFit(a_gpu(), 2.0), decode_values(KERNELS.decode)
    found = fit(form, made_by(form, rows([1, 8, 32], [16, 64, 128, 256]), defaults), defaults)

    assert "memory-bound points among 36 points" in found.kept["e_m"]
    assert found.kept["c_ctx_us_per_1k"].startswith("no points with few requests of 4096 tokens or more")
    assert "launch-bound" in found.by_regime


def test_an_8_bit_cache_has_half_the_bytes() -> None:
    values = decode_values(KERNELS.decode) | {"c_ctx_us_per_1k": 0.0, "t0_us": 0.0, "c_item_us": 0.0}
    long = rows([64], [32768])

    wide, narrow = (DecodeFit(a_gpu(), size).seconds(long, values) for size in (2.0, 1.0))
    assert wide == pytest.approx(2 * narrow, rel=1e-3)
