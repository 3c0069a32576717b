"""`servecast results`: what a sweep has stored, also while it runs."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from rich.console import Console

from servecast.commands.progress import UNCUT
from servecast.hardware.errors import ConfigError
from servecast.reports.table_formats import to_rich
from servecast.reports.tables import Column, Table
from servecast.reports.units import MIXED
from servecast.sweeps.store import reading

_READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)


def show_results(folder: Path, sql: str | None, *, as_json: bool) -> None:
    """Print the points of `folder`, or what the query `sql` gives. Raises ConfigError."""
    with reading(folder) as database:
        database.set_authorizer(_only_reading)
        table = _asked(database, folder, sql or "SELECT * FROM points")
    if as_json:
        print(json.dumps(list(table.rows), indent=2))
        return
    console = Console(highlight=False)
    (console if console.is_terminal else Console(highlight=False, width=UNCUT)).print(to_rich(table))


def _only_reading(action: int, *_about: object) -> int:
    """The file is open for reading only; this keeps a query from attaching others."""
    return sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY


def _asked(database: sqlite3.Connection, folder: Path, sql: str) -> Table:
    try:
        cursor = database.execute(sql)
        names = [name for name, *_ in cursor.description or ()]
        rows = [dict(zip(names, row, strict=True)) for row in cursor]
    except (sqlite3.Error, sqlite3.Warning) as error:
        hint = "Tables: points (a row a simulation), plan, outcomes, meta"
        problem = str(error).rstrip(".")
        if "not authorized" in problem or "cannot modify" in problem:
            problem = "queries only, such as SELECT * FROM points"
        raise ConfigError(problem, key=f"--sql {sql!r}", hint=hint) from None
    columns = [Column(name, name, MIXED if _numbers(rows, name) else None) for name in names]
    return Table("results", str(folder), columns, rows)


def _numbers(rows: list[dict[str, object]], name: str) -> bool:
    return any(isinstance(row[name], int | float) for row in rows)
