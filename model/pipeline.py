"""Pipeline parallelism: stages that a step passes through in turn, each with layers and GPUs of its own.

While a step is in one stage, others are in the stages before and behind it. A stage takes the steps in the order in
which they were scheduled, so when each leaves follows from when the stage is free: no events are needed inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from servecast.hardware.engines import HostTimes
from servecast.hardware.gpus import Gpu
from servecast.model.forward import ForwardPass
from servecast.model.layout import ReplicaLayout
from servecast.model.ledger import RESOURCES, Ledger
from servecast.model.step import Step

# NCCL send/recv between two GPUs of a server: 5 us and 79 % of the link on H100, 8 us and 76 % on A100 (2 KiB and 64
# MiB; microsoft/vidur's network profiles, MIT).
_SERVER_LATENCY_S, _LINK_SHARE = 6e-6, 0.78
# Between two servers of H100s: 17 us and 36 GB/s, of a 400 Gbit/s adapter for each GPU (same source).
_NETWORK_LATENCY_S, _NETWORK_BYTES_PER_S = 17e-6, 36e9


@dataclass(frozen=True)
class HandOver:
    """Time from the end of a stage to when the next has its input."""

    latency_s: float
    s_per_token: float

    def seconds(self, tokens: int) -> float:
        """For a step of `tokens` tokens."""
        return self.latency_s + self.s_per_token * tokens


def hand_overs(layout: ReplicaLayout, gpu: Gpu, hidden_size: int) -> tuple[HandOver, ...]:
    """From each stage but the last to the next. Every GPU of a stage sends its share of hidden state and residual (2 B
    an element each) and the receivers gather them; the gathering is left out, it is as fast as the link inside a stage.

    Stages fill servers in order; between servers the network carries them.
    """
    token_bytes = 2 * 2.0 * hidden_size / layout.tensor_parallel_size
    link = gpu.link.bytes_per_s if gpu.link is not None else gpu.pcie_bytes_per_s
    within = HandOver(_SERVER_LATENCY_S, token_bytes / (_LINK_SHARE * link))
    across = HandOver(_NETWORK_LATENCY_S, token_bytes / _NETWORK_BYTES_PER_S)
    stages_a_server = gpu.server_gpus // layout.tensor_parallel_size
    boundaries = range(1, layout.pipeline_parallel_size)
    return tuple(within if stage % stages_a_server else across for stage in boundaries)


class Pipeline:
    """Runs steps through `stages`, and keeps account as a `Ledger` does. `host`: times of the engine, once a step; the
    host times of `stages` must be 0.

    seconds_by_resource gives the mean over stages: what is missing to the run's duration are bubbles.
    """

    def __init__(self, stages: Sequence[ForwardPass], hand_overs: Sequence[HandOver], host: HostTimes) -> None:
        self.host_link_s = 0.0
        self._host = host
        self._host_s = 0.0
        self._ledgers = [Ledger(stage) for stage in stages]
        self._hand_overs = (*hand_overs, HandOver(0.0, 0.0))
        self._free_s = [0.0] * len(stages)

    @property
    def depth(self) -> int:
        """Number of stages: steps that can be on their way at once."""
        return len(self._ledgers)

    @property
    def recompute_s(self) -> float:
        """Seconds that recomputed tokens took, as the mean over stages."""
        return sum(ledger.recompute_s for ledger in self._ledgers) / self.depth

    def host_seconds(self, step: Step) -> float:
        """What the engine needs to send `step` off, which is counted."""
        seconds = self._host.step_s + self._host.request_s * (step.decodes + len(step.chunks))
        self._host_s += seconds
        return seconds

    def run(self, step: Step, now_s: float) -> tuple[float, float]:
        """When `step`, scheduled at `now_s`, begins in the first stage and ends in the last."""
        begin_s = max(now_s, self._free_s[0])
        tokens = step.decodes + step.prefill_tokens
        ready_s = begin_s
        for stage, (ledger, hand_over) in enumerate(zip(self._ledgers, self._hand_overs, strict=True)):
            end_s = max(ready_s, self._free_s[stage]) + ledger.price(step)
            self._free_s[stage] = end_s
            ready_s = end_s + hand_over.seconds(tokens)
        return begin_s, ready_s

    def seconds_by_resource(self) -> dict[str, float]:
        """As `Ledger.seconds_by_resource`, the mean over stages."""
        totals = dict.fromkeys(RESOURCES, 0.0)
        for ledger in self._ledgers:
            for resource, seconds in ledger.seconds_by_resource().items():
                totals[resource] += seconds / self.depth
        totals["host"] += self._host_s / self.depth
        totals["host_link"] += self.host_link_s
        return totals
