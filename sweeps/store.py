"""Results of many points in one SQLite file of a folder: what was finished survives Ctrl-C, kill -9 and power loss.

Tables: `meta`, what is known of the whole (name, value as JSON); `plan`, the points wanted now, in order (number, key,
labels as JSON); `outcomes`, what became of each key (status, message, seconds, content and result as JSON,
finished_at). The view `points` joins them: a column for each label and each chosen figure. A key holds everything
that the result depends on (fingerprint.py), so a point whose scenario or program has changed is another point.
"""

from __future__ import annotations

import json
import math
import os
import socket
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from servecast.hardware.errors import ConfigError
from servecast.sweeps.backends import Backend
from servecast.sweeps.runner import CRASHED, Outcome, Progress, Task, run_tasks

FILE_NAME = "results.sqlite"
_LOCK_NAME = ".lock"

# synchronous FULL: a transaction that is through is on the disk, not only in the operating system's memory.
_SETUP = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS plan (number INTEGER PRIMARY KEY, key TEXT NOT NULL, labels TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS outcomes (
    key TEXT PRIMARY KEY,
    status TEXT NOT NULL,
    message TEXT,
    seconds REAL NOT NULL,
    content TEXT NOT NULL,
    result TEXT,
    finished_at TEXT NOT NULL
);
"""


@dataclass(frozen=True)
class Planned:
    """A point: its task, and the labels (axis -> value) that tell it from the others in a table."""

    task: Task[Any]
    labels: Mapping[str, Any]


class Store:
    """The store of one folder, open for writing; made by `open_store`."""

    def __init__(self, folder: Path, database: sqlite3.Connection) -> None:
        self.folder = folder
        self._database = database

    def plan(self, points: Sequence[Planned], figures: Mapping[str, str]) -> None:
        """Make `points` the ones that the store is about. Outcomes of others stay, in case they are wanted again.

        figures: column of the view -> path in the result, inner keys after a slash.
        """
        rows = [(number, point.task.key, _json(point.labels)) for number, point in enumerate(points)]
        with self._database:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.execute("DELETE FROM plan")
            self._database.executemany("INSERT INTO plan VALUES (?, ?, ?)", rows)
            self._database.execute("DROP VIEW IF EXISTS points")
            self._database.execute(_view(points, figures))

    def note(self, name: str, value: Any) -> None:
        """Keep plain data about the whole, under `name` of the table `meta`."""
        with self._database:
            self._database.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, _json(value)))

    def record(self, task: Task[Any], outcome: Outcome[Any]) -> None:
        """Keep an outcome, in a transaction of its own."""
        result = None if outcome.value is None else _json(outcome.value)
        row = (outcome.key, outcome.status, outcome.message, outcome.seconds, _json(task.content), result, _now())
        with self._database:
            self._database.execute("INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def outcomes(self) -> list[Outcome[Any] | None]:
        """What became of each planned point, in order; None for a point without a result so far."""
        query = "SELECT o.* FROM plan LEFT JOIN outcomes AS o USING (key) ORDER BY number"
        return [_outcome(row) for row in self._database.execute(query)]

    def finished(self) -> set[str]:
        """Keys that need no work: all but those that ended with an error that nobody foresaw."""
        rows = self._database.execute("SELECT key FROM outcomes WHERE status != ?", (CRASHED,))
        return {key for (key,) in rows}


@contextmanager
def open_store(folder: Path, *, resume: bool) -> Iterator[Store]:
    """The store of `folder`, which is made if it is not there, for this process alone.

    Raises ConfigError if another process has it, if the folder cannot be written, or if it is not empty and `resume`
    is off. The lock of a process that died is void.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot be made a folder: {error.strerror}", file=folder, key="--out") from None
    with _locked(folder):
        if not resume:
            _check_empty(folder)
        try:
            database = sqlite3.connect(folder / FILE_NAME)
            with closing(database):
                database.executescript(_SETUP)
                store = Store(folder, database)
                store.note("owner", _owner())
                yield store
        except sqlite3.DatabaseError as error:
            raise ConfigError(f"cannot be used: {error}", file=folder / FILE_NAME, key="--out") from error


def run_stored(
    store: Store,
    points: Sequence[Planned],
    work: Callable[[Any], Any],
    *,
    backend: Backend | None = None,
    figures: Mapping[str, str] | None = None,
    on_result: Callable[[Outcome[Any]], None] | None = None,
    progress: Progress | None = None,
) -> list[Outcome[Any]]:
    """Run what the store lacks of `points` and return the outcome of each, in order, as the store has it.

    Contents and results must be plain data (JSON). figures: see `Store.plan`. on_result: called with each outcome once
    it is stored; what it raises ends the run. progress: called with (points done,
    points), those that were there included. Raises as `run_tasks` does; what was finished by then is stored.
    """
    store.plan(points, figures or {})
    finished = store.finished()
    tasks = {point.task.key: point.task for point in points if point.task.key not in finished}
    there = len({point.task.key for point in points}) - len(tasks)

    def keep(outcome: Outcome[Any]) -> None:
        store.record(tasks[outcome.key], outcome)
        if on_result is not None:
            on_result(outcome)

    run_tasks(
        list(tasks.values()),
        work,
        on_done=keep,
        backend=backend,
        progress=None if progress is None else lambda done, total: progress(there + done, there + total),
    )
    return [outcome for outcome in store.outcomes() if outcome is not None]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    # A transaction that is held open: the lock goes with the process, however it ends, on every system.
    try:
        lock = sqlite3.connect(folder / _LOCK_NAME, timeout=0, isolation_level=None)
        lock.execute("PRAGMA journal_mode = MEMORY")  # no file beside the lock
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise ConfigError(f"cannot be written: {error}", file=folder, key="--out") from None
        hint = "Wait for it, or give another folder"
        raise ConfigError(f"is in use by {_owner_of(folder)}", file=folder, key="--out", hint=hint) from None
    with closing(lock):
        yield


def _check_empty(folder: Path) -> None:
    if (folder / FILE_NAME).exists():
        with reading(folder) as database:
            ((count,),) = database.execute("SELECT count(*) FROM outcomes")
        hint = "Add --resume to run only what is missing, or give another folder"
        raise ConfigError(f"holds {count} results already", file=folder, key="--out", hint=hint)
    strangers = sorted(file.name for file in folder.iterdir() if file.name != _LOCK_NAME)
    if strangers:
        hint = "Give a new folder, or add --resume to put the results beside what is there"
        raise ConfigError(f"is not empty: it holds {strangers[0]}", file=folder, key="--out", hint=hint)


@contextmanager
def reading(folder: Path) -> Iterator[sqlite3.Connection]:
    """The database of `folder`, for reading only, also while it is written. Raises ConfigError if there is none."""
    file = folder / FILE_NAME
    if not file.is_file():
        raise ConfigError("holds no results", file=folder, hint=f"Results of a sweep are in {FILE_NAME}")
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as database:
            yield database
    except sqlite3.DatabaseError as error:
        raise ConfigError(f"cannot be read: {error}", file=file) from None


def _view(points: Sequence[Planned], figures: Mapping[str, str]) -> str:
    labels = dict.fromkeys(name for point in points for name in point.labels)
    columns = [f"json_extract(plan.labels, {_path([name])}) AS {_name(name)}" for name in labels]
    columns += [f"json_extract(o.result, {_path(path.split('/'))}) AS {_name(name)}" for name, path in figures.items()]
    listed = ", ".join(["number", *columns, "o.status", "o.message", "o.seconds"])
    return f"CREATE VIEW points AS SELECT {listed} FROM plan LEFT JOIN outcomes AS o USING (key) ORDER BY number"


def _path(keys: Sequence[str]) -> str:
    """A JSON path as an SQL text."""
    quoted = "".join("." + json.dumps(key, ensure_ascii=False) for key in keys)
    return "'$" + quoted.replace("'", "''") + "'"


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _json(value: Any) -> str:
    return json.dumps(_finite(value), allow_nan=False)


def _finite(value: Any) -> Any:
    """`value` without NaN and infinity, which JSON does not have: null."""
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _outcome(row: Sequence[Any]) -> Outcome[Any] | None:
    key, status, message, seconds, _content, result, _finished_at = row
    if status is None:
        return None
    return Outcome(key, status, None if result is None else json.loads(result), message, seconds)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _owner() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}, since {_now()}"


def _owner_of(folder: Path) -> str:
    try:
        with reading(folder) as database:
            found: list[tuple[str]] = database.execute("SELECT value FROM meta WHERE name = 'owner'").fetchall()
    except ConfigError:
        found = []
    return str(json.loads(found[0][0])) if found else "another process"
