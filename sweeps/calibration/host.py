"""Fits what the host adds (a step, a request in it, a request at the server) to measured runs, by simulating them.

Robust least squares on log(predicted / measured) of mean TPOT and mean TTFT. With few runs there is little to fit: what
they do not show stays as it was, and the error is that of leaving each run out in turn where there are runs enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from servecast.configs.measured import MeasuredRun
from servecast.hardware.engines import EngineProfile, HostTimes
from servecast.hardware.errors import ConfigError
from servecast.hardware.gpus import Gpu
from servecast.model.calibration.fitting import ErrorPair, error_pair
from servecast.sweeps.validation.predict import predict_run

Floats = NDArray[np.float64]
Progress = Callable[[int, int], None]

# Name in the profile -> (low, high, unit in seconds): what a host can plausibly take.
BOUNDS = {"step_ms": (0.0, 20.0, 1e-3), "request_us": (0.0, 500.0, 1e-6), "server_ms": (0.0, 500.0, 1e-3)}
_FIELDS = {"step_ms": "step_s", "request_us": "request_s", "server_ms": "server_s"}
FIGURES = ("tpot", "ttft")
# A time is known if a twentieth of its range (1 ms, 25 us, 25 ms) moves a figure by more than this.
_LEAST_EFFECT = 0.01
# Running requests must differ by this factor between runs to tell the time of a step from that of a request in it.
_BATCH_FACTOR = 2.0
_MOST_ITERATIONS = 8
_LEAVE_OUT_FROM = 3


@dataclass(frozen=True)
class HostFit:
    """values: by the names of the profile. kept: name -> why it stays. before, after: error by figure over the runs.

    held_out: whether `after` predicts each run from the others (by the linearised model), else it is in-sample.
    """

    values: Mapping[str, float]
    kept: Mapping[str, str]
    before: Mapping[str, ErrorPair]
    after: Mapping[str, ErrorPair]
    held_out: bool

    @property
    def fitted(self) -> tuple[str, ...]:
        return tuple(name for name in self.values if name not in self.kept)


def fit_host(runs: Sequence[MeasuredRun], start: HostTimes, progress: Progress | None = None) -> HostFit:
    """start: where the search begins, and what is kept. Raises ConfigError for a run that cannot be simulated, and for
    runs without the figures.

    progress: called with (simulations done, about how many there are).
    """
    simulate = _Simulated(runs, start, progress)
    defaults = {name: getattr(start, field) / BOUNDS[name][2] for name, field in _FIELDS.items()}
    measured, figure_of = simulate.measured, simulate.figure_of
    base = simulate(defaults)
    slopes = {name: _slope(simulate, defaults, name, base) for name in BOUNDS}
    kept = _unknown(slopes, runs)
    free = [name for name in BOUNDS if name not in kept]
    values = _solve(simulate, defaults, free) if free else defaults
    at = simulate(values)
    after, held_out = at, False
    if free and len(runs) >= _LEAVE_OUT_FROM:
        after, held_out = _left_out(simulate, values, free, at), True
    return HostFit(values, kept, _errors(base, measured, figure_of), _errors(after, measured, figure_of), held_out)


class _Simulated:
    """Predicted figures of all runs under given host times; one entry for each figure that was measured."""

    def __init__(self, runs: Sequence[MeasuredRun], start: HostTimes, progress: Progress | None) -> None:
        self._runs, self._start, self._progress, self._done = runs, start, progress, 0
        entries = [(i, name) for i, run in enumerate(runs) for name in FIGURES if name in run.compared]
        if not entries:
            raise ConfigError("the runs have no mean TPOT and no mean TTFT: they do not tell of the host")
        self._entries = entries
        self.run_of = np.array([i for i, _ in entries])
        self.figure_of = [name for _, name in entries]
        self.measured = np.array([runs[i].compared[name] for i, name in entries])

    def __call__(self, values: Mapping[str, float]) -> Floats:
        times = {field: values[name] * BOUNDS[name][2] for name, field in _FIELDS.items()}
        host = replace(self._start, **times)
        found = [self._figures(run, host) for run in self._runs]
        return np.array([found[i][name] for i, name in self._entries])

    def _figures(self, run: MeasuredRun, host: HostTimes) -> Mapping[str, float]:
        prediction = predict_run(run, {"predicted": partial(_with_host, host=host)})
        if prediction.problem is not None:
            raise ConfigError(f"{run.place}: cannot be simulated: {prediction.problem}")
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, max(self._done, 5 * (_MOST_ITERATIONS - 2) * len(self._runs)))
        return prediction.figures["predicted"]


def _with_host(profile: EngineProfile, _gpu: Gpu, *, host: HostTimes) -> EngineProfile:
    return replace(profile, host=host)


def _slope(simulate: _Simulated, values: Mapping[str, float], name: str, at: Floats) -> Floats:
    """Change of each figure's logarithm over a twentieth of the range of `name`."""
    low, high, _ = BOUNDS[name]
    return np.asarray(np.log(simulate({**values, name: values[name] + (high - low) / 20}) / at))


