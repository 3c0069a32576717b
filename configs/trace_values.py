"""Turns the cells of a trace into numbers, and collects every cell that is no use, with its line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from servecast.configs.trace_columns import TIME_UNITS_S

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

MOST_TOKENS = 10**9  # no context is near it; larger values are ids or times in the wrong column
EXAMPLES = 5
ROWS_THAT_SHOW_KIND = 100
# Seconds since 1970 lie around 1.7e9. A thousand times more can only be milliseconds, and so on.
EPOCH_UNITS = ((1e17, "ns"), (1e14, "us"), (1e11, "ms"))
LEAST_EPOCH_S = 1e8
SLOWEST_PER_S, FASTEST_PER_S = 0.01, 10_000.0  # a rate outside is probably a wrong time unit
WALL_CLOCK = re.compile(
    r"\s*((?:19|20|21)\d\d-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)\d*"
    r"\s*(Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?\s*",
    re.IGNORECASE,
)
NO_TIME = "is neither a number nor an ISO 8601 date and time"


class RowProblems:
    """Rows of a trace that cannot be used, by reason. A row counts once, for its first problem."""

    def __init__(self, lines: Sequence[int]) -> None:
        self._lines = np.asarray(lines, dtype=np.int64)
        self._reasons: list[str] = []
        self.bad: Bools = np.zeros(len(lines), dtype=np.bool_)
        self.count = 0

    def add_rows(self, mask: Bools, problem: str, cells: Sequence[Any]) -> None:
        """Rows where `mask` holds have `problem`; `cells` are the values to show."""
        rows = np.flatnonzero(mask & ~self.bad)
        self.bad |= mask
        if len(rows):
            places = [f"{self._lines[row]} ({_shown(cells[row])})" for row in rows[:EXAMPLES]]
            self._add_reason(problem, places, len(rows))

    def add_broken(self, broken: Sequence[tuple[int, str]]) -> None:
        """Rows that could not even be taken apart."""
        by_problem: dict[str, list[int]] = {}
        for line, problem in broken:
            by_problem.setdefault(problem, []).append(line)
        for problem, lines in by_problem.items():
            self._add_reason(problem, [str(line) for line in lines[:EXAMPLES]], len(lines))

    def _add_reason(self, problem: str, places: list[str], count: int) -> None:
        self.count += count
        lines = ", ".join(places)
        more = f" and {count - len(places):,} more" if count > len(places) else ""
        self._reasons.append(f"{problem} on {'line' if count == 1 else 'lines'} {lines}{more}")

    def __str__(self) -> str:
        return "; ".join(self._reasons)


def token_counts(cells: Sequence[Any], column: str, problems: RowProblems) -> Floats:
    """Whole numbers of 0 or more. `100.0` passes, as data frames write whole columns so; `100.5` does not."""
    values = _numbers(cells)
    problems.add_rows(np.isnan(values), f"{column} is not a number", cells)
    problems.add_rows(values < 0, f"{column} is negative", cells)
    problems.add_rows(values > MOST_TOKENS, f"{column} is above a billion", cells)
    problems.add_rows(values != np.floor(values), f"{column} is not a whole number", cells)
    return values


def arrival_times(
    cells: Sequence[Any], column: str, unit: str, problems: RowProblems
) -> tuple[Floats, tuple[str, ...]]:
    """Seconds since the earliest good row, and notes.

    `cells` are numbers in `unit`, or all ISO 8601 dates with times: UTC where no zone is given, fractions
    kept to the nanosecond.
    """
    if any(isinstance(cell, str) and WALL_CLOCK.fullmatch(cell) for cell in cells[:ROWS_THAT_SHOW_KIND]):
        return _wall_clock(cells, column, problems)
    values = _numbers(cells)
    problems.add_rows(np.isnan(values), f"{column} {NO_TIME}", cells)
    problems.add_rows(values < 0, f"{column} is negative", cells)
    good = values[~problems.bad]
    if not len(good):
        return values, ()
    notes = []
    epoch_unit = next((name for least, name in EPOCH_UNITS if good.min() > least), None)
    if unit == "s" and epoch_unit is not None:
        unit = epoch_unit
        notes.append(f"{column} is read as {unit} since 1970, by its size")
    elif good.min() < LEAST_EPOCH_S:
        notes.extend(_rate_notes(float(np.ptp(good)) * TIME_UNITS_S[unit], len(good), unit))
    if good.min() > 0:
        notes.append(f"times are counted from the first request, {good.min():.15g} {unit} in the file")
    return (values - good.min()) * TIME_UNITS_S[unit], tuple(notes)


def _rate_notes(span_s: float, count: int, unit: str) -> list[str]:
    """A hint on the implied rate if no service sees such a one."""
    if count < 2 or span_s <= 0 or SLOWEST_PER_S <= (count - 1) / span_s <= FASTEST_PER_S:
        return []
    rate = (count - 1) / span_s
    gap = f"one every {1 / rate:.4g} s" if rate < 1 else f"{rate:.4g} in a second"
    units = ("ns", "us", "ms", "s")
    place = units.index(unit) + (-1 if rate < SLOWEST_PER_S else 1)
    hint = "check their unit"
    if 0 <= place < len(units):
        hint = f"if they are {units[place]} and not {unit}, say time_unit: {units[place]}"
    return [f"the times imply {rate:.4g} requests/s ({gap}): {hint}"]


def _wall_clock(cells: Sequence[Any], column: str, problems: RowProblems) -> tuple[Floats, tuple[str, ...]]:
    texts, zones = _split_zones(cells)
    stamps = _stamps(texts)
    problems.add_rows(np.isnat(stamps), f"{column} {NO_TIME}", cells)
    distinct = {zone: _zone_s(zone) for zone in set(zones)}
    offsets_s = np.array([distinct[zone] for zone in zones], dtype=np.int64)
    nanoseconds = stamps.astype(np.int64) - offsets_s * 10**9
    good = nanoseconds[~problems.bad]
    if not len(good):
        return np.zeros(len(cells)), ()
    seen = {zone for zone, text in zip(zones, texts, strict=True) if text != "NaT"}
    mixed = None in seen and len(seen) > 1
    notes = ("times without a zone are read as UTC, beside others with a zone",) if mixed else ()
    return (nanoseconds - good.min()) / 1e9, notes


def _split_zones(cells: Sequence[Any]) -> tuple[list[str], list[str | None]]:
    """Dates with times, `NaT` for anything else, and the zones beside them."""
    texts, zones = [], []
    for cell in cells:
        match = WALL_CLOCK.fullmatch(cell) if isinstance(cell, str) else None
        texts.append(f"{match[1]}T{match[2]}" if match else "NaT")
        zones.append(match[3] if match else None)
    return texts, zones


def _stamps(texts: list[str]) -> npt.NDArray[np.datetime64]:
    """Texts of the right form as times; NaT for the 31st of February and the 25th hour."""
    try:
        return np.array(texts, dtype="datetime64[ns]")
    except ValueError:
        return np.array([_stamp(text) for text in texts], dtype="datetime64[ns]")


def _stamp(text: str) -> np.datetime64:
    try:
        return np.datetime64(text, "ns")
    except ValueError:
        return np.datetime64("NaT")


def _zone_s(zone: str | None) -> int:
    """Offset from UTC in seconds: `+01:00`, `+0100` and `+01` are 3600."""
    if zone is None or zone[0] not in "+-":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return -seconds if zone[0] == "-" else seconds


def _numbers(cells: Sequence[Any]) -> Floats:
    """Each cell as a float, NaN where it is none (also for infinity)."""
    try:
        values = np.asarray(cells, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        values = np.array([_number(cell) for cell in cells])
    return np.where(np.isfinite(values), values, np.nan)


def _number(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def _shown(cell: Any) -> str:
    text = "empty" if cell in (None, "") else str(cell).strip()
    return text if len(text) <= 40 else text[:37] + "..."
