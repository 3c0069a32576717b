"""The folder of a comparison (`servecast compare --out`), read back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servecast.model.slo import Slo, parse_slo
from servecast.reports.stored_run import read_json
from servecast.sweeps.store import FILE_NAME, reading

COMPARISON_FILE = "comparison.json"
_QUERY = "SELECT labels, content, result FROM plan JOIN outcomes USING (key) ORDER BY number"

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
    return (folder / COMPARISON_FILE).exists()


def read_comparison(folder: Path) -> StoredComparison:
    """Raises ConfigError that names the file which is missing or is no such file."""
    figures = read_json(folder / COMPARISON_FILE, "question", "candidates", "recommendation", "prices", "provenance")
    settings, memory = _store(folder) if (folder / FILE_NAME).exists() else ([], {})
    return StoredComparison(folder, figures, settings, memory)


def _store(folder: Path) -> tuple[list[Mapping[str, Any]], dict[str, Mapping[str, Any]]]:
    with reading(folder) as database:
        rows = database.execute(_QUERY).fetchall()
    settings = [json.loads(content)["scenario"] for _, content, _ in rows]
    found = {json.loads(labels)["candidate"]: json.loads(result) for labels, _, result in rows if result is not None}
    return settings, found
