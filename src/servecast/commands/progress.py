"""Progress of long work, on stderr: how much is done, how fast, and how long it will take."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

# Where stderr is a file, a line comes about as often as somebody would look.
_LINE_EVERY_S = 15.0

# Columns of a table that is not cut to the terminal.
WIDE = 200
# The same for a pipe or a file, where a row must be a line.
UNCUT = 4000


@contextmanager
def progress_bar(name: str) -> Iterator[Callable[[int, int], None]]:
    """A function to call with (done, total). On a terminal it moves a bar that is gone when the work is done; elsewhere
    it prints a line now and then.
    """
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield Lines(name).report
        return
    name_column = TextColumn("{task.description}", markup=False)
    columns = (name_column, BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def counter(what: str) -> Iterator[Callable[[int], None]]:
    """How many `what` are done, on stderr where that is a terminal, for work whose end is not known ahead."""
    console = Console(file=sys.stderr)
    columns = (TextColumn("{task.completed:.0f} {task.description}"),)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done: bar.update(task, completed=done)


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:,.1f}/s")


class Lines:
    """Prints a line now and then. clock: seconds of any origin."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._clock = name, clock
        # (time in s, done) of the first call: what was there before does not count for the rate.
        self._first: tuple[float, int] | None = None
        self._last_s = clock()

    def report(self, done: int, total: int) -> None:
        """Say that `done` of `total` are done, unless it was said a moment ago."""
        now = self._clock()
        if self._first is None:
            self._first = (now, done)
        if now - self._last_s < _LINE_EVERY_S or done == total:
            return
        self._last_s = now
        seconds, first_done = now - self._first[0], self._first[1]
        rate = (done - first_done) / seconds if seconds > 0 else 0.0
        left = f", {rate:,.1f}/s, {(total - done) / rate:,.0f} s left" if rate > 0 else ""
        print(f"{self._name}: {done:,} of {total:,}{left}", file=sys.stderr, flush=True)
