"""Runs many tasks, each with a key, and hands over every outcome as soon as it is there. Knows no scenarios.

Outcomes do not depend on backend, number of workers or order: a task is all that its work sees.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from servecast.hardware.errors import ServecastError, WorkersLostError
from servecast.sweeps.backends import Backend, opened

T = TypeVar("T")
R = TypeVar("R")

OK, FAILED, CRASHED = "ok", "failed", "crashed"

Progress = Callable[[int, int], None]

# After a worker died: so many tasks are tried one by one before the others run in parallel again.
_SUSPECTS_A_WORKER = 4
# With one job joblib would work in this very process.
_APART = Backend("loky", 2)


@dataclass(frozen=True)
class Task(Generic[T]):
    """key: tells tasks apart. content: what the work needs; it must survive pickling."""

    key: str
    content: T


@dataclass(frozen=True)
class Outcome(Generic[R]):
    """What became of a task.

    status: OK, with `value`; FAILED, with the `message` of an error that servecast foresees (does not fit, bad
    settings); CRASHED, with that of any other. seconds: time that the work took where it ran.
    """

    key: str
    status: str
    value: R | None
    message: str | None
    seconds: float


def run_tasks(
    tasks: Sequence[Task[T]],
    work: Callable[[T], R],
    *,
    on_done: Callable[[Outcome[R]], None],
    backend: Backend | None = None,
    progress: Progress | None = None,
) -> None:
    """Call `work(task.content)` for each task, on the workers of `backend` (default: all cores of this machine).

    tasks: keys are distinct. work: a function at the top of a module, so that workers find it. An exception in it is
    the outcome of its task, and so is, on this machine, the death of its process; the others go on. on_done: called
    here, in the caller's process, for one outcome after the other, in any order; what it raises ends the run.
    progress: called with (tasks done, tasks). Raises WorkersLostError if workers of a cluster are gone, and ConfigError
    as `Backend` does; Ctrl-C leaves with KeyboardInterrupt. Whatever ends the run early, outcomes handed over before
    are complete.
    """
    if not tasks:
        return
    chosen, left = _sensible(backend or Backend(), len(tasks)), {task.key: task for task in tasks}

    def keep(outcome: Outcome[R]) -> None:
        del left[outcome.key]
        on_done(outcome)
        if progress is not None:
            progress(len(tasks) - len(left), len(tasks))

    while left:
        try:
            _run(list(left.values()), work, keep, chosen)
        except WorkersLostError as error:
            if not _died(error):
                raise
            # Tasks are sent out in order, so the one that was too much is among the first that have no outcome.
            suspects = list(left.values())[: _SUSPECTS_A_WORKER * chosen.n_jobs]
            _run_apart(suspects, work, keep)


def _run(
    tasks: Sequence[Task[T]], work: Callable[[T], R], keep: Callable[[Outcome[R]], None], backend: Backend
) -> None:
    from joblib import delayed

    with opened(backend) as run, closing(run(delayed(attempt)(work, task) for task in tasks)) as outcomes:
        for outcome in _guarded(outcomes):
            keep(outcome)


def _run_apart(tasks: Sequence[Task[T]], work: Callable[[T], R], keep: Callable[[Outcome[R]], None]) -> None:
    """One task after the other, each in a process of its own, up to the first that ends it."""
    for task in tasks:
        try:
            _run([task], work, keep, _APART)
        except WorkersLostError as error:
            keep(Outcome(task.key, CRASHED, None, f"its process died, for want of memory perhaps: {error}", 0.0))
            return


def _died(error: WorkersLostError) -> bool:
    """Whether a worker process of this machine died, rather than that work could not be sent to it."""
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    return isinstance(error.__cause__, TerminatedWorkerError)


def attempt(work: Callable[[T], R], task: Task[T]) -> Outcome[R]:
    """The outcome of one task, whatever its work raises."""
    begin = time.perf_counter()
    try:
        value = work(task.content)
    except Exception as error:
        status = FAILED if isinstance(error, ServecastError) else CRASHED
        message = str(error) if status == FAILED else _where(error)
        return Outcome(task.key, status, None, message, time.perf_counter() - begin)
    return Outcome(task.key, OK, value, None, time.perf_counter() - begin)


def _where(error: Exception) -> str:
    """An unforeseen error in a line: what, and in which line of code."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno} in {last.name})"


def _sensible(backend: Backend, tasks: int) -> Backend:
    """No more workers on this machine than there are tasks."""
    if backend.name != "loky":
        return backend
    from joblib import cpu_count

    return Backend("loky", min(backend.jobs or cpu_count(), tasks))


def _guarded(outcomes: Iterator[Any]) -> Iterator[Any]:
    """`outcomes`; an error that is not of a task, but of the workers, becomes a WorkersLostError."""
    while True:
        try:
            outcome = next(outcomes)
        except StopIteration:
            return
        except Exception as error:
            raise WorkersLostError(_first_line(f"the workers were lost: {type(error).__name__}: {error}")) from error
        yield outcome


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0]
