"""Runs an experiment: every point is one scenario; the finding is put in words from what came out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from servecast.configs.build import build_simulation
from servecast.configs.load import scenario_from
from servecast.configs.scenario import Scenario
from servecast.sweeps.lab.experiment import Experiment, Point
from servecast.sweeps.lab.pages import PAGES
from servecast.sweeps.lab.rows import Row
from servecast.sweeps.summary_paths import figure_at

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class LabResult:
    """rows: part, axes and columns of each point, in order. findings: sentences. scenarios: of the points, by slug."""

    experiment: Experiment
    rows: Sequence[Row]
    findings: Sequence[str]
    scenarios: Mapping[str, Scenario]


def run_experiment(experiment: Experiment, folder: Path, progress: Progress | None = None) -> LabResult:
    """Simulate all points one after the other. `folder`: where the scenarios will lie, beside them (in gpus/) GPU files
    of the experiment's own.

    progress is called with (points done, points).
    """
    page = PAGES[experiment.name]
    gpus = {name: _write_gpu(folder / "gpus" / name, fields) for name, fields in experiment.gpus.items()}
    rows: list[Row] = []
    scenarios: dict[str, Scenario] = {}
    points = list(experiment.points())
    for done, point in enumerate(points):
        if progress is not None:
            progress(done, len(points))
        scenario = scenarios[point.slug] = _scenario(experiment, point, gpus)
        figures = page.measure(build_simulation(scenario), point.labels)
        rows.append(_row(point, figures))
    return LabResult(experiment, rows, page.finding(rows), scenarios)


def _scenario(experiment: Experiment, point: Point, gpus: Mapping[str, Path]) -> Scenario:
    settings = dict(point.settings)
    settings["name"] = f"lab-{experiment.name}-{point.slug}"
    if settings["gpu"] in gpus:
        settings["gpu"] = str(gpus[settings["gpu"]])
    return scenario_from(settings)


def _write_gpu(folder: Path, fields: Mapping[str, Any]) -> Path:
    """A GPU file with some figures changed. It has the name of the one it is made from, and so its kernels."""
    base = fields["based_on"]
    text = resources.files("servecast.hardware").joinpath(f"{base}.yaml").read_text(encoding="utf-8")
    changes = {key: value for key, value in fields.items() if key not in ("based_on", "source")}
    gpu = yaml.safe_load(text)
    gpu["aliases"] = []
    gpu["sources"] = {**gpu["sources"], **dict.fromkeys(changes, fields["source"])}
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{base}.yaml"
    file.write_text(yaml.safe_dump({**gpu, **changes}, sort_keys=False), encoding="utf-8")
    return file.resolve()


def _row(point: Point, figures: Mapping[str, Any]) -> Row:
    columns = {header: figure_at(figures, path) for header, path in point.part.columns.items()}
    return {"part": point.part.name, **point.labels, **columns}
