"""Stores of commands that run many simulations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from servecast.hardware.errors import WorkersLostError
from servecast.sweeps.store import Store, open_store


@contextmanager
def folder_store(out: Path | None, *, resume: bool) -> Iterator[Store]:
    """The store of `out`, or one that is gone afterwards."""
    with TemporaryDirectory() as scratch, open_store(out or Path(scratch), resume=resume) as store:
        yield store


@contextmanager
def kept_results(store: Store, out: Path | None) -> Iterator[None]:
    """Where the work ends early, say what is there."""
    try:
        yield
    except (KeyboardInterrupt, WorkersLostError):
        outcomes = store.outcomes()
        done = sum(outcome is not None for outcome in outcomes)
        kept = "lost, for want of --out DIR" if out is None else f"in {out}; --resume runs the others"
        Console(stderr=True, highlight=False, soft_wrap=True).print(
            f"{done:,} of {len(outcomes):,} simulations were finished and are {kept}", markup=False
        )
        raise
