"""What a report is made of, whatever it is about: an answer, then sections of text, tables and figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from servecast.reports.figures.style import Figure
from servecast.reports.tables import Table


@dataclass(frozen=True)
class KeyNumber:
    """One of the numbers behind the answer. note: its interval, say, or the limit that it is held against."""

    value: str
    label: str
    note: str = ""


@dataclass(frozen=True)
class Answer:
    """The first screen. good: whether the answer is yes; None where the question was no yes-or-no one, or where the
    error of the model leaves it open.
    """

    sentence: str
    interval: str
    numbers: Sequence[KeyNumber]
    good: bool | None = None


@dataclass(frozen=True)
class Section:
    """Shown in this order: paragraphs, points (a list), tables, folded (tables that open on a click), figures, code (a
    file or command as it is).
    """

    title: str
    paragraphs: Sequence[str] = ()
    points: Sequence[str] = ()
    tables: Sequence[Table] = ()
    folded: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    code: str = ""

    @property
    def anchor(self) -> str:
        return "".join(letter if letter.isalnum() else "-" for letter in self.title.lower())


@dataclass(frozen=True)
class Report:
    """subtitle: what the title's name stands for, in a line."""

    title: str
    subtitle: str
    answer: Answer
    sections: Sequence[Section]

    def tables(self) -> Iterator[Table]:
        for section in self.sections:
            yield from (*section.tables, *section.folded)

    def figures(self) -> Iterator[Figure]:
        for section in self.sections:
            yield from section.figures
