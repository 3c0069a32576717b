"""Does a model fit a GPU, and how large is the KV pool: the table that an engine prints at start-up.

KV GiB = utilisation * total - weights - activation - non-torch, on each GPU; the pipeline stage with the
fewest blocks decides. docs/memory.md explains each part and how well it matches start-up logs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from servecast.hardware.gpus import Gpu
from servecast.hardware.memory_rules import MemoryRules
from servecast.model.architecture import Architecture, Attention, Layer
from servecast.model.kv_cache import BlockLayout, CacheKind, block_layout
from servecast.model.layout import ReplicaLayout, check_layout, effective_max_model_len, stage_layers
from servecast.model.profile_run import ProfileRun
from servecast.model.weights import GIB, stage_weights_bytes

__all__ = ["MemoryPlan", "ReplicaLayout", "check_layout", "default_batch_limits", "plan_memory"]

LARGE_GPU_GIB = 70


@dataclass(frozen=True)
class MemoryPlan:
    """Memory of one GPU of the pipeline stage that limits the pool, in GiB, and the pool that follows.

    fits: the engine would start, which takes room for one sequence of `max_model_len` tokens.
    short_gib: what is missing to that; 0.0 if it fits. requested_gib: the share that the engine may use.
    cuda_graph_gib: a rough figure; comes on top of the request, unless the engine's rules subtract it.
    kv_gib: left for the pool, negative if the rest alone is too much.
    kv_pool_blocks: as the engine counts them. groups: of layers, each with a block table of a sequence; more
    than 1 where layers cache unlike. max_concurrency: sequences of `max_model_len` tokens at once.
    kv_bytes_per_block: on one GPU. stage: pipeline stage (from 0) that all of this is about.
    """

    fits: bool
    short_gib: float
    total_gib: float
    requested_gib: float
    weights_gib: float
    activation_gib: float
    non_torch_gib: float
    cuda_graph_gib: float
    kv_gib: float
    kv_pool_blocks: int
    kv_pool_tokens: int
    max_concurrency: float
    block_size: int
    max_model_len: int
    kv_bytes_per_block: int
    groups: tuple[CacheKind, ...]
    stage: int

    @property
    def kv_groups(self) -> int:
        return len(self.groups)

    @property
    def windowed(self) -> bool:
        """Whether a group of layers keeps no more than a window."""
        return any(kind.window is not None for kind in self.groups)

    @property
    def sequence_pool_blocks(self) -> int:
        """The pool in blocks of `block_size` tokens of all layers, for a scheduler that knows no groups."""
        return self.kv_pool_tokens // self.block_size

    @property
    def sequence_block_bytes(self) -> int:
        """Bytes of one of those blocks, on one GPU."""
        return self.kv_bytes_per_block * self.kv_groups


@dataclass(frozen=True)
class _Request:
    """What `plan_memory` was asked."""

    architecture: Architecture
    gpu: Gpu
    rules: MemoryRules
    layout: ReplicaLayout
    max_num_batched_tokens: int
    max_num_seqs: int

    @property
    def max_model_len(self) -> int:
        return effective_max_model_len(self.architecture, self.layout)

    @property
    def non_torch_gib(self) -> float:
        return self.rules.non_torch_for(self.layout.tensor_parallel_size, self.layout.pipeline_parallel_size)

    @property
    def cuda_graph_gib(self) -> float:
        if self.layout.enforce_eager:
            return 0.0
        layers = self.architecture.num_layers / self.layout.pipeline_parallel_size
        return self.rules.cuda_graph_gib + self.rules.cuda_graph_gib_per_layer * layers


@dataclass(frozen=True)
class _Stage:
    """One GPU of pipeline stage `index`. needed_bytes: KV of the longest sequence, the least to start."""

    index: int
    weights_bytes: int
    activation_bytes: int
    kv_bytes: float
    needed_bytes: int
    blocks: BlockLayout

    @property
    def pool_blocks(self) -> int:
        return max(0, int(self.kv_bytes // self.blocks.bytes_per_block))


def plan_memory(
    architecture: Architecture,
    gpu: Gpu,
    rules: MemoryRules,
    layout: ReplicaLayout,
    max_num_batched_tokens: int,
    max_num_seqs: int = 256,
) -> MemoryPlan:
    """The memory of one replica. A model that does not fit gives a plan that says so; nothing is raised.

    `layout` must have passed `check_layout`. A pool given in the layout replaces the computed one.
    """
    architecture = _with_draft(architecture, layout.draft_layers)
    request = _Request(architecture, gpu, rules, layout, max_num_batched_tokens, max_num_seqs)
    stages = [_stage(request, index) for index in range(layout.pipeline_parallel_size)]
    tightest = min(stages, key=lambda stage: (stage.pool_blocks, stage.kv_bytes - stage.needed_bytes))
    return _plan(request, tightest)


def default_batch_limits(gpu: Gpu) -> tuple[int, int]:
    """max_num_batched_tokens and max_num_seqs that vLLM's server takes on `gpu` if told nothing.

    Source: vLLM 0.19.0, defaults of the engine arguments.
    """
    large = gpu.memory_usable_gib >= LARGE_GPU_GIB and "a100" not in gpu.name.lower()
    return (8192, 1024) if large else (2048, 256)


def _with_draft(architecture: Architecture, draft_layers: int) -> Architecture:
    """A draft head's layers are like the model's last one, with full attention."""
    if not draft_layers:
        return architecture
    last = architecture.layers[-1]
    attention = replace(last.attention, window=None) if isinstance(last.attention, Attention) else last.attention
    draft = Layer(attention, last.mlp, last.norms)
    return replace(architecture, layers=architecture.layers + (draft,) * draft_layers)


def _stage(request: _Request, index: int) -> _Stage:
    architecture, layout = request.architecture, request.layout
    layers = stage_layers(architecture, layout.pipeline_parallel_size, index)
    blocks = block_layout(architecture, layers, layout)
    tokens = request.max_num_batched_tokens
    if not request.rules.chunked_prefill:
        tokens = max(tokens, request.max_model_len)
    rows = min(request.max_num_seqs, tokens)
    run = ProfileRun(architecture, request.gpu, request.rules, layout, tokens, rows)
    weights, activation = stage_weights_bytes(architecture, layout, index), run.peak_bytes(index)
    sequence_blocks = blocks.sequence_blocks(request.max_model_len, request.max_num_batched_tokens)
    return _Stage(
        index=index,
        weights_bytes=weights,
        activation_bytes=activation,
        kv_bytes=_kv_bytes(request, weights, activation),
        needed_bytes=sequence_blocks * blocks.bytes_per_block,
        blocks=blocks,
    )


def _kv_bytes(request: _Request, weights: int, activation: int) -> float:
    """What is left for the pool, by the engine's way of dividing the memory."""
    rules, share = request.rules, request.layout.gpu_memory_utilization
    total = request.gpu.memory_usable_gib * GIB
    non_torch = request.non_torch_gib * GIB
    if rules.pool == "static_fraction":
        return share * (total - non_torch) - weights
    taken = weights + activation + non_torch
    if rules.cuda_graph_subtracted:
        taken += request.cuda_graph_gib * GIB
    return share * (total - taken) if rules.pool == "free_fraction" else share * total - taken


