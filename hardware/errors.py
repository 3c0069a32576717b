"""Every exception that servecast raises on purpose. They sit in the ground layer so that each folder can use them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class ServecastError(Exception):
    """Base of all errors below; the command line prints the message and exits with `exit_code`."""

    exit_code = 2


class ConfigError(ServecastError):
    """The user's input is wrong. The message names file, line, key, value and what would be right."""

    def __init__(
        self,
        problem: str,
        *,
        file: Path | str | None = None,
        line: int | None = None,
        key: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.problem, self.file, self.line, self.key, self.hint = problem, file, line, key, hint
        super().__init__(self._message())

    def _message(self) -> str:
        place = "" if self.file is None else str(self.file)
        if self.line is not None:
            place += f":{self.line}" if place else f"line {self.line}"
        parts = [part for part in (place, self.key, self.problem) if part]
        text = ": ".join(parts)
        return text if self.hint is None else f"{text}. {self.hint}"


class DoesNotFitError(ServecastError):
    """The model and its KV cache do not fit the memory. The question was well put; the answer is no."""

    exit_code = 1


class WorkersLostError(ServecastError):
    """Processes or machines that worked for a sweep are gone, for want of memory, say. Not the input's fault."""

    exit_code = 71


class InvariantError(ServecastError):
    """A `check()` found an inconsistent state: a bug in servecast, never the user's fault."""

    exit_code = 70


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """The choice that `word` was probably meant to be, or None."""
    matches = difflib.get_close_matches(word.lower(), list(choices), n=1, cutoff=0.6)
    return matches[0] if matches else None


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """A hint for an unknown `word`: the near miss if there is one, and the valid names."""
    names = sorted(choices)
    guess = nearest(word, names)
    listed = ", ".join(names)
    return f"Did you mean {guess!r}? Valid: {listed}" if guess else f"Valid: {listed}"
