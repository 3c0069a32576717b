"""Seconds of multi-head latent attention: the projections for all tokens of a step, and attention to the cache.

A cached token is one latent of kv_lora + rope values, shared by all heads. Decodes attend to latents directly
(absorbed), long prompt chunks expand them to keys and values first. Forms and limits: docs/model.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from servecast.hardware.engines import KernelCoefficients, MlaDecodeCoefficients, MlaPrefillCoefficients
from servecast.hardware.gpus import Gpu
from servecast.model.architecture import LatentAttention, Quantization
from servecast.model.kernels import DecodeAttention, Floats, GemmTime, attended_pairs
from servecast.model.precision import WEIGHT_BITS

# Of the time of a whole decode attention, what its kernel that reads the cache takes at least: a step with prompts
# launches it beside theirs. From the kernels timed alone on H100, H200 and B200 (10 to 14 us).
_DECODE_LAUNCH_S = 12e-6
# Share of the 16-bit peak that the projections of decodes reach, as the fits assumed.
_DECODE_GEMM_SHARE = 0.6
# Kind of weights -> (peak of the projections, bytes per weight).
_KINDS = {"bf16": ("16bit", 2.0), "fp8": ("fp8", 1.0), "nvfp4": ("fp4", 0.5625)}


@dataclass(frozen=True)
class LatentShape:
    """One layer's latent attention on one GPU: `heads` of this GPU, everything else whole."""

    attention: LatentAttention
    hidden_size: int
    heads: int

    @property
    def query_width(self) -> int:
        return self.attention.nope_head_dim + self.attention.rope_head_dim

    @property
    def latent_width(self) -> int:
        return self.attention.kv_lora_rank + self.attention.rope_head_dim

    @property
    def up_elements(self) -> int:
        """The matrix that expands latents to keys and values."""
        a = self.attention
        return a.kv_lora_rank * self.heads * (a.nope_head_dim + a.v_head_dim)

    @property
    def elements(self) -> int:
        """Weights that a token passes through; the same for both ways of attending."""
        a, queries = self.attention, self.heads * self.query_width
        down = self.hidden_size * ((a.q_lora_rank or 0) + self.latent_width)
        up = queries * (a.q_lora_rank or self.hidden_size) + self.up_elements
        return down + up + self.heads * a.v_head_dim * self.hidden_size

    @property
    def activation_values(self) -> int:
        """Values that the projections read and write for a token."""
        a = self.attention
        narrow = (a.q_lora_rank or 0) + self.latent_width
        per_head = self.query_width + a.nope_head_dim + 2 * a.v_head_dim
        return 2 * self.hidden_size + 2 * narrow + self.heads * per_head

    @property
    def expanded_values(self) -> int:
        """Queries, keys, values and outputs of a token."""
        return self.heads * 2 * (self.query_width + self.attention.v_head_dim)


