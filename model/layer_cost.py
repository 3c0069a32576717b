"""Seconds that the layers of a dense model take for M tokens, by cause: what of a step depends on M alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from servecast.hardware.engines import Elementwise, KernelCoefficients
from servecast.hardware.errors import ConfigError
from servecast.hardware.gpus import Gpu
from servecast.model.architecture import Architecture, Attention, DenseMlp, Layer
from servecast.model.collectives import collective_seconds
from servecast.model.kernels import Floats, GemmForm

# Kernels of a layer that are neither GEMM nor attention: two fused add+norm, rotary embedding, activation.
_ELEMENTWISE_KERNELS = 4


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

    attention, mlp, head: how their weights are multiplied; a quantised checkpoint may leave some parts at 16 bit.
    """

    gpu: Gpu
    kernels: KernelCoefficients
    elementwise: Elementwise
    attention: GemmForm
    mlp: GemmForm
    head: GemmForm
    hidden_size: int
    gpus: int

    def layer(self, layer: Layer, tokens: Floats) -> CostByCause:
        """One layer without its attention kernel. Raises ConfigError for layers that have no price yet."""
        attention, mlp = layer.attention, layer.mlp
        if not isinstance(attention, Attention) or not isinstance(mlp, DenseMlp):
            raise ConfigError(
                f"no step cost for {type(attention).__name__} with {type(mlp).__name__} layers yet",
                key="model",
                hint="Dense models with grouped-query or multi-head attention are priced",
            )
        heads = attention.num_heads // self.gpus
        kv_heads = max(attention.num_kv_heads // self.gpus, 1)
        up_width = (2 if mlp.gated else 1) * mlp.intermediate_size / self.gpus
        width, head_dim = self.hidden_size, attention.head_dim
        shapes = (
            (self.attention, (heads + 2 * kv_heads) * head_dim, width),
            (self.attention, width, heads * head_dim),
            (self.mlp, up_width, width),
            (self.mlp, width, mlp.intermediate_size / self.gpus),
        )
        cost = self._elementwise(tokens, (heads + kv_heads) * head_dim, mlp.intermediate_size / self.gpus)
        for form, n, k in shapes:
            cost += self._gemm(form, tokens, n, k)
        return cost + self._all_reduce(2.0 * tokens * width).times(2)

    def lm_head(self, rows: Floats, vocab_size: int) -> CostByCause:
        """Logits of `rows` tokens, and their gathering from all GPUs. An all-gather moves half of what an all-reduce
        does.
        """
        gathered = self._all_reduce(rows * vocab_size)
        return self._gemm(self.head, rows, vocab_size / self.gpus, self.hidden_size) + gathered

    def _gemm(self, form: GemmForm, tokens: Floats, n: float, k: float) -> CostByCause:
        time = form.seconds(tokens, n, k)
        return CostByCause(time.memory_s, time.compute_s, time.fixed_s, np.zeros_like(tokens))

    def _elementwise(self, tokens: Floats, rotated: float, activated: float) -> CostByCause:
        """Bytes a token: add+norm reads and writes two vectors (8 B an element) twice, rotary 4 B, gated activation 6
        B.
        """
        bytes_per_token = 2 * 8 * self.hidden_size + 4 * rotated + 6 * activated
        reach = self.elementwise.e_m * self.gpu.memory_bytes_per_s
        seconds = _ELEMENTWISE_KERNELS * self.elementwise.kernel_s + bytes_per_token * tokens / reach
        nothing = np.zeros_like(tokens)
        return CostByCause(nothing, nothing, seconds, nothing)

    def _all_reduce(self, bytes_: Floats) -> CostByCause:
        nothing = np.zeros_like(bytes_)
        if self.gpus == 1:
            return CostByCause(nothing, nothing, nothing, nothing)
        return CostByCause(nothing, nothing, nothing, collective_seconds(bytes_, self.gpus, self.gpu, self.kernels))


def price_tokens(cost: LayerCost, architecture: Architecture, tokens: Floats) -> CostByCause:
    """All layers of `architecture` for each of `tokens`, without attention kernels and head."""
    priced = [cost.layer(layer, tokens).times(count) for layer, count in architecture.layer_groups]
    total = priced[0]
    for part in priced[1:]:
        total += part
    return total
