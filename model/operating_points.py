"""Where the steps of a run lie on the roofline of their GPU: arithmetic against bytes from memory, and how much
arithmetic a second that came to.

Counted is what no implementation avoids: two operations for each weight and token, attention over the contexts, each
weight read once a step, the KV of the contexts read once a decode. Of experts, those that the step's tokens are
expected to choose, E (1 - (1 - k/E)^M). Activations, padding and KV writes are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from servecast.model.architecture import Architecture, Attention, LatentAttention, MoeMlp
from servecast.model.precision import gemm_form
from servecast.model.simulation import SimulationParameters, SimulationResult
from servecast.model.weights import effective_quantization, layer_matrices, matrix_bytes

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class _Work:
    """What one GPU does. Operations a token and weight bytes a step; of experts, if all were chosen by every token.

    head: the same for the output matrix, a row that emits a token. decode_flops: a token of context that a decode
    attends to. prefill_flops: a pair of prompt tokens. experts, chosen: of each MoE layer.
    """

    flops: float
    bytes: float
    expert_flops: float
    expert_bytes: float
    experts: int
    chosen: int
    head_flops: float
    head_bytes: float
    decode_flops: float
    prefill_flops: float

    def step_flops(self, tokens: Floats, rows: Floats) -> Floats:
        share = self.chosen / self.experts
        return (self.flops + share * self.expert_flops) * tokens + self.head_flops * rows

    def step_bytes(self, tokens: Floats) -> Floats:
        """A step of `tokens` tokens."""
        distinct = 1 - (1 - self.chosen / self.experts) ** tokens
        return self.bytes + self.head_bytes + distinct * self.expert_bytes


def operating_points(result: SimulationResult) -> dict[str, Any] | None:
    """peak_tflops (of the MLP's arithmetic), memory_gb_per_s of the GPU; `prefill` (steps with prompt tokens) and
    `decode` (steps without), each with tokens (of a step), flop_per_byte and tflops, on one GPU, None without such
    steps. None for pipelines, whose stages work on several steps at once.
    """
    parameters = result.parameters
    if parameters.layout.pipeline_parallel_size > 1:
        return None
    work, steps = _work(parameters), result.steps
    kernels, quantization = parameters.engine.kernels_for(parameters.gpu.key), _quantization(parameters)
    dtype = "bfloat16" if quantization is None or "mlp" in quantization.ignored else quantization.dtype
    with_prompts = steps["chunks"] > 0
    return {
        "peak_tflops": gemm_form(dtype, parameters.gpu, kernels).peak_flops / 1e12,
        "memory_gb_per_s": parameters.gpu.memory_bytes_per_s / 1e9,
        "prefill": _point(result, work, with_prompts),
        "decode": _point(result, work, ~with_prompts),
    }


def _point(result: SimulationResult, work: _Work, chosen: NDArray[np.bool_]) -> dict[str, float] | None:
    steps = {name: column[chosen] for name, column in result.steps.items()}
    count = steps["count"]
    seconds = float((count * steps["duration_s"] + steps["slope_s"] * count * (count - 1) / 2).sum())
    if not seconds:
        return None
    tokens, memory = steps["decodes"] + steps["prefill_tokens"], result.memory
    # As in the summary: a run of steps is recorded with the blocks at its end.
    blocks = steps["used_blocks"] - (count - 1) * steps["decodes"] / (2 * memory.block_size)
    read = blocks * np.divide(steps["decodes"], steps["running"], out=np.zeros_like(blocks), where=steps["running"] > 0)
    flops = count * work.step_flops(tokens, steps["decodes"] + steps["chunks"])
    flops += count * read * memory.block_size * work.decode_flops
    flops += steps["prefill_tokens"] * _tokens_attended(result) * work.prefill_flops
    moved = count * (work.step_bytes(tokens) + read * memory.sequence_block_bytes)
    return {
        "tokens": float(tokens @ count / count.sum()),
        "flop_per_byte": float(flops.sum() / moved.sum()),
        "tflops": float(flops.sum() / seconds / 1e12),
    }


def _tokens_attended(result: SimulationResult) -> float:
    """How many tokens a prompt token attends to, on average: half of its prompt, long prompts counting for more."""
    prompts = result.workload.prompt_tokens.astype(np.float64)
    return float((prompts * prompts).sum() / prompts.sum() / 2)


def _quantization(parameters: SimulationParameters) -> Any:
    return effective_quantization(parameters.architecture, parameters.layout.dtype)


def _work(parameters: SimulationParameters) -> _Work:
    architecture, gpus = parameters.architecture, parameters.layout.tensor_parallel_size
    quantization = _quantization(parameters)
    sums = dict.fromkeys(("dense", "dense_bytes", "experts", "expert_bytes", "decode", "prefill"), 0.0)
    for layer, count in architecture.layer_groups:
        for matrix in layer_matrices(layer, architecture.hidden_size, gpus, quantization):
            kind = ("experts", "expert_bytes") if matrix.part == "experts" else ("dense", "dense_bytes")
            sums[kind[0]] += count * 2.0 * matrix.copies * matrix.rows * matrix.columns
            sums[kind[1]] += count * matrix_bytes(matrix, quantization)
        decode, prefill = _attention_flops(layer.attention, gpus)
        sums["decode"] += count * decode
        sums["prefill"] += count * prefill
    experts, chosen = next(_experts(architecture), (1, 1))
    head = architecture.vocab_size / gpus * architecture.hidden_size
    return _Work(
        flops=sums["dense"],
        bytes=sums["dense_bytes"],
        expert_flops=sums["experts"],
        expert_bytes=sums["expert_bytes"],
        experts=experts,
        chosen=chosen,
        head_flops=2 * head,
        head_bytes=2 * head,
        decode_flops=sums["decode"],
        prefill_flops=sums["prefill"],
    )


def _experts(architecture: Architecture) -> Iterator[tuple[int, int]]:
    for layer, _ in architecture.layer_groups:
        if isinstance(layer.mlp, MoeMlp):
            yield layer.mlp.num_experts, layer.mlp.experts_per_token


def _attention_flops(attention: Attention | LatentAttention, gpus: int) -> tuple[float, float]:
    """Operations of one layer for a token that attends to another: (decode, prefill). A latent is attended to as it is
    when decoding, but unpacked for prompts.
    """
    heads = attention.num_heads / gpus
    if isinstance(attention, Attention):
        return 4 * heads * attention.head_dim, 4 * heads * attention.head_dim
    latent = 2 * attention.kv_lora_rank + attention.rope_head_dim
    unpacked = attention.nope_head_dim + attention.rope_head_dim + attention.v_head_dim
    return 2 * heads * latent, 2 * heads * unpacked
