"""Runs a sweep and turns what came out into a tidy table: one row a point, labels first, then figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from servecast.hardware.errors import ConfigError, did_you_mean, nearest
from servecast.sweeps.backends import Backend
from servecast.sweeps.expressions import Expression
from servecast.sweeps.grid import Point, points
from servecast.sweeps.intervals import mean_interval
from servecast.sweeps.runner import OK, Outcome, Progress
from servecast.sweeps.store import Store, run_stored
from servecast.sweeps.summary_paths import figure_at, flat
from servecast.sweeps.sweep_file import SweepFile, column_of

Row = Mapping[str, Any]

_DEFAULT_METRICS = (
    "request_throughput",
    "output_throughput",
    "mean_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "p99_tpot_ms",
    "kv_usage/mean",
    "preemptions",
    "saturation",
)
# Columns that every row has beside labels and figures.
STATUS, MESSAGE = "status", "message"


@dataclass(frozen=True)
class SweepResult:
    """rows: in the order of the grid. labels, figures: names of columns. A figure of a sweep with replicates is a mean;
    `<figure>_low` and `<figure>_high` are its 95 % interval (Student's t).
    """

    sweep: SweepFile
    rows: Sequence[Row]
    labels: Sequence[str]
    figures: Sequence[str]

    @property
    def failed(self) -> Sequence[Row]:
        """Points without a result."""
        return [row for row in self.rows if row[STATUS] != OK]


def run_sweep(
    sweep: SweepFile,
    store: Store,
    work: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    *,
    backend: Backend | None = None,
    progress: Progress | None = None,
) -> SweepResult:
    """Simulate what `store` lacks of `sweep`. work: from the settings of a scenario to its summary, both plain data.

    Raises ConfigError if a point or a figure makes no sense, and as `run_tasks` does. Points that do not fit or fail
    are rows with their message.
    """
    grid, count = points(sweep), sweep.section.replicates
    table = _Table(sweep, _metrics(sweep, grid[0]), grid[0].values)
    labels, figures = list(grid[0].labels), [*table.metrics, *sweep.derived]
    _check_columns(sweep, labels, figures)
    outcomes = run_stored(
        store,
        [planned for point in grid for planned in point.replicates(count)],
        work,
        backend=backend,
        figures=table.metrics,
        on_result=table.check,
        progress=progress,
    )
    groups = [outcomes[start : start + count] for start in range(0, len(outcomes), count)]
    rows = [table.row(point, group) for point, group in zip(grid, groups, strict=True)]
    return SweepResult(sweep, rows, labels, figures)


def _check_columns(sweep: SweepFile, labels: Sequence[str], figures: Sequence[str]) -> None:
    """Raise ConfigError, before the work, for two columns of one name and for a figure of unknown columns."""
    for name, count in Counter((*labels, *figures, "number", STATUS, MESSAGE, "seconds")).items():
        if count > 1:
            key = "axes" if name in labels else "derive" if name in sweep.derived else "metrics"
            raise sweep.error(key, ConfigError(f"two columns would be called {name!r}"))
    asked = sweep.section.figure
    for key, names, known in (("y", asked.y, figures), ("x", (asked.x,) if asked.x else (), labels)):
        for name in names:
            if name not in known:
                hint = did_you_mean(name, known)
                raise sweep.error("figure", ConfigError(f"{key}: there is no column {name!r}", hint=hint))


def _metrics(sweep: SweepFile, first: Point) -> Mapping[str, str]:
    """Column -> path in the summary."""
    if sweep.section.metrics is not None:
        return sweep.section.metrics
    goodput = () if first.scenario.slo is None else ("goodput_share",)
    return {column_of(figure): figure for figure in (*goodput, *_DEFAULT_METRICS)}


@dataclass(frozen=True)
class _Table:
    """metrics: column -> path in the summary. settings: names that expressions may use beside figures."""

    sweep: SweepFile
    metrics: Mapping[str, str]
    settings: Collection[str]

    def check(self, outcome: Outcome[Any]) -> None:
        """Raise ConfigError at the first result, not after the last, if a figure is unknown."""
        if outcome.value is None:
            return
        known = {*self.settings, *dict(flat(outcome.value)), *self._figures(outcome.value), *self.sweep.derived}
        for expression in self.sweep.derived.values():
            try:
                expression.check_names(known)
            except ConfigError as error:
                raise self.sweep.error("derive", error) from None

    def row(self, point: Point, outcomes: Sequence[Outcome[Any]]) -> Row:
        summaries = [outcome.value for outcome in outcomes if outcome.value is not None]
        columns: dict[str, list[Any]] = {name: [None] for name in (*self.metrics, *self.sweep.derived)}
        if len(summaries) == len(outcomes):
            runs = [self._with_derived(point, summary) for summary in summaries]
            columns = {name: [run[name] for run in runs] for name in columns}
        worst = next((outcome for outcome in outcomes if outcome.status != OK), outcomes[0])
        ending = {STATUS: worst.status, MESSAGE: worst.message}
        return {**point.labels, **_summary(columns, len(outcomes)), **ending}

    def _with_derived(self, point: Point, summary: Mapping[str, Any]) -> dict[str, Any]:
        figures = self._figures(summary)
        known = {**dict(flat(summary)), **point.values, **figures}
        for name, expression in self.sweep.derived.items():
            known[name] = figures[name] = self._derived(expression, known)
        return figures

    def _figures(self, summary: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return {column: figure_at(summary, path) for column, path in self.metrics.items()}
        except KeyError as error:
            path = error.args[0]
            known = dict(flat(summary, "/"))
            guess = nearest(path, known)
            near = "" if guess is None else f"Did you mean {guess!r}? "
            hint = f"{near}The keys of servecast run --json are known, inner keys after a slash"
            raise self.sweep.error("metrics", ConfigError(f"{path!r} is no figure of a summary", hint=hint)) from None

    def _derived(self, expression: Expression, known: Mapping[str, Any]) -> Any:
        if any(name in known and known[name] is None for name in expression.names):
            return None
        try:
            return expression.value(known)
        except ConfigError as error:
            raise self.sweep.error("derive", error) from None


def _summary(columns: Mapping[str, Sequence[Any]], replicates: int) -> dict[str, Any]:
    """Each column over the replicates; with several, its interval too."""
    if replicates == 1:
        return {name: values[0] for name, values in columns.items()}
    found: dict[str, Any] = {}
    for name, values in columns.items():
        if any(isinstance(value, str) for value in values):
            found[name] = _counted(values)
        else:
            found[name], found[f"{name}_low"], found[f"{name}_high"] = _interval(values)
    return found


def _counted(values: Sequence[Any]) -> str:
    """`below`, or `4 x below, 1 x at`."""
    counts = Counter(map(str, values)).most_common()
    return counts[0][0] if len(counts) == 1 else ", ".join(f"{count} x {value}" for value, count in counts)


def _interval(values: Sequence[float | None]) -> tuple[float | None, float | None, float | None]:
    """Mean and interval of those that are there."""
    known = [float(value) for value in values if value is not None]
    return mean_interval(known) or ((known[0] if known else None), None, None)
