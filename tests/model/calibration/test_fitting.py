"""What a fit finds in times that were made with known coefficients, and what it refuses to find."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from builders import a_gpu, real_engine
from servecast.model.calibration.fitting import Floats, error_pair, fit, fold_numbers
from servecast.model.calibration.gemm import GemmFit, GemmRows, gemm_values
from servecast.model.precision import gemm_form

TRUE = {"t0_us": 5.0, "e_c": 0.7, "e_m": 0.8, "p": 3.0, "s": 0.0, "q": 1.0}
SIDES = np.array([512, 1024, 2048, 4096, 8192])


def gemm_16bit() -> GemmFit:
    gpu = a_gpu()
    return GemmFit(gemm_form("bfloat16", gpu, real_engine().kernels_for(gpu.key)))


DEFAULTS = gemm_values(real_engine().default_kernels.gemm["16bit"], gemm_16bit().form)


def gemm_rows(m: Floats | list[int], noise: float = 0.0) -> GemmRows:
    """Every pair of SIDES with each of `m` tokens, as TRUE has them."""
    tokens, n, k = (axis.ravel().astype(np.float64) for axis in np.meshgrid(np.asarray(m), SIDES, SIDES))
    blank = GemmRows(np.ones(len(tokens)), tokens, n, k)
    random = np.exp(np.random.default_rng(0).normal(0.0, noise, len(tokens)))
    return replace(blank, seconds=gemm_16bit().seconds(blank, TRUE) * random)


def test_finds_the_coefficients_that_made_the_times() -> None:
    found = fit(gemm_16bit(), gemm_rows([1, 16, 64, 256, 1024, 8192]), DEFAULTS)

    assert found.kept == {}
    assert {name: found.values[name] for name in found.free} == pytest.approx(
        {n: TRUE[n] for n in found.free}, rel=1e-3
    )
    assert found.heldout.median_pct < 0.01


def test_noise_shows_as_the_error_of_what_was_held_out() -> None:
    found = fit(gemm_16bit(), gemm_rows([1, 16, 64, 256, 1024, 8192], noise=0.05), DEFAULTS)

    assert found.values["e_c"] == pytest.approx(TRUE["e_c"], rel=0.03)
    # the median of |normal(0, 5 %)| is 3.4 %
    assert found.heldout.median_pct == pytest.approx(3.4, abs=0.7)
    assert set(found.by_regime) >= {"memory-bound", "compute-bound", "up to 64 tokens"}


def test_decode_sized_gemms_do_not_tell_of_the_peak() -> None:
    found = fit(gemm_16bit(), gemm_rows([1, 2, 4, 8, 16]), DEFAULTS)

    assert found.values["e_c"] == DEFAULTS["e_c"]
    assert found.kept["e_c"] == "no compute-bound points among 125 points (3 shapes needed)"
    assert found.values["e_m"] == pytest.approx(TRUE["e_m"], rel=0.02)


def test_a_coefficient_that_nothing_depends_on_stays_at_its_default() -> None:
    """Two of three points are compute-bound; nothing lies where launches would show."""
    form, rows = gemm_16bit(), gemm_rows([4096, 8192, 16384])
    large = rows.where((rows.n >= 4096) & (rows.k >= 4096))
    found = fit(form, GemmRows(*(np.tile(column, 4) for column in vars(large).values())), DEFAULTS)

    assert found.free == ()
    assert found.values == DEFAULTS
    assert "shapes" in found.kept["t0_us"]


def test_times_shorter_than_the_machine_allows_run_into_a_bound() -> None:
    """Weights that stayed in the cache, say."""
    rows = gemm_rows([1, 16, 64, 256, 1024, 8192])
    found = fit(gemm_16bit(), replace(rows, seconds=rows.seconds / 3), DEFAULTS)

    assert "runs into its bound 1.1" in found.kept["e_m"]
    assert found.values["e_m"] == DEFAULTS["e_m"]


def test_few_points_determine_nothing() -> None:
    found = fit(gemm_16bit(), gemm_rows([64]).where(slice(0, 5)), DEFAULTS)

    assert found.free == ()
    assert set(found.kept.values()) == {"5 shapes, 8 needed"}


def test_folds_keep_a_shape_together_and_are_always_the_same() -> None:
    shapes = np.repeat(np.arange(12), 3)
    folds = fold_numbers(shapes, 4)

    assert all(len(set(folds[shapes == shape])) == 1 for shape in range(12))
    assert sorted(np.bincount(folds)) == [9, 9, 9, 9]
    assert (folds == fold_numbers(shapes, 4)).all()


def test_error_is_relative_to_the_measurement() -> None:
    error = error_pair(np.array([1.1, 0.8, 1.0]), np.array([1.0, 1.0, 1.0]))

    assert (error.points, round(error.median_pct, 9), round(error.bias_pct, 9)) == (3, 10.0, 0.0)
    assert str(error) == "10.0%/18.0%"
