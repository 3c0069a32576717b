"""From a sweep file to its points: every combination of the axes that the filters keep, as a validated scenario."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from servecast.configs.build import check_names
from servecast.configs.load import validated
from servecast.configs.origin import Origin
from servecast.configs.overrides import apply_changes
from servecast.configs.scenario import Scenario
from servecast.hardware.errors import ConfigError
from servecast.sweeps.axes import Combination, combinations, size
from servecast.sweeps.fingerprint import scenario_key
from servecast.sweeps.runner import Task
from servecast.sweeps.store import Planned
from servecast.sweeps.summary_paths import flat
from servecast.sweeps.sweep_file import SweepFile

MOST_RUNS = 100_000

_SEED = ("seed",)


@dataclass(frozen=True)
class Point:
    """labels: by column. scenario: of the first replicate. values: what its expressions may name."""

    labels: Mapping[str, Any]
    scenario: Scenario
    values: Mapping[str, Any]

    def replicates(self, count: int) -> list[Planned]:
        """The simulations of this point, with seeds that follow the scenario's."""
        seeds = range(self.scenario.seed, self.scenario.seed + count)
        runs = [self.scenario.model_copy(update={"seed": seed}).at(self.scenario.origin) for seed in seeds]
        labels = [self.labels if count == 1 else {**self.labels, "seed": run.seed} for run in runs]
        return [
            Planned(Task(scenario_key(run), run.portable()), label) for run, label in zip(runs, labels, strict=True)
        ]


def points(sweep: SweepFile) -> list[Point]:
    """All points, the last axis fastest. Raises ConfigError, with file and line, if one of them makes no sense."""
    runs = size(sweep.axes) * sweep.section.replicates
    if runs > MOST_RUNS:
        raise sweep.error("axes", ConfigError(f"make {runs:,} simulations; at most {MOST_RUNS:,}"))
    if sweep.section.replicates > 1 and any(_SEED in axis.keys for axis in sweep.axes):
        problem, hint = "and an axis both vary the seed", "Leave one of them out"
        raise sweep.error("replicates", ConfigError(problem, hint=hint))
    found = list(_kept(sweep))
    if not found:
        raise sweep.error("where", ConfigError(f"leaves none of the {size(sweep.axes)} points"))
    return found


def _kept(sweep: SweepFile) -> Iterator[Point]:
    checked: set[tuple[str, ...]] = set()
    for combination in combinations(sweep.axes):
        settings, placed = apply_changes(sweep.settings, combination.changes)
        origin = Origin(sweep.origin.file, sweep.origin.lines, {**sweep.origin.overrides, **placed})
        try:
            scenario = validated(settings, origin)
        except ConfigError as error:
            if _may_be_kept(sweep, _values(combination, settings)):
                raise _with_hint(error) from None
            continue
        values = _values(combination, scenario.effective())
        if not _is_kept(sweep, values):
            continue
        names = (scenario.model, scenario.gpu, scenario.engine)
        if names not in checked:
            check_names(scenario)
            checked.add(names)
        yield Point(combination.labels, scenario, values)


def _with_hint(error: ConfigError) -> ConfigError:
    """A range seldom hits whole numbers by itself."""
    if error.hint is not None or "must be a whole number, found" not in error.problem:
        return error
    hint = "A range gives whole numbers with whole: true"
    return ConfigError(error.problem, file=error.file, line=error.line, key=error.key, hint=hint)


def _is_kept(sweep: SweepFile, values: Mapping[str, Any]) -> bool:
    try:
        return all(expression.value(values) for expression in sweep.where)
    except ConfigError as error:
        raise sweep.error("where", error) from None


def _may_be_kept(sweep: SweepFile, values: Mapping[str, Any]) -> bool:
    """As `_is_kept`, for settings that lack their defaults: a filter may exclude points that make no sense."""
    try:
        return _is_kept(sweep, values)
    except ConfigError:
        return True


def _values(combination: Combination, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting by its dotted key, then the labels."""
    return {**dict(flat(settings)), **combination.labels}
