"""Seconds that the layers of a model take for M tokens, by cause: what of a step depends on M alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from servecast.hardware.engines import Elementwise, Fusions, KernelCoefficients
from servecast.hardware.gpus import Gpu
from servecast.model.architecture import Architecture, Attention, DenseMlp, LatentAttention, Layer, MoeMlp
from servecast.model.collectives import collective_seconds
from servecast.model.expert_exchange import ExpertExchange
from servecast.model.kernels import Floats, GemmForm, GemmTime
from servecast.model.mla_cost import LatentForm
from servecast.model.moe_cost import ExpertForm, ExpertShape

# Bytes a token and value that element-wise kernels move: add+norm reads and writes two vectors, the rotary embedding
# one (norms of queries and keys the same again), a gated activation reads two values and writes one.
_NORM_BYTES, _ROTARY_BYTES, _ACTIVATION_BYTES = 8, 4, 6


@dataclass(frozen=True)
class CostByCause:
    """Seconds for each number of tokens (arrays of equal length), by the resource that limits.

    overhead_s: kernel launches, activation quantisation and element-wise kernels.
    """

    weights_bandwidth_s: Floats
    compute_s: Floats
    overhead_s: Floats
    interconnect_s: Floats

    @property
    def total_s(self) -> Floats:
        return self.weights_bandwidth_s + self.compute_s + self.overhead_s + self.interconnect_s

    def __add__(self, other: CostByCause) -> CostByCause:
        return CostByCause(
            self.weights_bandwidth_s + other.weights_bandwidth_s,
            self.compute_s + other.compute_s,
            self.overhead_s + other.overhead_s,
            self.interconnect_s + other.interconnect_s,
        )

    def times(self, count: int) -> CostByCause:
        """The cost of `count` equal layers."""
        return CostByCause(
            self.weights_bandwidth_s * count,
            self.compute_s * count,
            self.overhead_s * count,
            self.interconnect_s * count,
        )


@dataclass(frozen=True)
class LayerCost:
    """What prices the layers of one model on one GPU at one tensor-parallel size.

    attention, mlp, shared_experts, head: how their weights are multiplied; a quantised checkpoint may leave some parts
    at 16 bit. plain: how 16-bit matrices are multiplied. experts: the kernel of routed experts, None without any.
    latent: each kind of latent attention with its form. expert_parallel: experts are dealt out to the GPUs. exchange:
    how tokens reach them, None for the all-reduce. fusions: of the engine. sampling_s: per logit.
    """

    gpu: Gpu
    kernels: KernelCoefficients
    elementwise: Elementwise
    fusions: Fusions
    sampling_s: float
    attention: GemmForm
    mlp: GemmForm
    shared_experts: GemmForm
    plain: GemmForm
    experts: ExpertForm | None
    latent: Mapping[LatentAttention, LatentForm]
    expert_parallel: bool
    exchange: ExpertExchange | None
    hidden_size: int
    gpus: int

    def layer(self, layer: Layer, tokens: Floats, *, decodes: bool = False) -> CostByCause:
        """One layer without the attention to the cache. decodes: price a step of decodes alone, of which only latent
        attention makes a difference.
        """
        kernels = 2 - self._norms_in_all_reduce(tokens)
        norms = self._elementwise(kernels, _NORM_BYTES * 2 * self.hidden_size, tokens)
        return norms + self._attention(layer.attention, tokens, decodes=decodes) + self._mlp(layer.mlp, tokens)

    def _attention(self, attention: Attention | LatentAttention, tokens: Floats, *, decodes: bool) -> CostByCause:
        """Projections, rotary embedding, all-reduce."""
        reduced = self._all_reduce(2.0 * tokens * self.hidden_size)
        if isinstance(attention, LatentAttention):
            form = self.latent[attention]
            time = form.decode_projections(tokens) if decodes else form.prompt_projections(tokens)
            return self._by_cause(time, tokens) + reduced
        heads = attention.num_heads // self.gpus
        kv_heads = max(attention.num_kv_heads // self.gpus, 1)
        width, head_dim = self.hidden_size, attention.head_dim
        rotary = 2 if attention.qk_norm else 1
        cost = self._elementwise(rotary, rotary * _ROTARY_BYTES * (heads + kv_heads) * head_dim, tokens)
        cost += self._gemm(self._after("norm", self.attention), tokens, (heads + 2 * kv_heads) * head_dim, width)
        return cost + self._gemm(self._after("attention", self.attention), tokens, width, heads * head_dim) + reduced

    def _mlp(self, mlp: DenseMlp | MoeMlp, tokens: Floats) -> CostByCause:
        width = self.hidden_size
        if isinstance(mlp, DenseMlp):
            dense = self._dense(self.mlp, mlp.intermediate_size, tokens, gated=mlp.gated)
            return dense + self._all_reduce(2.0 * tokens * width)
        assert self.experts is not None
        shape = ExpertShape.of(mlp, width, self.gpus, expert_parallel=self.expert_parallel)
        cost = self._gemm(self.plain, tokens, mlp.num_experts, width)
        cost += self._by_cause(self.experts.seconds(tokens, shape), tokens)
        if mlp.shared_intermediate_size:
            cost += self._dense(self.shared_experts, mlp.shared_intermediate_size, tokens, gated=mlp.gated)
        if self.exchange is None:
            return cost + self._all_reduce(2.0 * tokens * width)
        nothing = np.zeros_like(tokens)
        return cost + CostByCause(nothing, nothing, nothing, self.exchange.seconds(tokens, mlp, width))

    def _dense(self, form: GemmForm, intermediate_size: int, tokens: Floats, *, gated: bool) -> CostByCause:
        """Gate and up in one GEMM, activation, down."""
        columns = intermediate_size / self.gpus
        cost = self._elementwise(1, _ACTIVATION_BYTES * columns, tokens)
        cost += self._gemm(self._after("norm", form), tokens, (2 if gated else 1) * columns, self.hidden_size)
        return cost + self._gemm(self._after("activation", form), tokens, self.hidden_size, columns)

    def lm_head(self, rows: Floats, vocab_size: int) -> CostByCause:
        """Logits of `rows` tokens, their gathering from all GPUs, and sampling. An all-gather moves half of what an
        all-reduce does.
        """
        nothing = np.zeros_like(rows)
        sampled = CostByCause(nothing, nothing, rows * vocab_size * self.sampling_s, nothing)
        gathered = self._all_reduce(rows * vocab_size)
        return self._gemm(self.plain, rows, vocab_size / self.gpus, self.hidden_size) + gathered + sampled

    def _after(self, kernel: str, form: GemmForm) -> GemmForm:
        """The form of a GEMM whose input `kernel` made."""
        return form.of_quantised if kernel in self.fusions.quantisation else form

    def _gemm(self, form: GemmForm, tokens: Floats, n: float, k: float) -> CostByCause:
        return self._by_cause(form.seconds(tokens, n, k), tokens)

    @staticmethod
    def _by_cause(time: GemmTime, tokens: Floats) -> CostByCause:
        return CostByCause(time.memory_s, time.compute_s, time.fixed_s, np.zeros_like(tokens))

    def _elementwise(self, kernels: int | Floats, bytes_per_token: float, tokens: Floats) -> CostByCause:
        reach = self.elementwise.e_m * self.gpu.memory_bytes_per_s
        seconds = kernels * self.elementwise.kernel_s + bytes_per_token * tokens / reach
        nothing = np.zeros_like(tokens)
        return CostByCause(nothing, nothing, seconds, nothing)

    def _norms_in_all_reduce(self, tokens: Floats) -> Floats:
        """How many of the layer's two norms are done by the all-reduce before them."""
        limits = self.fusions.all_reduce_norm.get(self.gpu.generation, {})
        largest = limits.get(self.gpus, 0.0) if self.gpu.link is not None else 0.0
        return np.where(2.0 * tokens * self.hidden_size <= largest, 2.0, 0.0)

    def _all_reduce(self, bytes_: Floats) -> CostByCause:
        nothing = np.zeros_like(bytes_)
        if self.gpus == 1:
            return CostByCause(nothing, nothing, nothing, nothing)
        return CostByCause(nothing, nothing, nothing, collective_seconds(bytes_, self.gpus, self.gpu, self.kernels))


def price_tokens(cost: LayerCost, architecture: Architecture, tokens: Floats, *, decodes: bool = False) -> CostByCause:
    """All layers of `architecture` for each of `tokens`, without the attention to the cache and the head; `decodes` as
    for `LayerCost.layer`.
    """
    priced = [cost.layer(layer, tokens, decodes=decodes).times(count) for layer, count in architecture.layer_groups]
    total = priced[0]
    for part in priced[1:]:
        total += part
    return total
