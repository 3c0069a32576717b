"""Attention to the KV cache, of all layers of a model: sums of what each kind of attention costs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from servecast.model.architecture import Architecture, Attention, LatentAttention
from servecast.model.kernels import DecodeAttention, PrefillAttention, decode_attention
from servecast.model.layer_cost import LayerCost
from servecast.model.mla_cost import LatentForm


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
    prefill: tuple[tuple[PrefillAttention | LatentForm, int], ...]

    @property
    def window_sizes(self) -> list[int]:
        """The finite windows, in tokens, ascending."""
        return [cost.window for cost in self.windows]


def attention_cost(architecture: Architecture, cost: LayerCost, kv_bytes: float) -> AttentionCost:
    fixed = per_request = 0.0
    slopes: dict[int | None, list[float]] = defaultdict(lambda: [0.0, 0.0])
    prefill: list[tuple[PrefillAttention | LatentForm, int]] = []
    for attention, count in _attention_groups(architecture):
        chunks: PrefillAttention | LatentForm
        if isinstance(attention, LatentAttention):
            chunks = form = cost.latent[attention]
            window, decode = form.window, form.decode_attention()
            slopes[None][0] += count * form.index_s_per_context_token()
        else:
            window = attention.window
            decode, chunks = _grouped_query(attention, cost, kv_bytes)
        fixed += count * decode.fixed_s
        per_request += count * decode.per_request_s
        slopes[window][0] += count * decode.per_context_token_s
        slopes[window][1] += count * decode.per_longest_token_s
        prefill.append((chunks, count))
    per_token, per_longest = slopes.pop(None, [0.0, 0.0])
    windows = tuple(WindowCost(w, *slopes[w]) for w in sorted(w for w in slopes if w is not None))
    return AttentionCost(fixed, per_request, per_token, per_longest, windows, tuple(prefill))


def _attention_groups(architecture: Architecture) -> list[tuple[Attention | LatentAttention, int]]:
    counts: dict[Attention | LatentAttention, int] = defaultdict(int)
    for layer, count in architecture.layer_groups:
        counts[layer.attention] += count
    return list(counts.items())


def _grouped_query(attention: Attention, cost: LayerCost, kv_bytes: float) -> tuple[DecodeAttention, PrefillAttention]:
    heads = attention.num_heads // cost.gpus
    kv_heads = max(attention.num_kv_heads // cost.gpus, 1)
    decode = decode_attention(
        cost.kernels.decode_for(attention.head_dim, fp8_kv=kv_bytes == 1.0),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=attention.head_dim,
        kv_bytes=kv_bytes,
        bytes_per_s=cost.gpu.memory_bytes_per_s,
        sm_count=cost.gpu.sm_count,
    )
    return decode, _prefill_attention(attention, heads, kv_heads, cost)


def _prefill_attention(attention: Attention, heads: int, kv_heads: int, cost: LayerCost) -> PrefillAttention:
    return PrefillAttention(
        coefficients=cost.kernels.prefill_for(attention.head_dim),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=attention.head_dim,
        window=attention.window,
        peak_flops=cost.gpu.peak_flops["16bit"],
        bytes_per_s=cost.gpu.memory_bytes_per_s,
        sm_count=cost.gpu.sm_count,
    )
