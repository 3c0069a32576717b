"""The traffic of one simulation: all lengths and arrival times, drawn before it starts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from servecast.hardware.errors import ConfigError, InvariantError
from servecast.model.arrivals import Arrivals, ClosedLoop, TraceArrivals
from servecast.model.checks import require
from servecast.model.identity import IdentityParameters, draw_identity
from servecast.model.lengths import EmpiricalLengths, Lengths
from servecast.model.request import Content

# At this time a clock in double precision still counts in 0.015 microseconds.
LONGEST_S = 1e8

ARRIVALS_STREAM, PROMPTS_STREAM, OUTPUTS_STREAM, PRIORITIES_STREAM, TENANTS_STREAM = range(5)


@dataclass(frozen=True)
class WorkloadParameters:
    """What to draw.

    identity: what sets requests apart besides their lengths. num_requests: None takes every request of the trace.
    notes: what was odd about the input, with counts; passed on.
    """

    arrivals: Arrivals
    lengths: Lengths
    num_requests: int | None = None
    identity: IdentityParameters = field(default_factory=IdentityParameters)
    name: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        ok = self.num_requests is None or self.num_requests >= 1
        require(ok, "num_requests", f"must be 1 or more, found {self.num_requests!r}")

    @property
    def request_count(self) -> int:
        """Requests to draw. Raises ConfigError if neither `num_requests` nor a trace says how many."""
        if self.num_requests is not None:
            return self.num_requests
        if isinstance(self.arrivals, TraceArrivals):
            return len(self.arrivals)
        if isinstance(self.lengths, EmpiricalLengths):
            return len(self.lengths)
        raise ConfigError("is needed: only a trace brings its own number of requests", key="num_requests")


@dataclass(frozen=True, eq=False)
class Workload:
    """Everything about the traffic. Columns have one entry a request, in arrival order.

    prompt_tokens, output_tokens: int64, 1 or more. arrival_s: float64, non-decreasing, seconds from the
    start; None in a closed loop, where `closed_loop` says how many clients take the requests in this order.
    notes: everything odd about the input, with counts. priority (int64), tenant (names) and content (what
    prompts share with others): None when unused.
    """

    prompt_tokens: npt.NDArray[np.int64]
    output_tokens: npt.NDArray[np.int64]
    arrival_s: npt.NDArray[np.float64] | None = None
    closed_loop: ClosedLoop | None = None
    name: str = ""
    notes: tuple[str, ...] = ()
    priority: npt.NDArray[np.int64] | None = None
    tenant: npt.NDArray[np.str_] | None = None
    content: Sequence[Content] | None = None

    def __len__(self) -> int:
        return len(self.prompt_tokens)

    @property
    def request_rate(self) -> float | None:
        """Offered requests/s, from the first arrival to the last; infinity if all come at once.

        None in a closed loop, whose rate is an outcome, and for a single request.
        """
        if self.arrival_s is None or len(self) < 2:
            return None
        span_s = float(self.arrival_s[-1] - self.arrival_s[0])
        return (len(self) - 1) / span_s if span_s > 0 else math.inf

    def check(self) -> None:
        """Raise InvariantError if columns disagree in size, a length is below 1, or time runs backwards."""
        columns = (self.output_tokens, self.arrival_s, self.priority, self.tenant, self.content)
        if any(column is not None and len(column) != len(self) for column in columns):
            raise InvariantError("the workload's columns differ in length")
        if len(self) and min(self.prompt_tokens.min(), self.output_tokens.min()) < 1:
            raise InvariantError("a request has a prompt or output below 1 token")
        if (self.arrival_s is None) == (self.closed_loop is None):
            raise InvariantError("a workload has either arrival times or a closed loop")
        if self.arrival_s is not None and np.any(np.diff(self.arrival_s, prepend=0.0) < 0):
            raise InvariantError("arrival times must begin at 0 or later and not decrease")


def _check_span(closed_loop: ClosedLoop | None, arrival_s: npt.NDArray[np.float64] | None, count: int) -> None:
    """Raise ConfigError if the clock would run so far that it no longer tells the times of tokens apart."""
    if closed_loop is not None:
        last_s = closed_loop.think_time_s * (count / closed_loop.concurrency - 1)
    else:
        last_s = 0.0 if arrival_s is None or not count else float(arrival_s[-1])
    problem = f"make the last request arrive after {last_s:.3g} s; times are kept for {LONGEST_S:,.0f} s (3 years)"
    require(last_s <= LONGEST_S, "workload.arrivals", problem)


def draw_workload(params: WorkloadParameters, seed: np.random.SeedSequence) -> Workload:
    """Draw the workload. Equal `params` and `seed` give equal workloads; `seed` is not changed.

    Arrivals, lengths, priorities and tenants have a stream each (child 0 to 4 of `seed`, which must
    belong to the workload alone): another rate or arrival process leaves the lengths as they are, and the
    other way round.
    """
    count = params.request_count
    prompt_tokens, output_tokens = params.lengths.draw(
        count, _stream(seed, PROMPTS_STREAM), _stream(seed, OUTPUTS_STREAM)
    )
    streams = (_stream(seed, PRIORITIES_STREAM), _stream(seed, TENANTS_STREAM))
    identity = draw_identity(params.identity, prompt_tokens, *streams)
    closed_loop = arrival_s = None
    if isinstance(params.arrivals, ClosedLoop):
        closed_loop = params.arrivals
    else:
        arrival_s = params.arrivals.times(count, _stream(seed, ARRIVALS_STREAM))
    _check_span(closed_loop, arrival_s, count)
    return Workload(
        identity.prompt_tokens,
        output_tokens,
        arrival_s,
        closed_loop,
        params.name,
        _notes(params, count),
        identity.priority,
        identity.tenant,
        identity.content,
    )


def _stream(seed: np.random.SeedSequence, child: int) -> np.random.Generator:
    # seed.spawn() would count its calls in `seed` and give another workload the second time.
    key = (*seed.spawn_key, child)
    return np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=key))


def _notes(params: WorkloadParameters, count: int) -> tuple[str, ...]:
    lengths = params.lengths
    if isinstance(lengths, EmpiricalLengths) and lengths.order == "replay" and count > len(lengths):
        repeated = f"{count:,} requests from {len(lengths):,} recorded lengths: these are repeated in order"
        return (*params.notes, repeated)
    return params.notes
