"""Where the time of a replica's steps went, kept as sums that cost O(1) a step."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from servecast.model.forward import ForwardPass
from servecast.model.step import Step

RESOURCES = ("weights_bandwidth", "kv_bandwidth", "compute", "interconnect", "overhead", "host", "host_link")


class StepPrices(Protocol):
    """The account that an engine keeps of its steps. host_link_s: time that it stood still for copies."""

    host_link_s: float

    @property
    def recompute_s(self) -> float:
        """Estimate of the time that recomputed tokens took."""
        ...

    def seconds_by_resource(self) -> dict[str, float]:
        """Keys of RESOURCES."""
        ...


class Ledger:
    """Prices steps and counts them by their tokens and rows; what those cost by cause is looked up once, at the end."""

    def __init__(self, forward: ForwardPass) -> None:
        self._forward = forward
        self._steps_by_tokens = [0] * len(forward.layers_s)
        self._steps_by_rows = [0] * len(forward.head_s)
        self._steady_steps = [0] * len(forward.steady_s)
        self._steady_s = 0.0
        self._mixed_steps = 0
        self._mixed_requests = 0
        self._decode_attention_s = 0.0
        self._prefill_attention_s = 0.0
        self.host_link_s = 0.0
        self.recompute_s = 0.0

    def price(self, step: Step) -> float:
        """Seconds of `step`, which is counted."""
        forward = self._forward
        decodes = step.steady + step.resumed
        if not step.chunks:
            seconds = forward.steady_seconds(decodes, step.context, step.longest, step.windowed)
            self.add_steady(decodes, 1, seconds)
            return seconds
        decode_s = forward.decode_seconds(decodes, step.context, step.longest, step.windowed) if decodes else 0.0
        prefill_s = forward.prefill_seconds(step.chunks)
        tokens, requests = decodes + step.prefill_tokens, decodes + len(step.chunks)
        self._steps_by_tokens[tokens] += 1
        self._steps_by_rows[step.rows] += 1
        self._mixed_steps += 1
        self._mixed_requests += requests
        self._decode_attention_s += decode_s
        self._prefill_attention_s += prefill_s
        seconds = forward.base_seconds(tokens, step.rows, requests) + decode_s + prefill_s
        if step.recomputed_tokens:
            # What the step would have been shorter without them, about: their share of its tokens.
            self.recompute_s += seconds * step.recomputed_tokens / tokens
        return seconds

    def add_steady(self, decodes: int, count: int, seconds: float) -> None:
        """`count` steps of `decodes` decodes and nothing else, `seconds` long together."""
        self._steady_steps[decodes] += count
        self._steady_s += seconds

    def seconds_by_resource(self) -> dict[str, float]:
        """Seconds by what limited them. Prefill attention counts as compute, decode attention as KV bandwidth.

        overhead: launches and element-wise kernels. host_link: steps that waited for KV blocks to be copied.
        """
        forward = self._forward
        steady = np.asarray(self._steady_steps, dtype=np.float64)
        by_tokens = np.asarray(self._steps_by_tokens, dtype=np.float64)
        by_rows = np.asarray(self._steps_by_rows, dtype=np.float64) + steady
        layers, decodes, head = forward.layers, forward.steady_layers, forward.head
        tokens, rows, batches = by_tokens[1:], by_rows[1:], steady[1:]
        steps = self._mixed_steps + steady.sum()
        requests = self._mixed_requests + steady @ np.arange(len(steady))
        host = forward.host_step_s * steps + forward.host_request_s * requests
        # What is left of the steady steps without layers, head and host is attention.
        steady_host = forward.host_step_s + forward.host_request_s * np.arange(1, len(steady))
        attention = self._steady_s - float(batches @ (decodes.total_s + head.total_s + steady_host))

        def part(name: str) -> float:
            of_layers = tokens @ getattr(layers, name) + batches @ getattr(decodes, name)
            return float(of_layers + rows @ getattr(head, name))

        return {
            "weights_bandwidth": part("weights_bandwidth_s"),
            "kv_bandwidth": self._decode_attention_s + attention,
            "compute": part("compute_s") + self._prefill_attention_s,
            "interconnect": part("interconnect_s"),
            "overhead": part("overhead_s"),
            "host": float(host),
            "host_link": self.host_link_s,
        }
