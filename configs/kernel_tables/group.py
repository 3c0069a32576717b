"""A group of coefficients to fit, and what its rows are picked from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from servecast.configs.kernel_tables.choice import Choice
from servecast.configs.kernel_tables.read import KernelTable
from servecast.hardware.errors import InvariantError
from servecast.hardware.gpus import Gpu
from servecast.model.calibration.fitting import Floats, Form, Rows, Values

SIXTEEN_BIT = ("bfloat16", "float16", "half", "bf16", "fp16")
# The benchmark emptied the caches before each run.
FLUSHED = "flushed"
# What is this many times as large as the L2 cache was read from memory.
L2_MARGIN = 1.5


@dataclass(frozen=True)
class Group:
    """name: of the group of coefficients. notes: rows that were left out, in words. source: files and engines.

    before_s: times of `rows` as the engine profile has them; it may know more than the form's coefficients.
    """

    name: str
    form: Form[Any]
    rows: Rows
    defaults: Values
    notes: tuple[str, ...]
    source: str
    before_s: Floats

    @classmethod
    def of(cls, name: str, form: Form[Any], rows: Rows, defaults: Values, choice: Choice) -> Group:
        """With the notes and the source of `choice`; the profile's times are those of the defaults."""
        before_s = form.seconds(rows, defaults)
        return cls(name, form, rows, defaults, tuple(choice.notes), choice.source, before_s)


# Name of the group, its rows, and what makes the group of them, if any are left.
Chosen = tuple[str, Choice, Callable[[Choice], Group]]


def nothing(choice: Choice) -> Group:
    """For rows of which none is left, so that there is only their notes to tell."""
    raise InvariantError(f"no group can be made of {len(choice)} rows")


def rows_of_kind(tables: Sequence[KernelTable], kind: str, gpu: Gpu) -> Choice | None:
    """Those of `gpu`; None if the tables have none of the kind at all."""
    choice = Choice(tables, kind)
    return choice.of_gpu(gpu.key) if len(choice) else None
