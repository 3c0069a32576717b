"""The cost of a step: a forward pass priced from the scheduler's sums in O(1) work, whatever the batch size.

What depends only on the number of tokens is tabulated once per scenario; the attention of decodes is affine in the sums
that the scheduler keeps, so a run of k decode steps over an unchanged batch costs an arithmetic series.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from servecast.hardware.engines import CudaGraphs, EngineProfile
from servecast.hardware.gpus import Gpu
from servecast.model.architecture import Architecture
from servecast.model.attention_cost import AttentionCost, WindowCost, attention_cost
from servecast.model.graphs import captured_tokens, launch_s, padded
from servecast.model.kernels import Floats
from servecast.model.layer_cost import CostByCause, LayerCost, price_tokens
from servecast.model.layer_forms import layer_cost
from servecast.model.precision import KV_BYTES


@dataclass(frozen=True)
class ForwardPass:
    """Prices steps of one model on one replica. Times in seconds; build it with `build_forward_pass`.

    layers_s[M]: all layers without attention for M tokens of a step with prompt chunks. head_s[r]: logits of r rows.
    steady_s[n]: n decodes and nothing else, but for what depends on their contexts. steady_layers: `layers` of such
    steps, which latent attention prices otherwise. host_step_s, host_request_s: what the host adds and the GPU waits
    for.
    """

    attention: AttentionCost
    layers: CostByCause
    steady_layers: CostByCause
    head: CostByCause
    layers_s: list[float]
    head_s: list[float]
    steady_s: list[float]
    host_step_s: float
    host_request_s: float

    def base_seconds(self, tokens: int, rows: int, requests: int) -> float:
        """Everything of a step but attention: `tokens` in it, `rows` that emit a token, `requests` in it."""
        return self.layers_s[tokens] + self.head_s[rows] + self.host_step_s + self.host_request_s * requests

    def decode_seconds(
        self, requests: int, context: int, longest: int, windowed: Sequence[tuple[int, int]] = ()
    ) -> float:
        """Attention of one new token for each of `requests`, from the sum and the longest of their contexts.

        windowed: (sum, longest) of the contexts cut at each finite window.
        """
        attention = self.attention
        seconds = attention.decode_fixed_s + attention.decode_per_request_s * requests
        seconds += attention.per_context_token_s * context + attention.per_longest_token_s * longest
        return seconds + self._windowed_seconds(windowed) if windowed else seconds

    def steady_seconds(
        self, requests: int, context: int, longest: int, windowed: Sequence[tuple[int, int]] = ()
    ) -> float:
        """A whole step of `requests` decodes and nothing else; arguments as for `decode_seconds`."""
        attention = self.attention
        seconds = self.steady_s[requests]
        seconds += attention.per_context_token_s * context + attention.per_longest_token_s * longest
        return seconds + self._windowed_seconds(windowed) if windowed else seconds

    def decode_growth_s(self, requests: int, windowed: Sequence[tuple[int, int]] = ()) -> float:
        """What each further step over an unchanged batch costs more; windowed: (sum, longest) gained a step."""
        seconds = self.attention.per_context_token_s * requests + self.attention.per_longest_token_s
        return seconds + self._windowed_seconds(windowed) if windowed else seconds

    def _windowed_seconds(self, windowed: Sequence[tuple[int, int]]) -> float:
        pairs = zip(self.attention.windows, windowed, strict=True)
        return sum(c.per_context_token_s * total + c.per_longest_token_s * longest for c, (total, longest) in pairs)

    def recompute_seconds(self, tokens: int, budget: int) -> float:
        """To compute `tokens` tokens of one sequence from the start, `budget` a step, with nothing beside it."""
        seconds = 0.0
        for cached in range(0, tokens, budget):
            chunk = min(budget, tokens - cached)
            seconds += self.base_seconds(chunk, 1, 1) + self.prefill_seconds([(cached, chunk)])
        return seconds

    def prefill_seconds(self, chunks: Sequence[tuple[int, int]]) -> float:
        """Attention of prompt chunks, each (tokens cached before it, its tokens), in one kernel a layer."""
        longest = max(chunks, key=_tokens)[1] if len(chunks) > 1 else chunks[0][1]
        seconds = 0.0
        for attention, count in self.attention.prefill:
            one_layer = attention.fixed_s + attention.tail_s_per_token * longest
            for cached, tokens in chunks:
                one_layer += attention.chunk_seconds(cached, tokens)
            seconds += count * one_layer
        return seconds


def _tokens(chunk: tuple[int, int]) -> int:
    return chunk[1]


def build_forward_pass(
    architecture: Architecture,
    gpu: Gpu,
    engine: EngineProfile,
    *,
    dtype: str,
    kv_cache_dtype: str,
    tensor_parallel_size: int,
    max_tokens: int,
    max_rows: int,
    enforce_eager: bool = False,
    enable_expert_parallel: bool = False,
    all2all_backend: str | None = None,
) -> ForwardPass:
    """Tables for steps of up to `max_tokens` tokens of which up to `max_rows` (not more) emit one.

    A 16-bit dtype means "as the checkpoint is": a quantised one stays so. enforce_eager, enable_expert_parallel,
    all2all_backend: as in ReplicaLayout. Raises ConfigError for weights that no kernel of the GPU takes.
    """
    kv_bytes = KV_BYTES[kv_cache_dtype]
    cost = layer_cost(
        architecture,
        gpu,
        engine,
        dtype=dtype,
        kv_bytes=kv_bytes,
        gpus=tensor_parallel_size,
        expert_parallel=enable_expert_parallel,
        all2all_backend=all2all_backend,
    )
    rows = np.arange(1, max_rows + 1, dtype=np.float64)
    head = cost.lm_head(rows, architecture.vocab_size)
    attention = attention_cost(architecture, cost, kv_bytes)
    captured = _Captured.of(engine, max_rows, attention.decode_fixed_s, eager=enforce_eager)
    layers = captured.layers(cost, architecture, np.arange(1, max_tokens + 1, dtype=np.float64))
    steady_layers = captured.layers(cost, architecture, rows, decodes=True)
    host = engine.host
    steady = steady_layers.total_s + head.total_s + host.step_seconds(tensor_parallel_size) + attention.decode_fixed_s
    steady += (host.request_s + attention.decode_per_request_s) * rows
    return ForwardPass(
        attention=attention,
        layers=layers,
        steady_layers=steady_layers,
        head=head,
        layers_s=[0.0, *layers.total_s.tolist()],
        head_s=[0.0, *head.total_s.tolist()],
        steady_s=[0.0, *steady.tolist()],
        host_step_s=host.step_seconds(tensor_parallel_size),
        host_request_s=host.request_s,
    )


@dataclass(frozen=True)
class _Captured:
    """How a step's layers are launched. attention_s: the fixed part of attention, which hides launches too."""

    graphs: CudaGraphs | None
    tokens: list[int]
    attention_s: float
    eager: bool

    @classmethod
    def of(cls, engine: EngineProfile, max_num_seqs: int, attention_s: float, *, eager: bool) -> _Captured:
        graphs = engine.graphs
        return cls(graphs, [] if graphs is None or eager else captured_tokens(graphs, max_num_seqs), attention_s, eager)

    def layers(
        self, cost: LayerCost, architecture: Architecture, tokens: Floats, *, decodes: bool = False
    ) -> CostByCause:
        """All layers for each of `tokens`, padded to a captured number, or as long as their launches if that is longer.

        What attention takes by the context does not hide launches: the time of a step stays affine in it, and comes
        out too long by that where launches are the limit.
        """
        if self.graphs is None:
            return price_tokens(cost, architecture, tokens, decodes=decodes)
        layers = price_tokens(cost, architecture, padded(tokens, self.tokens), decodes=decodes)
        launches = launch_s(tokens, self.tokens, architecture.num_layers, self.graphs, eager=self.eager)
        idle_s = np.maximum(launches - self.attention_s - layers.total_s, 0.0)
        nothing = np.zeros_like(tokens)
        return layers + CostByCause(nothing, nothing, idle_s, nothing)


def without_head(cost: ForwardPass) -> ForwardPass:
    """`cost` of a pipeline stage that computes no logits."""
    nothing = np.zeros_like(cost.head.compute_s)
    steady = np.asarray(cost.steady_s) - np.asarray(cost.head_s)
    return replace(
        cost,
        head=CostByCause(nothing, nothing, nothing, nothing),
        head_s=[0.0] * len(cost.head_s),
        steady_s=steady.tolist(),
    )


def with_windows(cost: ForwardPass, windows: Sequence[int]) -> ForwardPass:
    """`cost` of a pipeline stage, told the sums for all of `windows`, of which its layers may have but some."""
    own = {windowed.window: windowed for windowed in cost.attention.windows}
    every = tuple(own.get(window, WindowCost(window, 0.0, 0.0)) for window in windows)
    return replace(cost, attention=replace(cost.attention, windows=every))
