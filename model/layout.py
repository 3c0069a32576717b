"""How a replica lays a model out on its GPUs, and whether the model allows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from servecast.hardware.errors import ConfigError, did_you_mean
from servecast.model.architecture import Architecture, Attention, DenseMlp, Layer, MoeMlp

WEIGHT_DTYPES = ("bfloat16", "float16", "fp8", "int8", "w4a16", "awq", "gptq", "nvfp4", "mxfp4")
KV_CACHE_DTYPES = ("auto", "fp8")
ALL2ALL_BACKENDS = ("deepep_low_latency", "deepep_high_throughput")
BLOCK_SIZES = (1, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class ReplicaLayout:
    """One engine instance, in vLLM's words.

    dtype: of the weights; a 16-bit dtype means "as the checkpoint is": a quantised one stays quantised.
    max_model_len: tokens, None for what the checkpoint allows. kv_pool_blocks: overrides the computed pool.
    draft_layers: layers of a draft head (EAGLE and the like) that the last GPUs carry beside the model.
    enable_expert_parallel: whole experts are dealt out to the GPUs, instead of a share of each to every GPU.
    all2all_backend: how tokens reach them, of ALL2ALL_BACKENDS; None for the all-reduce of tensor parallelism.
    """

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    dtype: str = "bfloat16"
    kv_cache_dtype: str = "auto"
    gpu_memory_utilization: float = 0.9
    max_model_len: int | None = None
    block_size: int = 16
    kv_pool_blocks: int | None = None
    enforce_eager: bool = False
    draft_layers: int = 0
    enable_expert_parallel: bool = False
    all2all_backend: str | None = None


def check_layout(architecture: Architecture, layout: ReplicaLayout) -> None:
    """Raise ConfigError, with the key that is wrong, if no engine would accept `layout` for `architecture`.

    Whether it fits the memory is another question: `plan_memory` answers it.
    """
    _check_word("dtype", layout.dtype, WEIGHT_DTYPES)
    _check_word("kv_cache_dtype", layout.kv_cache_dtype, KV_CACHE_DTYPES)
    if layout.block_size not in BLOCK_SIZES:
        hint = "Valid: " + ", ".join(map(str, BLOCK_SIZES))
        _refuse("block_size", f"{layout.block_size} tokens is not a block size of the engine", hint)
    if not 0 < layout.gpu_memory_utilization <= 1:
        _refuse("gpu_memory_utilization", f"must be above 0 and at most 1, found {layout.gpu_memory_utilization}")
    if layout.kv_pool_blocks is not None and layout.kv_pool_blocks < 1:
        _refuse("kv_pool_blocks", f"must be 1 or more, found {layout.kv_pool_blocks}")
    if layout.draft_layers < 0:
        _refuse("draft_layers", f"must be 0 or more, found {layout.draft_layers}")
    _check_length(architecture, layout.max_model_len)
    _check_stages(architecture, layout.pipeline_parallel_size)
    _check_split(architecture, layout.tensor_parallel_size)
    if layout.enable_expert_parallel and not any(
        isinstance(layer.mlp, MoeMlp) for layer, _ in architecture.layer_groups
    ):
        _refuse("enable_expert_parallel", f"{architecture.name} has no experts")
    if layout.all2all_backend is not None:
        _check_word("all2all_backend", layout.all2all_backend, ALL2ALL_BACKENDS)


def effective_max_model_len(architecture: Architecture, layout: ReplicaLayout) -> int:
    """Tokens of the longest sequence that the replica serves."""
    return architecture.max_model_len if layout.max_model_len is None else layout.max_model_len


def valid_tensor_parallel_sizes(architecture: Architecture, largest: int = 16) -> tuple[int, ...]:
    """Numbers of GPUs up to `largest` over which the model's matrices split evenly."""
    return tuple(gpus for gpus in range(1, largest + 1) if _split_problem(architecture, gpus) is None)


def stage_layers(architecture: Architecture, stages: int, stage: int) -> tuple[Layer, ...]:
    """The layers of pipeline stage `stage` (from 0) of `stages`, as vLLM deals them out.

    What does not divide evenly goes to the stages before the last, which has the head to compute, from the
    back.
    """
    counts = [architecture.num_layers // stages] * stages
    for spare in range(architecture.num_layers % stages):
        counts[-2 - spare] += 1
    start = sum(counts[:stage])
    return architecture.layers[start : start + counts[stage]]


def stage_architecture(architecture: Architecture, stages: int, stage: int) -> Architecture:
    """The model that pipeline stage `stage` (from 0) of `stages` runs, as one of fewer layers."""
    return replace(architecture, layers=stage_layers(architecture, stages, stage))


def kv_heads_per_gpu(num_kv_heads: int, tensor_parallel_size: int) -> int:
    """KV heads that one GPU keeps. With more GPUs than KV heads, several GPUs store the same head."""
    return max(1, num_kv_heads // tensor_parallel_size)


def _check_length(architecture: Architecture, length: int | None) -> None:
    if length is None:
        return
    if length < 1:
        _refuse("max_model_len", f"must be 1 or more tokens, found {length}")
    if length > architecture.max_model_len:
        limit = architecture.max_model_len
        _refuse("max_model_len", f"{length} tokens is more than {architecture.name} allows ({limit})")


def _check_stages(architecture: Architecture, stages: int) -> None:
    if stages < 1:
        _refuse("pipeline_parallel_size", f"must be 1 or more, found {stages}")
    if stages > architecture.num_layers:
        problem = f"{stages} stages for the {architecture.num_layers} layers of {architecture.name}"
        _refuse("pipeline_parallel_size", problem)


def _check_split(architecture: Architecture, gpus: int) -> None:
    if gpus < 1:
        _refuse("tensor_parallel_size", f"must be 1 or more, found {gpus}")
    problem = _split_problem(architecture, gpus)
    if problem is not None:
        valid = ", ".join(map(str, valid_tensor_parallel_sizes(architecture)))
        _refuse("tensor_parallel_size", problem, f"Valid for this model: {valid}")


def _split_problem(architecture: Architecture, gpus: int) -> str | None:
    """What does not split: heads and MLP columns evenly, KV heads evenly or each onto several GPUs."""
    for layer, _ in architecture.layer_groups:
        for what, count in _split_counts(layer):
            if count % gpus:
                return f"{gpus} does not divide the {count} {what} of {architecture.name}"
        heads = layer.attention.num_kv_heads if isinstance(layer.attention, Attention) else 1
        if heads % gpus and gpus % heads:
            return f"{gpus} GPUs and {heads} KV heads of {architecture.name}: neither divides the other"
    return None


def _split_counts(layer: Layer) -> Iterator[tuple[str, int]]:
    yield "attention heads", layer.attention.num_heads
    if isinstance(layer.mlp, DenseMlp):
        yield "MLP columns", layer.mlp.intermediate_size
    else:
        yield "columns of an expert", layer.mlp.expert_intermediate_size
        yield "columns of the shared experts", layer.mlp.shared_intermediate_size


def _check_word(key: str, word: str, words: tuple[str, ...]) -> None:
    if word not in words:
        _refuse(key, f"unknown value {word!r}", did_you_mean(word, words))


def _refuse(key: str, problem: str, hint: str | None = None) -> None:
    raise ConfigError(problem, key=f"replica.{key}", hint=hint)
