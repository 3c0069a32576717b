"""How many replicas carry a load: the smallest number that a simulation of the whole fleet confirms."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from servecast.model.simulation import SimulationParameters, SimulationResult
from servecast.sweeps.capacity.capacity import Capacity
from servecast.sweeps.capacity.prober import Probe, Prober

# More replicas than this are not simulated together.
LARGEST_SIMULATED = 400
_MOST_SIMULATIONS = 14


@dataclass(frozen=True)
class Fleet:
    """replicas: the smallest number found that meets the SLO. at, result: the simulation with as many. below: that with
    one replica less, to its end; None where that would be none. verified: both were simulated, and `below` missed it.
    needed: replicas as a real number, `target / capacity` but within what was found. simulations: how many it took.
    """

    replicas: int
    needed: float
    verified: bool
    at: Probe | None
    result: SimulationResult | None
    below: Probe | None
    simulations: int


def size_fleet(parameters: SimulationParameters, capacity: Capacity, target: float) -> Fleet:
    """The fleet for `target`, in the unit of `capacity`, which is that of one replica and must exist."""
    assert capacity.load is not None
    first = target / capacity.load
    if first > LARGEST_SIMULATED:
        return Fleet(math.ceil(first), first, False, None, None, None, 0)
    fleet = _Fleets(parameters, capacity, target)
    missed, passed = smallest(lambda replicas: fleet.probe(replicas).verdict.met, math.ceil(first), _MOST_SIMULATIONS)
    if passed is None:
        return Fleet(math.ceil(first), first, False, None, None, None, fleet.simulations)
    at, result = fleet.run(passed)
    below = fleet.run(passed - 1)[0] if passed > 1 else None
    return Fleet(
        replicas=passed,
        needed=min(max(first, passed - 1 + 1e-9), float(passed)),
        verified=missed == passed - 1,
        at=at,
        result=result,
        below=below,
        simulations=fleet.simulations,
    )


def smallest(passes: Callable[[int], bool], guess: int, most: int) -> tuple[int, int | None]:
    """(largest number that did not pass, smallest that did), from `guess` outward in growing steps and then halving.

    0 counts as not passing. The second is None if none of `most` numbers tried passed.
    """
    missed, passed = 0, None
    number = max(guess, 1)
    step = max(number // 10, 1)
    for _ in range(most):
        if passes(number):
            passed = number
        else:
            missed = number
        if passed is not None and passed - missed <= 1:
            break
        if passed is None:
            number, step = missed + step, 2 * step
        elif missed == 0:
            number, step = max(passed - step, 1), 2 * step
        else:
            number = (missed + passed) // 2
    return missed, passed


class _Fleets:
    def __init__(self, parameters: SimulationParameters, capacity: Capacity, target: float) -> None:
        assert capacity.load is not None
        assert capacity.at is not None
        at_once = capacity.at.in_system * target / capacity.load
        # As in a capacity search: more than it takes to fill the fleet up.
        requests = max(capacity.requests, math.ceil(10 * at_once))
        self._prober = Prober(parameters, capacity.axis, capacity.question, requests)
        self._target = target
        self.simulations = 0

    def probe(self, replicas: int) -> Probe:
        self.simulations += 1
        return self._of(replicas).probe(self._target)

    def run(self, replicas: int) -> tuple[Probe, SimulationResult]:
        self.simulations += 1
        return self._of(replicas).run(self._target, to_the_end=True)

    def _of(self, replicas: int) -> Prober:
        return replace(self._prober, parameters=replace(self._prober.parameters, replicas=replicas), probes=[])
