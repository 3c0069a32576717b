"""The cost of a step: a forward pass priced from the scheduler's sums in O(1) work, whatever the batch size.

What depends only on the number of tokens is tabulated once per scenario; the attention of decodes is affine in the sums
that the scheduler keeps, so a run of k decode steps over an unchanged batch costs an arithmetic series.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from servecast.hardware.engines import DecodeCoefficients, EngineProfile
from servecast.hardware.errors import ConfigError
from servecast.hardware.gpus import Gpu
from servecast.model.architecture import Architecture, Attention, Quantization
from servecast.model.kernels import PrefillAttention, decode_attention
from servecast.model.layer_cost import CostByCause, LayerCost, price_tokens
from servecast.model.precision import KV_BYTES, gemm_form
from servecast.model.weights import effective_quantization


@dataclass(frozen=True)
class WindowCost:
    """Decode attention of all layers that share one window: coefficients already times the number of layers."""

    window: int
    per_context_token_s: float
    per_longest_token_s: float


@dataclass(frozen=True)
class AttentionCost:
    """Attention of all layers. The per-token costs are those of layers that see all tokens; `windows` holds the others,
    by ascending window. prefill: each kind of attention with its number of layers.
    """

    decode_fixed_s: float
    decode_per_request_s: float
    per_context_token_s: float
    per_longest_token_s: float
    windows: tuple[WindowCost, ...]
    prefill: tuple[tuple[PrefillAttention, int], ...]

    @property
    def window_sizes(self) -> list[int]:
        """The finite windows, in tokens, ascending."""
        return [cost.window for cost in self.windows]


@dataclass(frozen=True)
class ForwardPass:
    """Prices steps of one model on one replica. Times in seconds; build it with `build_forward_pass`.

    layers_s[M]: all layers without attention for M tokens. head_s[r]: logits of r rows.
    steady_s[n]: n decodes and nothing else, but for what depends on their contexts. host_step_s, host_request_s:
    what the host adds and the GPU waits for.
    """

    attention: AttentionCost
    layers: CostByCause
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
) -> ForwardPass:
    """Tables for steps of up to `max_tokens` tokens of which up to `max_rows` (not more) emit one.

    A 16-bit dtype means "as the checkpoint is": a quantised one stays so. Raises ConfigError for layers that cannot be
    priced.
    """
    kernels = engine.kernels_for(gpu.key)
    quantization = effective_quantization(architecture, dtype)
    cost = LayerCost(
        gpu=gpu,
        kernels=kernels,
        elementwise=engine.elementwise,
        attention=gemm_form(_part_dtype(quantization, "attention"), gpu, kernels),
        mlp=gemm_form(_part_dtype(quantization, "mlp"), gpu, kernels),
        head=gemm_form("bfloat16", gpu, kernels),
        hidden_size=architecture.hidden_size,
        gpus=tensor_parallel_size,
    )
    layers = price_tokens(cost, architecture, np.arange(1, max_tokens + 1, dtype=np.float64))
    head = cost.lm_head(np.arange(1, max_rows + 1, dtype=np.float64), architecture.vocab_size)
    attention = _attention_cost(architecture, cost, KV_BYTES[kv_cache_dtype])
    host = engine.host
    rows = np.arange(1, max_rows + 1)
    steady = layers.total_s[:max_rows] + head.total_s + host.step_s + attention.decode_fixed_s
    steady += (host.request_s + attention.decode_per_request_s) * rows
    return ForwardPass(
        attention=attention,
        layers=layers,
        head=head,
        layers_s=[0.0, *layers.total_s.tolist()],
        head_s=[0.0, *head.total_s.tolist()],
        steady_s=[0.0, *steady.tolist()],
        host_step_s=host.step_s,
        host_request_s=host.request_s,
    )


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


def _part_dtype(quantization: Quantization | None, part: str) -> str:
    """Weight dtype of a part of the layers; "bfloat16" stands for either 16-bit type."""
    return "bfloat16" if quantization is None or part in quantization.ignored else quantization.dtype


def _attention_cost(architecture: Architecture, cost: LayerCost, kv_bytes: float) -> AttentionCost:
    fixed = per_request = 0.0
    slopes: dict[int | None, list[float]] = defaultdict(lambda: [0.0, 0.0])
    prefill = []
    for attention, count in _attention_groups(architecture):
        heads = attention.num_heads // cost.gpus
        kv_heads = max(attention.num_kv_heads // cost.gpus, 1)
        decode = decode_attention(
            _decode_coefficients(cost, kv_bytes),
            num_heads=heads,
            num_kv_heads=kv_heads,
            head_dim=attention.head_dim,
            kv_bytes=kv_bytes,
            bytes_per_s=cost.gpu.memory_bytes_per_s,
            sm_count=cost.gpu.sm_count,
        )
        fixed += count * decode.fixed_s
        per_request += count * decode.per_request_s
        slopes[attention.window][0] += count * decode.per_context_token_s
        slopes[attention.window][1] += count * decode.per_longest_token_s
        prefill.append((_prefill_attention(attention, heads, kv_heads, cost), count))
    per_token, per_longest = slopes.pop(None, [0.0, 0.0])
    windows = tuple(WindowCost(w, *slopes[w]) for w in sorted(w for w in slopes if w is not None))
    return AttentionCost(fixed, per_request, per_token, per_longest, windows, tuple(prefill))


def _attention_groups(architecture: Architecture) -> list[tuple[Attention, int]]:
    counts: dict[Attention, int] = defaultdict(int)
    for layer, count in architecture.layer_groups:
        if not isinstance(layer.attention, Attention):
            raise ConfigError(f"no step cost for {type(layer.attention).__name__} yet", key="model")
        counts[layer.attention] += count
    return list(counts.items())


def _decode_coefficients(cost: LayerCost, kv_bytes: float) -> DecodeCoefficients:
    measured_fp8 = cost.kernels.decode_fp8_kv
    return measured_fp8 if kv_bytes == 1.0 and measured_fp8 is not None else cost.kernels.decode


def _prefill_attention(attention: Attention, heads: int, kv_heads: int, cost: LayerCost) -> PrefillAttention:
    return PrefillAttention(
        coefficients=cost.kernels.prefill,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=attention.head_dim,
        window=attention.window,
        peak_flops=cost.gpu.peak_flops["16bit"],
        bytes_per_s=cost.gpu.memory_bytes_per_s,
        sm_count=cost.gpu.sm_count,
    )
