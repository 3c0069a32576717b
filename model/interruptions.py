"""When requests lost their KV, and when they came back: one row a preemption."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# id: of the request. preempted_s: when it had to go. swapped: 1 if its KV went to host memory, else 0. resumed_s: when
# it was admitted again. restored_s: end of the step that gave it its next token. NaN where that never came; restored_s
# also where the request was preempted once more before, or had no token before.
COLUMNS = ("id", "preempted_s", "swapped", "resumed_s", "restored_s")
_RESUMED, _RESTORED = COLUMNS.index("resumed_s"), COLUMNS.index("restored_s")


class Interruptions:
    """Rows of COLUMNS in the order of the preemptions, packed. Times in seconds of simulated time."""

    def __init__(self) -> None:
        self.packed = array("d")
        # Where the row of a request's last preemption begins.
        self._start: dict[int, int] = {}

    def preempted(self, id: int, now_s: float, *, swapped: bool) -> None:
        self._start[id] = len(self.packed)
        self.packed.extend((id, now_s, swapped, math.nan, math.nan))

    def resumed(self, id: int, now_s: float) -> None:
        self.packed[self._start[id] + _RESUMED] = now_s

    def restored(self, id: int, now_s: float) -> None:
        self.packed[self._start[id] + _RESTORED] = now_s


def interruption_columns(replicas: Sequence[Interruptions]) -> Mapping[str, NDArray[Any]]:
    """Each column as an array, replica by replica."""
    packed = np.concatenate([np.asarray(replica.packed) for replica in replicas])
    table = packed.reshape(-1, len(COLUMNS))
    return {name: table[:, i] for i, name in enumerate(COLUMNS)}