def _unknown(slopes: Mapping[str, Floats], runs: Sequence[MeasuredRun]) -> dict[str, str]:
    kept = {
        name: "no figure of these runs depends on it (the GPU's work hides it, or the queue)"
        for name, slope in slopes.items()
        if np.abs(slope).max() < _LEAST_EFFECT
    }
    batches = [size for size in map(_running, runs) if size is not None]
    if len(batches) < 2 or max(batches) < _BATCH_FACTOR * min(batches):
        few = "needs runs whose numbers of running requests differ by a factor of 2"
        kept.setdefault("request_us", few)
    return kept


def _running(run: MeasuredRun) -> float | None:
    """Running requests on average, by Little's law."""
    figures = run.figures
    return figures["throughput"] * figures["tpot"] * 1e-3 if {"throughput", "tpot"} <= set(figures) else None


def _solve(simulate: _Simulated, defaults: Mapping[str, float], free: Sequence[str]) -> dict[str, float]:
    low, high = np.array([BOUNDS[name][0] for name in free]), np.array([BOUNDS[name][1] for name in free])
    # Shifted by a tenth of the range, so that a relative step is one of a sensible size at 0 too.
    shift = (high - low) / 10

    def values(x: Floats) -> dict[str, float]:
        return {**defaults, **dict(zip(free, (x - shift).tolist(), strict=True))}

    def residuals(x: Floats) -> Floats:
        return np.asarray(np.log(simulate(values(x)) / simulate.measured))

    start = np.clip([defaults[name] for name in free], low, high) + shift
    found = least_squares(
        residuals,
        start,
        bounds=(low + shift - 1e-9, high + shift),
        loss="soft_l1",
        f_scale=0.1,
        x_scale=shift,
        diff_step=0.05,
        max_nfev=_MOST_ITERATIONS,
        xtol=1e-4,
        ftol=1e-4,
    )
    return {name: max(value, 0.0) for name, value in values(found.x).items()}


def _left_out(simulate: _Simulated, values: Mapping[str, float], free: Sequence[str], at: Floats) -> Floats:
    """What each run would be predicted to be, had it not been fitted: from the slopes at `values`."""
    slopes = np.stack([_slope(simulate, values, name, at) for name in free], axis=1)
    residual = np.log(at / simulate.measured)
    predicted = at.copy()
    for run in np.unique(simulate.run_of):
        out = simulate.run_of == run
        change, *_ = np.linalg.lstsq(slopes[~out], -residual[~out], rcond=None)
        predicted[out] = at[out] * np.exp(slopes[out] @ change)
    return predicted


def _errors(predicted: Floats, measured: Floats, figure_of: Sequence[str]) -> dict[str, ErrorPair]:
    names = np.array(figure_of)
    return {name: error_pair(predicted[names == name], measured[names == name]) for name in dict.fromkeys(figure_of)}
