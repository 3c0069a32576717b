"""GEMM forms to fit: 16 bit, FP8 and NVFP4."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from servecast.hardware.engines import GemmCoefficients
from servecast.model.calibration.fitting import Coefficient, Evidence, Floats, Mask, Rows, Values
from servecast.model.kernels import GemmForm, GemmTime

_BOUNDS = (
    Coefficient("t0_us", 0.0, 100.0, scale=2.0),
    Coefficient("e_c", 0.2, 1.1, open_end=True),
    Coefficient("e_m", 0.2, 1.1, open_end=True),
    Coefficient("p", 1.0, 12.0, open_end=True),
)
_TILES = (Coefficient("s", 0.0, 3.0, scale=0.3), Coefficient("q", 0.3, 1.5))
# A point is of the knee if neither limit is more than this many times the other.
_KNEE = 2.0
# The launch is seen in a time of which it makes this share.
_LAUNCH_SHARE = 0.15
# Tokens up to which a GEMM is a decode step's, and from which it is a prompt's.
SMALL_M, LARGE_M = 64, 512


@dataclass(frozen=True)
class GemmRows(Rows):
    """y[m, n] = x[m, k] W[n, k]^T"""

    m: Floats
    n: Floats
    k: Floats


@dataclass(frozen=True)
class GemmFit:
    """form: of the number type and the GPU; of its coefficients only those that are not fitted matter."""

    form: GemmForm

    @property
    def coefficients(self) -> tuple[Coefficient, ...]:
        """The starvation of output tiles exists where activations are quantised."""
        return (*_BOUNDS, *_TILES) if self.form.quant_bytes else _BOUNDS

    def kept_entries(self, t0_us: float) -> dict[str, float]:
        """What of the launch time is the quantisation's, which no table tells: as the profile has it."""
        quant_us = min(self.form.coefficients.quant_s * 1e6, t0_us)
        return {"quant_us": quant_us} if quant_us else {}

    def seconds(self, rows: GemmRows, values: Values) -> Floats:
        return np.asarray(self._time(rows, values).total_s)

    def weights(self, rows: GemmRows) -> Floats:
        """Every octave of tokens counts the same: tables have many more points at some sizes than at others."""
        octave = np.floor(np.log2(rows.m))
        _, position, counts = np.unique(octave, return_inverse=True, return_counts=True)
        weights = 1.0 / counts[position]
        return np.asarray(weights / weights.mean())

    def shapes(self, rows: GemmRows) -> NDArray[np.int64]:
        """A weight matrix with any number of tokens is one shape."""
        return np.unique(np.stack([rows.n, rows.k]), axis=1, return_inverse=True)[1].astype(np.int64)

    def evidence(self, rows: GemmRows, values: Values) -> Mapping[str, Evidence]:
        regimes = self.regimes(rows, values)
        time = self._time(rows, values)
        # p = 1 adds the two limits, a large p takes the larger one
        larger = self._limits(rows, {**values, "p": 100.0})
        smaller = self._limits(rows, {**values, "p": 1.0}) - larger
        return {
            "t0_us": Evidence(
                np.asarray(time.fixed_s > _LAUNCH_SHARE * time.total_s), "points where the launch counts"
            ),
            "e_c": Evidence(regimes["compute-bound"], "compute-bound points"),
            "e_m": Evidence(regimes["memory-bound"], "memory-bound points"),
            "p": Evidence(smaller > larger / _KNEE, "points between memory-bound and compute-bound"),
        }

    def regimes(self, rows: GemmRows, values: Values) -> Mapping[str, Mask]:
        time = self._time(rows, values)
        launch = np.asarray(time.fixed_s > 0.5 * time.total_s)
        compute = np.asarray(time.compute_s > 0) & ~launch
        return {
            "launch-bound": launch,
            "memory-bound": ~compute & ~launch,
            "compute-bound": compute,
            f"up to {SMALL_M} tokens": rows.m <= SMALL_M,
            f"{SMALL_M + 1} to {LARGE_M} tokens": (rows.m > SMALL_M) & (rows.m <= LARGE_M),
            f"above {LARGE_M} tokens": rows.m > LARGE_M,
        }

    def _limits(self, rows: GemmRows, values: Values) -> Floats:
        time = self._time(rows, values)
        return np.asarray(time.compute_s + time.memory_s)

    def _time(self, rows: GemmRows, values: Values) -> GemmTime:
        form = replace(self.form, coefficients=gemm_coefficients(values))
        # the form multiplies arrays as it does numbers
        return form.seconds(rows.m, rows.n, rows.k)  # type: ignore[arg-type]


def gemm_coefficients(values: Values) -> GemmCoefficients:
    return GemmCoefficients(
        t0_s=values["t0_us"] * 1e-6,
        e_c=values["e_c"],
        e_m=values["e_m"],
        p=values["p"],
        s=values.get("s", 0.0),
        starvation_power=values.get("q", 1.0),
    )


def gemm_values(c: GemmCoefficients, form: GemmForm) -> dict[str, float]:
    """By the names of the files. A starvation that was measured on a sibling becomes one of `form`'s own GPU."""
    peak, sm_count = c.tile_measured_on or (form.peak_flops, form.sm_count)
    s = c.s * (sm_count / form.sm_count) ** c.starvation_power * form.peak_flops / peak
    return {"t0_us": c.t0_s * 1e6, "e_c": c.e_c, "e_m": c.e_m, "p": c.p, "s": s, "q": c.starvation_power}
