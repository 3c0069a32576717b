"""What a calibration found: errors before and after, by regime, what stays at its default, what was left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group as RichGroup
from rich.console import RenderableType
from rich.text import Text

from servecast.configs.kernel_tables.profile import FittedGroup
from servecast.model.calibration.fitting import ErrorPair
from servecast.reports.table_formats import to_rich
from servecast.reports.tables import Column, Table
from servecast.reports.units import COUNT, PERCENT, Unit
from servecast.sweeps.calibration.host import HostFit

_COEFFICIENT = Unit("", digits=4)

_ERRORS = (Column("median", "median", PERCENT), Column("p90", "p90", PERCENT), Column("bias", "bias", PERCENT))


def groups_table(fitted: Sequence[FittedGroup]) -> Table:
    """A row a group: error on shapes that the fit has not seen, beside that of the coefficients it started from."""
    columns = (
        Column("group", "group"),
        Column("points", "points", COUNT),
        Column("shapes", "shapes", COUNT),
        Column("median", "held-out median", PERCENT),
        Column("p90", "held-out p90", PERCENT),
        Column("median_before", "median before", PERCENT),
        Column("p90_before", "p90 before", PERCENT),
    )
    rows = [
        {
            "group": one.group.name,
            "points": one.fit.heldout.points,
            "shapes": one.fit.shapes,
            "median": one.fit.heldout.median_pct,
            "p90": one.fit.heldout.p90_pct,
            "median_before": one.before.median_pct,
            "p90_before": one.before.p90_pct,
        }
        for one in fitted
    ]
    return Table("calibration-groups", "Error of each group of coefficients", columns, rows)


def regimes_table(fitted: Sequence[FittedGroup]) -> Table:
    """A row a group and regime: held-out error."""
    columns = (Column("group", "group"), Column("regime", "regime"), Column("points", "points", COUNT), *_ERRORS)
    rows = [
        {"group": one.group.name, "regime": regime, **_figures(error)}
        for one in fitted
        for regime, error in one.fit.by_regime.items()
    ]
    return Table("calibration-regimes", "Held-out error by regime", columns, rows)


def coefficients_table(fitted: Sequence[FittedGroup]) -> Table:
    """A row a coefficient: what it was, what it is, and its standard error if it was fitted."""
    columns = (
        Column("group", "group"),
        Column("name", "coefficient"),
        Column("before", "before", _COEFFICIENT),
        Column("value", "now", _COEFFICIENT),
        Column("error", "standard error", Unit("", digits=2)),
    )
    rows = [
        {
            "group": one.group.name,
            "name": c.name,
            "before": float(one.group.defaults[c.name]),
            "value": float(one.fit.values[c.name]),
            "error": one.fit.standard_errors.get(c.name),
        }
        for one in fitted
        for c in one.group.form.coefficients
    ]
    return Table("calibration-coefficients", "Coefficients", columns, rows)


def host_table(host: HostFit) -> Table:
    """A row a figure of the runs."""
    columns = (
        Column("figure", "figure"),
        Column("points", "runs", COUNT),
        Column("median", "held-out median" if host.held_out else "in-sample median", PERCENT),
        Column("p90", "p90", PERCENT),
        Column("bias", "bias", PERCENT),
        Column("median_before", "median before", PERCENT),
        Column("bias_before", "bias before", PERCENT),
    )
    rows = [
        {
            "figure": f"mean {name.upper()}",
            **_figures(error),
            "median_before": host.before[name].median_pct,
            "bias_before": host.before[name].bias_pct,
        }
        for name, error in host.after.items()
    ]
    values = ", ".join(f"{name} {value:.3g}" for name, value in host.values.items())
    return Table("calibration-host", f"Host times: {values}", columns, rows)


def render_calibration(fitted: Sequence[FittedGroup], host: HostFit | None, notes: Sequence[str]) -> RenderableType:
    """Everything that the terminal shows, but for where it was written."""
    tables = [groups_table(fitted), coefficients_table(fitted), regimes_table(fitted)] if fitted else []
    tables += [] if host is None else [host_table(host)]
    parts: list[RenderableType] = []
    for table in tables:
        parts += [Text(table.title, style="bold"), to_rich(table), Text("")]
    lines = (*remarks(fitted), *(() if host is None else host_remarks(host)), *notes)
    return RichGroup(*parts, *(Text(line) for line in lines))


def host_remarks(host: HostFit) -> Iterator[str]:
    """What stays, and why."""
    for name, why in host.kept.items():
        yield f"host: {name} stays at {host.values[name]:.3g}: {why}"


def remarks(fitted: Sequence[FittedGroup]) -> Iterator[str]:
    """What stays at its default and why; rows that were left out; fits that are no better than what was there."""
    for one in fitted:
        for name, why in one.fit.kept.items():
            yield f"{one.group.name}: {name} stays at {one.group.defaults[name]:.4g}: {why}"
        if not one.fit.free:
            yield f"{one.group.name}: nothing was fitted; it is not written"
        elif one.useless:
            yield f"{one.group.name}: not written: {one.useless}"
        elif one.fit.heldout.median_pct >= one.before.median_pct:
            yield f"{one.group.name}: no better on held-out shapes than the coefficients that were there"
        if one.group.notes:
            yield f"{one.group.name}: not used: " + "; ".join(one.group.notes)


def calibration_figures(fitted: Sequence[FittedGroup], host: HostFit | None, notes: Sequence[str]) -> dict[str, Any]:
    """The same as plain data."""
    return {
        "host": None if host is None else _host_figures(host),
        "groups": {
            one.group.name: {
                "coefficients": dict(one.fit.values),
                "fitted": list(one.fit.free),
                "kept": dict(one.fit.kept),
                "standard_errors": dict(one.fit.standard_errors),
                "shapes": one.fit.shapes,
                "heldout": _figures(one.fit.heldout),
                "before": _figures(one.before),
                "regimes": {name: _figures(error) for name, error in one.fit.by_regime.items()},
                "source": one.group.source,
                "not_used": list(one.group.notes),
            }
            for one in fitted
        },
        "notes": list(notes),
    }


def _host_figures(host: HostFit) -> dict[str, Any]:
    return {
        "values": dict(host.values),
        "fitted": list(host.fitted),
        "kept": dict(host.kept),
        "held_out": host.held_out,
        "before": {name: _figures(error) for name, error in host.before.items()},
        "after": {name: _figures(error) for name, error in host.after.items()},
    }


def _figures(error: ErrorPair) -> dict[str, float]:
    return {"points": error.points, "median": error.median_pct, "p90": error.p90_pct, "bias": error.bias_pct}
