"""The folder of a sweep (`servecast sweep --out`), read back: its points, each with the summaries of its replicates."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servecast.hardware.errors import ConfigError
from servecast.reports.accuracy_text import band_share, within_band
from servecast.sweeps.intervals import mean_interval
from servecast.sweeps.store import FILE_NAME, reading

SEED = "seed"
_QUERY = "SELECT labels, status, message, content, result FROM plan LEFT JOIN outcomes USING (key) ORDER BY number"

Summary = Mapping[str, Any]


@dataclass(frozen=True)
class Estimate:
    """Mean over the seeds. low, high: by the interval between seeds (95 %) and the model's error band, both together;
    None where neither is known.
    """

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class StoredPoint:
    """labels: by axis. settings: the scenario of the first replicate. summaries: of those that have a result, one a
    seed. messages: of those that have none.
    """

    labels: Mapping[str, Any]
    settings: Mapping[str, Any]
    summaries: Sequence[Summary]
    messages: Sequence[str]

    @property
    def first(self) -> Summary:
        return self.summaries[0]

    @property
    def gpus(self) -> int:
        """GPUs of all replicas."""
        replica = self.settings["replica"]
        gpus = replica["tensor_parallel_size"] * replica["pipeline_parallel_size"]
        return int(gpus * self.settings["fleet"]["replicas"])

    @property
    def load(self) -> float | None:
        """Requests a second, or clients of a closed loop; None for other arrivals."""
        arrivals = self.settings["workload"]["arrivals"]
        load: float | None = arrivals.get("request_rate") or arrivals.get("concurrency")
        return load

    @property
    def meets_limits(self) -> bool | None:
        """Whether every seed meets every limit; None without limits."""
        verdicts = [verdict["met"] for summary in self.summaries for verdict in summary["slo"] or ()]
        return all(verdicts) if verdicts else None

    def estimate(self, values: Sequence[float | None], metric: str | None) -> Estimate | None:
        """values: one a seed. metric: which error band of the model counts (ttft, tpot, throughput), if any."""
        known = [value for value in values if value is not None]
        if not known:
            return None
        mean, low, _ = mean_interval(known) or (known[0], known[0], known[0])
        share = band_share(self.first["accuracy"], metric) if metric is not None else None
        spread = (mean - low) / mean if mean > 0 else 0.0
        # The two are independent: they add like the sides of a right angle.
        together = (spread**2 + (share or 0.0) ** 2) ** 0.5
        if len(known) < 2 and share is None:
            return Estimate(mean, None, None)
        return Estimate(mean, *within_band(mean, together))


@dataclass(frozen=True)
class StoredSweep:
    """points: in the order of the grid. unfinished: simulations that are planned but have not run."""

    folder: Path
    points: Sequence[StoredPoint]
    unfinished: int

    @property
    def done(self) -> list[StoredPoint]:
        """Points with a result for every seed."""
        return [point for point in self.points if point.summaries and not point.messages]

    @property
    def replicates(self) -> int:
        return max((len(point.summaries) for point in self.points), default=0)


def is_sweep(folder: Path) -> bool:
    return (folder / FILE_NAME).exists()


def read_sweep(folder: Path) -> StoredSweep:
    """Raises ConfigError if the store cannot be read or holds nothing yet."""
    with reading(folder) as database:
        try:
            rows = database.execute(_QUERY).fetchall()
        except sqlite3.OperationalError as error:
            raise ConfigError(f"is no store of a sweep: {error}", file=folder / FILE_NAME) from None
    finished = [row for row in rows if row[1] is not None]
    if not finished:
        raise ConfigError("holds no finished point yet", file=folder / FILE_NAME)
    groups: dict[str, list[Any]] = {}
    for labels, _, message, content, result in finished:
        named = {key: value for key, value in json.loads(labels).items() if key != SEED}
        point = (named, json.loads(content), None if result is None else json.loads(result), message)
        groups.setdefault(json.dumps(named), []).append(point)
    return StoredSweep(folder, list(map(_point, groups.values())), len(rows) - len(finished))


def _point(runs: Sequence[Any]) -> StoredPoint:
    labels, settings, _, _ = runs[0]
    return StoredPoint(
        labels=labels,
        settings=settings,
        summaries=[result for _, _, result, _ in runs if result is not None],
        messages=[str(message) for _, _, result, message in runs if result is None],
    )
