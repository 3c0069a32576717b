"""Fits the coefficients of one kernel form: robust least squares on log(predicted / measured), on what the data show.

A coefficient that the data do not determine keeps its default, with the reason said. The error is that of
cross-validation by shape: each shape is predicted by a fit that has not seen it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Values = Mapping[str, float]

# Folds of the cross-validation.
FOLDS = 5
# Distinct shapes that a coefficient's regime must have.
LEAST_SHAPES = 3
# Residuals (natural logarithms) up to here count squared, larger ones linearly.
_ROBUST_SCALE = 0.1
# A standard error above this share of the coefficient, or of its scale if that is larger, means that it is not known.
# On 32 random FP8 shapes of the H100 a limit of 0.3 gives 12.1 % on the others, 0.6 gives 10.5 %, 1.0 gives 10.0 %: the
# universal default is a worse guess than a rough fit.
_LARGEST_SHARE = 0.6
# How near to a bound (share of the range) a coefficient counts as running into it.
_AT_BOUND = 1e-3


@dataclass(frozen=True)
class Rows:
    """Measured times, one row a measurement; subclasses add the sizes, arrays of equal length."""

    seconds: Floats

    def where(self, mask: Any) -> Self:
        """The rows of `mask` (or of those numbers)."""
        return replace(self, **{field.name: getattr(self, field.name)[mask] for field in fields(self)})

    def __len__(self) -> int:
        return len(self.seconds)


R = TypeVar("R", bound=Rows)
R_contra = TypeVar("R_contra", bound=Rows, contravariant=True)


@dataclass(frozen=True)
class Coefficient:
    """name: as in the files of coefficients. low, high: what is physically possible. scale: a typical size, for one
    that may be 0. open_end: that running into `high` means "cannot be seen" rather than a finding.
    """

    name: str
    low: float
    high: float
    scale: float = 0.0
    open_end: bool = False


@dataclass(frozen=True)
class Evidence:
    """Which rows tell of a coefficient, and what to call them: `compute-bound points`."""

    rows: Mask
    words: str


class Form(Protocol[R_contra]):
    """A kernel form with free coefficients. All methods are pure; arrays have a row's length."""

    @property
    def coefficients(self) -> tuple[Coefficient, ...]: ...

    def seconds(self, rows: R_contra, values: Values, /) -> Floats:
        """Predicted times."""

    def weights(self, rows: R_contra, /) -> Floats:
        """How much each row counts, 1 on average."""

    def shapes(self, rows: R_contra, /) -> NDArray[np.int64]:
        """Rows of one number are of one shape: they are held out together."""

    def evidence(self, rows: R_contra, values: Values, /) -> Mapping[str, Evidence]:
        """By coefficient; none for those that every row tells of. values: defaults, to tell regimes apart."""

    def regimes(self, rows: R_contra, values: Values, /) -> Mapping[str, Mask]:
        """Names of regimes -> their rows."""


@dataclass(frozen=True)
class ErrorPair:
    """Of |predicted / measured - 1| in percent."""

    points: int
    median_pct: float
    p90_pct: float
    bias_pct: float

    def __str__(self) -> str:
        return f"{self.median_pct:.1f}%/{self.p90_pct:.1f}%"


@dataclass(frozen=True)
class Fit:
    """values: all coefficients. kept: name -> why it stays at its default. free: those that were fitted.

    heldout: error of each row under a fit without its shape. by_regime: the same, of the regimes that have rows.
    standard_errors: of the free coefficients.
    """

    values: Values
    free: tuple[str, ...]
    kept: Mapping[str, str]
    standard_errors: Mapping[str, float]
    heldout: ErrorPair
    by_regime: Mapping[str, ErrorPair]
    shapes: int


def fit(form: Form[R], rows: R, defaults: Values) -> Fit:
    """Fit what `rows` determine. Defaults: for coefficients that they do not, and where the search starts."""
    kept = _without_evidence(form, rows, defaults)
    values, errors = dict(defaults), {}
    free = [c for c in form.coefficients if c.name not in kept]
    while free:
        values = solve(form, rows, defaults, free)
        errors = _standard_errors(form, rows, values, free)
        unknown = _first_unknown(free, values, errors)
        if unknown is None:
            break
        coefficient, why = unknown
        kept[coefficient.name] = why
        free = [c for c in free if c is not coefficient]
    if not free:
        values, errors = dict(defaults), {}
    predicted = cross_validated(form, rows, defaults, free)
    regimes = form.regimes(rows, values)
    measured = rows.seconds
    return Fit(
        values=values,
        free=tuple(c.name for c in free),
        kept=kept,
        standard_errors=errors,
        heldout=error_pair(predicted, measured),
        by_regime={name: error_pair(predicted[mask], measured[mask]) for name, mask in regimes.items() if mask.any()},
        shapes=len(np.unique(form.shapes(rows))),
    )


def error_pair(predicted: Floats, measured: Floats) -> ErrorPair:
    ratio = predicted / measured - 1
    size = np.abs(ratio) * 100
    return ErrorPair(len(size), float(np.median(size)), float(np.quantile(size, 0.9)), float(np.median(ratio)) * 100)


