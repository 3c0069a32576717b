"""The result of a sweep as a tidy table: for pandas, for files, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from servecast.reports.tables import Column, Table
from servecast.reports.units import MIXED, Unit
from servecast.sweeps.sweep import MESSAGE, STATUS, SweepResult

if TYPE_CHECKING:
    import pandas as pd

# Labels are shown as they were written.
_EXACT = Unit("", digits=12)
_MOST_MESSAGES = 5


def sweep_frame(result: SweepResult) -> pd.DataFrame:
    """One row a point: labels, figures (with `_low` and `_high` where there are replicates), status, message."""
    import pandas as pd

    frame = pd.DataFrame(list(result.rows))
    for name in frame.columns:
        values = [row[name] for row in result.rows]
        # Counts stay whole numbers beside points that have none.
        if None in values and any(_is_whole(value) for value in values):
            whole = all(value is None or _is_whole(value) for value in values)
            frame[name] = pd.array(values, dtype="Int64") if whole else frame[name]
    return frame


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def sweep_table(result: SweepResult) -> Table:
    """For people: what failed has no figures, and its message is not in the table."""
    columns = [Column(name, name, _label_unit(result, name)) for name in result.labels]
    replicated = result.sweep.section.replicates > 1
    for name in result.figures:
        texts = any(isinstance(row[name], str) for row in result.rows)
        interval = (f"{name}_low", f"{name}_high") if replicated and not texts else None
        columns.append(Column(name, name, None if texts else MIXED, interval=interval))
    if result.failed:
        columns.append(Column(STATUS, STATUS))
    return Table("sweep", result.sweep.name, columns, result.rows)


def _label_unit(result: SweepResult, name: str) -> Unit | None:
    numbers = all(isinstance(row[name], int | float) and not isinstance(row[name], bool) for row in result.rows)
    return _EXACT if numbers else None


def failures(result: SweepResult) -> Iterator[str]:
    """A line for each kind of failure, the most frequent first."""
    kinds = Counter(str(row[MESSAGE]) for row in result.failed).most_common()
    for message, count in kinds[:_MOST_MESSAGES]:
        yield f"{count} x {message}"
    if len(kinds) > _MOST_MESSAGES:
        yield f"and {len(kinds) - _MOST_MESSAGES} other messages"
