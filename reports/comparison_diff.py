"""Two comparisons side by side: the candidates that both have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from servecast.reports.diff import Change, Diff, figure_row, figures_table, settings_diff
from servecast.reports.stored_comparison import Candidate, StoredComparison
from servecast.reports.tables import Column
from servecast.reports.units import COUNT, DOLLARS_PER_HOUR, Unit

_RANGES_NOTE = (
    "Intervals: from the low end of B less the high end of A to the reverse. They hold the error of the model and the "
    "seeds of both sides as if these were independent, so that a move that counts is a sure one."
)


def diff_comparisons(a: StoredComparison, b: StoredComparison) -> Diff:
    """`b` held against `a`, candidate by candidate."""
    others = {row["label"]: row for row in b.candidates}
    pairs = [(row, others[row["label"]]) for row in a.candidates if row["label"] in others]
    rows = [{"candidate": old["label"], **row} for old, new in pairs for row in _figures(old, new)]
    notes = [
        f"A: {a.figures['recommendation']}",
        f"B: {b.figures['recommendation']}",
        f"{len(pairs)} candidates are in both, {len(a.candidates) - len(pairs)} in A alone, "
        f"{len(b.candidates) - len(pairs)} in B alone.",
        *_only_one_carries(pairs),
        _RANGES_NOTE,
    ]
    questions = (a.figures["question"], b.figures["question"])
    return Diff(settings_diff(*questions), figures_table(rows, (Column("candidate", "candidate"),)), notes)


def _figures(old: Candidate, new: Candidate) -> Iterator[dict[str, Any]]:
    if old["rank"] is None or new["rank"] is None:
        return
    for key, name, unit in (
        ("usd_per_hour", "cost", DOLLARS_PER_HOUR),
        ("gpus", "GPUs", COUNT),
        ("capacity", "carried by a replica", Unit(old["unit"])),
    ):
        before, after = old[key], new[key]
        if before is not None and after is not None:
            yield figure_row(name, Change(before, after, *_difference(old, new, key)), unit)


def _difference(old: Candidate, new: Candidate, key: str) -> tuple[float | None, float | None]:
    """The widest interval of new - old."""
    lows, highs = [row[f"{key}_low"] for row in (old, new)], [row[f"{key}_high"] for row in (old, new)]
    if None in lows or None in highs:
        return None, None
    return lows[1] - highs[0], highs[1] - lows[0]


def _only_one_carries(pairs: list[tuple[Candidate, Candidate]]) -> Iterator[str]:
    for old, new in pairs:
        if (old["rank"] is None) != (new["rank"] is None):
            side, other = ("A", new) if new["rank"] is None else ("B", old)
            yield f"{old['label']} carries the load in {side} only: {other['reason']}"
