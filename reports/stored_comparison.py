"""The folder of a comparison (`servecast compare --out`), read back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servecast.hardware.errors import ConfigError
from servecast.model.slo import Slo, parse_slo
from servecast.reports.stored_run import read_json
from servecast.sweeps.store import FILE_NAME, reading

COMPARISON_FILE = "comparison.json"
_QUERY = "SELECT labels, content, result FROM plan JOIN outcomes USING (key) ORDER BY number"
# A row with a content, if there is one.
_FIRST_QUERY = "SELECT labels, content FROM plan LEFT JOIN outcomes USING (key) ORDER BY content IS NULL LIMIT 1"

Candidate = Mapping[str, Any]


@dataclass(frozen=True)
class StoredComparison:
    """figures: comparison.json, as docs/compare.md explains it. settings: scenario of each candidate, and memory: by
    label what was found of it, both from the store; empty if that is gone.
    """

    folder: Path
    figures: Mapping[str, Any]
    settings: Sequence[Mapping[str, Any]]
    memory: Mapping[str, Mapping[str, Any]]

    @property
    def slo(self) -> Slo:
        return parse_slo(self.figures["question"]["slo"])

    @property
    def candidates(self) -> list[Candidate]:
        """All, the carrying ones first, by rank."""
        return list(self.figures["candidates"])

    @property
    def carried(self) -> list[Candidate]:
        """Those that carry the load, cheapest first."""
        return [row for row in self.candidates if row["rank"] is not None]

    def best_of_each_gpu(self) -> list[Candidate]:
        """The cheapest layout of each GPU and model."""
        found: dict[tuple[str, str], Candidate] = {}
        for row in self.carried:
            found.setdefault((row["gpu"], row["model"]), row)
        return list(found.values())


def is_comparison(folder: Path) -> bool:
    """Whether `folder` is that of a comparison, if only a part of one."""
    return (folder / COMPARISON_FILE).exists() or _is_unfinished(folder)


def _is_unfinished(folder: Path) -> bool:
    """Whether there is a store of candidates. What a sweep's points are made of is a scenario; of a candidate, more."""
    if not (folder / FILE_NAME).exists():
        return False
    with reading(folder) as database:
        try:
            row = database.execute(_FIRST_QUERY).fetchone()
        except sqlite3.OperationalError:  # no plan: no store of ours
            return False
    if row is None or json.loads(row[0]).keys() != {"candidate"}:
        return False
    return row[1] is None or "evaluation" in json.loads(row[1])


def read_comparison(folder: Path) -> StoredComparison:
    """Raises ConfigError that names the file which is missing or is no such file."""
    if not (folder / COMPARISON_FILE).exists() and _is_unfinished(folder):
        hint = "servecast compare FILE --out DIR --resume finishes it"
        raise ConfigError("the comparison is unfinished: run it again with --resume", file=folder, hint=hint)
    figures = read_json(folder / COMPARISON_FILE, "question", "candidates", "recommendation", "prices", "provenance")
    settings, memory = _store(folder) if (folder / FILE_NAME).exists() else ([], {})
    return StoredComparison(folder, figures, settings, memory)


def _store(folder: Path) -> tuple[list[Mapping[str, Any]], dict[str, Mapping[str, Any]]]:
    with reading(folder) as database:
        rows = database.execute(_QUERY).fetchall()
    settings = [json.loads(content)["scenario"] for _, content, _ in rows]
    found = {json.loads(labels)["candidate"]: json.loads(result) for labels, _, result in rows if result is not None}
    return settings, found