def _plan(request: _Request, stage: _Stage) -> MemoryPlan:
    layout, blocks = request.layout, stage.blocks
    pool_blocks = stage.pool_blocks if layout.kv_pool_blocks is None else layout.kv_pool_blocks
    sequence_blocks = blocks.sequence_blocks(request.max_model_len, request.max_num_batched_tokens)
    short_bytes = max(0.0, stage.needed_bytes - stage.kv_bytes)
    return MemoryPlan(
        fits=short_bytes == 0.0,
        short_gib=short_bytes / GIB,
        total_gib=request.gpu.memory_usable_gib,
        requested_gib=layout.gpu_memory_utilization * request.gpu.memory_usable_gib,
        weights_gib=stage.weights_bytes / GIB,
        activation_gib=stage.activation_bytes / GIB,
        non_torch_gib=request.non_torch_gib,
        cuda_graph_gib=request.cuda_graph_gib,
        kv_gib=stage.kv_bytes / GIB,
        kv_pool_blocks=pool_blocks,
        kv_pool_tokens=blocks.pool_tokens(pool_blocks),
        max_concurrency=pool_blocks / sequence_blocks,
        block_size=blocks.block_size,
        max_model_len=request.max_model_len,
        kv_bytes_per_block=blocks.bytes_per_block,
        groups=blocks.groups,
        stage=stage.index,
    )
