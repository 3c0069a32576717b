"""The timing loop: each item of a plan several times with cold caches, and the median. Knows no GPU library."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from servecast.hardware.measure.plan import Copy, Item, Machine, unfit


class CannotMeasureError(Exception):
    """The device cannot run an item: too little memory, say. The message says why."""


class Operation(Protocol):
    """An item, ready to run on random data.

    backend, version, kernel_source: whose kernels these are. cache: `flushed` if nothing of the inputs is in the GPU's
    caches when a timed run starts.
    """

    @property
    def backend(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def kernel_source(self) -> str: ...

    @property
    def cache(self) -> str: ...

    def run_s(self) -> float:
        """Run once; the seconds that the GPU took."""


class Device(Protocol):
    """A GPU, or several of one machine."""

    @property
    def machine(self) -> Machine: ...

    def prepare(self, item: Item) -> Operation:
        """Make room and random inputs. Raises CannotMeasureError. The operation before it may be given up."""


@dataclass(frozen=True)
class Repeats:
    """How often each item is timed: at least `least` times, then until `enough_s` of clock time are spent, at most
    `most` times. warm_ups: runs that do not count.
    """

    warm_ups: int = 3
    least: int = 7
    most: int = 51
    enough_s: float = 0.5


@dataclass(frozen=True)
class Measured:
    """seconds: the median; of one piece for a Copy. spread_s: between the quartiles."""

    item: Item
    operation: Operation
    seconds: float
    spread_s: float
    repetitions: int


@dataclass(frozen=True)
class LeftOut:
    """why: in words."""

    item: Item
    why: str


def measure(
    items: Sequence[Item],
    device: Device,
    clock: Callable[[], float],
    repeats: Repeats = Repeats(),
) -> Iterator[Measured | LeftOut]:
    """One outcome for each of `items`, in order, as soon as it is there. clock: seconds, monotonic."""
    for item in items:
        why = unfit(item, device.machine)
        if why is not None:
            yield LeftOut(item, why)
            continue
        try:
            yield _measured(item, device.prepare(item), clock, repeats)
        except CannotMeasureError as error:
            yield LeftOut(item, str(error))


def _measured(item: Item, operation: Operation, clock: Callable[[], float], repeats: Repeats) -> Measured:
    for _ in range(repeats.warm_ups):
        operation.run_s()
    times: list[float] = []
    start = clock()
    while len(times) < repeats.least or (len(times) < repeats.most and clock() - start < repeats.enough_s):
        times.append(operation.run_s())
    if min(times) <= 0:
        raise CannotMeasureError("the timer showed no time")
    pieces = item.pieces if isinstance(item, Copy) else 1
    low, middle, high = statistics.quantiles(times, n=4, method="inclusive")
    return Measured(item, operation, middle / pieces, (high - low) / pieces, len(times))