@dataclass(frozen=True)
class LatentForm:
    """Latent attention of one layer on one GPU.

    prefill: of long chunks. short: of chunks of up to `short.up_to_tokens` tokens, which take the decode kernel; None
    where the engine expands all. kv_bytes: per cached value. projection_peak, peak: FLOP/s of the projections, and of
    16 bit.
    """

    shape: LatentShape
    prefill: MlaPrefillCoefficients
    short: MlaPrefillCoefficients | None
    decode: MlaDecodeCoefficients
    kv_bytes: float
    weight_bytes: float
    projection_peak: float
    peak: float
    bytes_per_s: float

    @property
    def window(self) -> int | None:
        """Tokens that the indexer of sparse attention lets a query see; None for all."""
        return self.shape.attention.index_topk or None

    @property
    def short_tokens(self) -> int:
        return 0 if self.short is None or self.short.up_to_tokens is None else self.short.up_to_tokens

    def prompt_projections(self, tokens: Floats) -> GemmTime:
        """Everything of a step with prompt tokens that depends on the number of its tokens alone.

        A larger step never takes less time than the largest that the kernel for short chunks prices.
        """
        long = self._projections(tokens, self.prefill)
        if self.short is None:
            return long
        short = self._projections(tokens, self.short)
        border = self._projections(np.asarray(float(self.short_tokens)), self.short)
        return short.where(tokens <= self.short_tokens, long.at_least(border.total_s))

    def decode_projections(self, tokens: Floats) -> GemmTime:
        """The same for a step of decodes alone, without the launch that `decode_attention` counts."""
        elements, c = self.shape.elements, self.decode
        compute = 2.0 * tokens * elements / (_DECODE_GEMM_SHARE * self.peak)
        memory = np.full_like(tokens, elements * self.weight_bytes / (c.e_w * self.bytes_per_s))
        return _by_limit(np.full_like(tokens, max(c.t0_s - _DECODE_LAUNCH_S, 0.0)), compute, memory)

    def decode_attention(self) -> DecodeAttention:
        """Affine like any decode attention: reading latents and scoring them both grow with the sum of contexts."""
        c = self.decode
        read = self.shape.latent_width * self.kv_bytes / (c.e_m * self.bytes_per_s)
        scored = self._absorbed_flops * max(self.shape.heads, c.h_pad) / (c.e_c * self.peak)
        return DecodeAttention(
            fixed_s=min(c.t0_s, _DECODE_LAUNCH_S),
            per_request_s=0.0,
            per_context_token_s=float(np.hypot(read, scored) if c.p == 2 else _pnorm(read, scored, c.p)),
            per_longest_token_s=c.c_ctx_s_per_token,
        )

    def index_s_per_context_token(self) -> float:
        """The indexer of sparse attention reads a key of 8-bit values and a scale for every token of the context."""
        a = self.shape.attention
        if not a.index_heads:
            return 0.0
        return (a.index_head_dim + 4) / (self.decode.e_m * self.bytes_per_s)

    # What follows prices prompt chunks, as PrefillAttention does for other attentions.

    @property
    def fixed_s(self) -> float:
        """0: the launches are part of `prompt_projections`."""
        return 0.0

    @property
    def tail_s_per_token(self) -> float:
        return 0.0

    def chunk_seconds(self, cached: int, tokens: int) -> float:
        """Attention of `tokens` new ones after `cached`. A long chunk expands the cached latents anew."""
        pairs = attended_pairs(cached, tokens, self.window)
        seconds = self._index_s_per_pair * attended_pairs(cached, tokens, None)
        if tokens <= self.short_tokens or (self.window is not None and cached + tokens > self.window):
            latents = cached * self.shape.latent_width * self.kv_bytes
            return seconds + pairs * self._absorbed_s_per_pair + latents / (self.decode.e_m * self.bytes_per_s)
        pairs += tokens * self.prefill.s_half_tokens / 2
        return seconds + pairs * self._expanded_s_per_pair + cached * self._expansion_s_per_token

    @property
    def _absorbed_flops(self) -> float:
        """Of one head for one pair: scores over the latent and the rotary part, then the sum of latents."""
        return 2.0 * (self.shape.latent_width + self.shape.attention.kv_lora_rank)

    @cached_property
    def _absorbed_s_per_pair(self) -> float:
        return self._absorbed_flops * max(self.shape.heads, self.decode.h_pad) / (self.decode.e_c * self.peak)

    @cached_property
    def _expanded_s_per_pair(self) -> float:
        width = self.shape.query_width + self.shape.attention.v_head_dim
        return 2.0 * width * self.shape.heads / (self.prefill.e_c * self.peak)

    @cached_property
    def _index_s_per_pair(self) -> float:
        """Scores of the indexer, in 8 bit at the share that the projections reach."""
        a = self.shape.attention
        return 2.0 * a.index_heads * a.index_head_dim / (self.prefill.e_g * self.projection_peak)

    @cached_property
    def _expansion_s_per_token(self) -> float:
        """A cached token: its latent is read, its keys and values are computed, written, and read by the kernel."""
        shape, c = self.shape, self.prefill
        values = 2 * shape.heads * (shape.attention.nope_head_dim + shape.attention.v_head_dim)
        moved = shape.latent_width * self.kv_bytes + 2.0 * values
        return 2.0 * shape.up_elements / (c.e_g * self.projection_peak) + moved / (c.e_m * self.bytes_per_s)

    def _projections(self, tokens: Floats, c: MlaPrefillCoefficients) -> GemmTime:
        shape = self.shape
        compute = 2.0 * tokens * shape.elements / (c.e_g * self.projection_peak)
        memory = np.full_like(tokens, shape.elements * self.weight_bytes / (c.e_m * self.bytes_per_s))
        cache_bytes = shape.latent_width * (2 + self.kv_bytes)
        moved = tokens * (2.0 * (shape.activation_values + shape.expanded_values) + cache_bytes)
        return _by_limit(c.t0_s + moved / (c.e_m * self.bytes_per_s), compute, memory)


def _pnorm(a: float, b: float, p: float) -> float:
    high, low = max(a, b), min(a, b)
    return float(high * (1.0 + (low / high) ** p) ** (1.0 / p))


def _by_limit(fixed: Floats, compute: Floats, memory: Floats) -> GemmTime:
    both, bound = np.hypot(compute, memory), compute > memory
    return GemmTime(fixed, np.where(bound, both, 0.0), np.where(bound, 0.0, both))


def latent_kind(quantization: Quantization | None) -> str:
    """Kind of projections; weight-only formats multiply in 16 bit."""
    if quantization is None or "attention" in quantization.ignored:
        return "bf16"
    return {"fp8": "fp8", "int8": "fp8", "nvfp4": "nvfp4"}.get(quantization.dtype, "bf16")


def latent_groups(
    quantization: Quantization | None, kv_bytes: float, gpu: Gpu, kernels: KernelCoefficients
) -> tuple[str, str, str | None]:
    """Which of `kernels.mla_prefill`, `mla_decode` and `mla_short` hold: of the weights' kind if the GPU has that
    arithmetic, else those of 16 bit; of an 8-bit cache if those were measured, else of a 16-bit one.
    """
    kind = latent_kind(quantization)
    if _KINDS[kind][0] not in gpu.peak_flops:
        kind = "bf16"
    cached = f"{kind}_kv8" if kv_bytes == 1.0 else kind
    return (
        cached if cached in kernels.mla_prefill else kind,
        cached if cached in kernels.mla_decode else kind,
        cached if cached in kernels.mla_short else None,
    )


def latent_form(
    shape: LatentShape, quantization: Quantization | None, kv_bytes: float, gpu: Gpu, kernels: KernelCoefficients
) -> LatentForm:
    """The kernels for `shape`. kv_bytes: 1 for an FP8 cache; where that was not measured, the kernels of a 16-bit cache
    read half the bytes.
    """
    prefill, decode, short = latent_groups(quantization, kv_bytes, gpu, kernels)
    peak, weight_bytes = _KINDS[prefill.removesuffix("_kv8")]
    if quantization is not None and "attention" not in quantization.ignored:
        weight_bytes = min(weight_bytes, WEIGHT_BITS[quantization.dtype] / 8)
    return LatentForm(
        shape=shape,
        prefill=kernels.mla_prefill[prefill],
        short=None if short is None else kernels.mla_short[short],
        decode=kernels.mla_decode[decode],
        kv_bytes=kv_bytes,
        weight_bytes=weight_bytes,
        projection_peak=gpu.peak_flops[peak],
        peak=gpu.peak_flops["16bit"],
        bytes_per_s=gpu.memory_bytes_per_s,
    )