def solve(form: Form[R], rows: R, defaults: Values, free: list[Coefficient]) -> dict[str, float]:
    """All coefficients; those of `free` fitted to `rows`, within their bounds."""
    weights, measured = np.sqrt(form.weights(rows)), rows.seconds

    def residuals(x: Floats) -> Floats:
        return np.asarray(np.log(form.seconds(rows, _with(defaults, free, x)) / measured) * weights)

    low, high = np.array([c.low for c in free]), np.array([c.high for c in free])
    inside = 0.02 * (high - low)
    start = np.clip([defaults[c.name] for c in free], low + inside, high - inside)
    found = least_squares(
        residuals, start, bounds=(low, high), loss="soft_l1", f_scale=_ROBUST_SCALE, x_scale=high - low
    )
    return _with(defaults, free, found.x)


def cross_validated(form: Form[R], rows: R, defaults: Values, free: list[Coefficient]) -> Floats:
    """Times that fits without the row's shape predict."""
    if not free:
        return form.seconds(rows, defaults)
    folds = fold_numbers(form.shapes(rows))
    predicted = np.empty(len(rows))
    for fold in np.unique(folds):
        out = folds == fold
        values = solve(form, rows.where(~out), defaults, free) if not out.all() else dict(defaults)
        predicted[out] = form.seconds(rows.where(out), values)
    return predicted


def fold_numbers(shapes: NDArray[np.int64], folds: int = FOLDS) -> NDArray[np.int64]:
    """For each row the fold that its shape is held out in: shapes dealt out in an order that is always the same."""
    distinct, position = np.unique(shapes, return_inverse=True)
    dealt = np.empty(len(distinct), dtype=np.int64)
    dealt[np.random.default_rng(0).permutation(len(distinct))] = np.arange(len(distinct)) % folds
    return dealt[position]


def _with(defaults: Values, free: list[Coefficient], x: Floats) -> dict[str, float]:
    return {**defaults, **{c.name: float(value) for c, value in zip(free, x, strict=True)}}


def _without_evidence(form: Form[R], rows: R, defaults: Values) -> dict[str, str]:
    """Coefficients whose regime has too few shapes -> why they stay."""
    shapes = form.shapes(rows)
    reasons = {}
    for name, evidence in form.evidence(rows, defaults).items():
        found = len(np.unique(shapes[evidence.rows]))
        if found < LEAST_SHAPES:
            reasons[name] = f"{_number(found)} {evidence.words} among {len(rows)} points ({LEAST_SHAPES} shapes needed)"
    if len(np.unique(shapes)) < 2 * len(form.coefficients):
        few = f"{len(np.unique(shapes))} shapes, {2 * len(form.coefficients)} needed"
        return {c.name: few for c in form.coefficients}
    return reasons


def _number(count: int) -> str:
    return "no" if count == 0 else f"only {count}"


def _standard_errors(form: Form[R], rows: R, values: Values, free: list[Coefficient]) -> dict[str, float]:
    """From the Jacobian at `values`; a direction that changes nothing gives infinity."""
    weights = np.sqrt(form.weights(rows))
    at = np.log(form.seconds(rows, values))
    columns = []
    for c in free:
        step = 1e-4 * (c.high - c.low) * (-1 if values[c.name] > (c.low + c.high) / 2 else 1)
        moved = np.log(form.seconds(rows, {**values, c.name: values[c.name] + step}))
        columns.append((moved - at) / step * (c.high - c.low) * weights)
    _, singular, directions = np.linalg.svd(np.stack(columns, axis=1), full_matrices=False)
    residual = 1.4826 * np.median(np.abs(np.log(rows.seconds) - at) * weights)
    # Measurements of one shape err together: the shapes count, not the rows.
    spread = residual * np.sqrt(len(rows) / len(np.unique(form.shapes(rows))))
    # A huge number stands for "any value does": infinity times a direction's 0 would be no number.
    reach = spread / np.maximum(singular, 1e-9 * singular[0])
    shares = np.sqrt(np.sum((directions.T * reach) ** 2, axis=1))
    return {c.name: float(share * (c.high - c.low)) for c, share in zip(free, shares, strict=True)}


def _first_unknown(
    free: list[Coefficient], values: Values, errors: Mapping[str, float]
) -> tuple[Coefficient, str] | None:
    """The coefficient that is known least, with the reason; None if all are known."""
    for c in free:
        if c.open_end and values[c.name] > c.high - _AT_BOUND * (c.high - c.low):
            return c, f"the fit runs into its bound {c.high:g}: the data do not show it"
    shares = [errors[c.name] / max(values[c.name], c.scale, 1e-12) for c in free]
    worst = int(np.argmax(shares))
    if shares[worst] <= _LARGEST_SHARE:
        return None
    c = free[worst]
    return c, f"the points hardly depend on it ({values[c.name]:.3g} +- {errors[c.name]:.2g})"
