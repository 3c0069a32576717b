"""Bytes of the weights on one GPU: by dtype, tensor parallelism and pipeline stage, as the engine allocates.

The engine fuses matrices (Q, K and V into one; gate and up into one; all experts of a layer into one tensor)
and splits each over the GPUs of a stage. Embeddings, head, norms and the router stay 16 bit whatever the
dtype. Source: vLLM 0.19.0, its linear, fused-MoE, MLA, embedding and rotary layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from servecast.model.architecture import (
    Architecture,
    Attention,
    DenseMlp,
    LatentAttention,
    Layer,
    MoeMlp,
    Quantization,
)
from servecast.model.layout import ReplicaLayout, kv_heads_per_gpu, stage_layers

MIB = 2**20
GIB = 2**30

# Embedding and head are padded to a multiple of this many rows, so that they split over the GPUs.
VOCABULARY_MULTIPLE = 64

_SIXTEEN_BIT = ("bfloat16", "float16")
_DEFAULT_GROUP = {"w4a16": 128, "awq": 128, "gptq": 128, "nvfp4": 16, "mxfp4": 32}
# Bytes that a group of 4-bit weights adds: its scale, and with AWQ a 4-bit zero point too.
_SCALE_BYTES = {"w4a16": 2.0, "awq": 2.5, "gptq": 2.0, "nvfp4": 1.0, "mxfp4": 1.0}
# Tiles of the mxfp4 kernel; experts are padded to whole ones. The scales have a tile of their own.
_MXFP4_ROWS, _MXFP4_COLUMNS, _MXFP4_SCALE_ROWS = 64, 128, 256


@dataclass(frozen=True)
class Matrix:
    """One tensor of weights on one GPU: `copies` (experts) of `rows` outputs by `columns` inputs.

    part: "attention", "mlp", "experts", "shared_experts", or "other", which is never quantised.
    """

    part: str
    rows: int
    columns: int
    copies: int = 1


def stage_weights_bytes(architecture: Architecture, layout: ReplicaLayout, stage: int) -> int:
    """Bytes on each GPU of pipeline stage `stage` (from 0), with the allocator's rounding."""
    gpus, stages = layout.tensor_parallel_size, layout.pipeline_parallel_size
    quantization = effective_quantization(architecture, layout.dtype)
    total = rotary_table_bytes(architecture)
    for layer in stage_layers(architecture, stages, stage):
        for matrix in layer_matrices(
            layer, architecture.hidden_size, gpus, quantization, expert_parallel=layout.enable_expert_parallel
        ):
            total += allocated_bytes(matrix_bytes(matrix, quantization))
    for matrix in _ends(architecture, layout, stage):
        total += allocated_bytes(matrix_bytes(matrix, None))
    if architecture.vision is not None and stage == 0:
        total += 2 * architecture.vision.parameters // gpus
    return total


def effective_quantization(architecture: Architecture, dtype: str) -> Quantization | None:
    """How matrices are stored under `dtype`: the checkpoint's own way if `dtype` is the same or 16 bit."""
    own = architecture.quantization
    if dtype in _SIXTEEN_BIT or (own is not None and own.dtype == dtype):
        return own
    return Quantization(dtype, ignored=architecture.unquantised)


def layer_matrices(
    layer: Layer,
    hidden_size: int,
    tensor_parallel_size: int,
    quantization: Quantization | None = None,
    *,
    expert_parallel: bool = False,
) -> Iterator[Matrix]:
    """The tensors of one layer on one GPU. Vectors (norms, biases) count as one-column matrices.

    expert_parallel: whole experts are dealt out; the first GPUs hold one more where they do not divide evenly.
    """
    gpus, mlp = tensor_parallel_size, layer.mlp
    if isinstance(layer.attention, LatentAttention):
        yield from _latent_attention_matrices(layer.attention, hidden_size, gpus)
    else:
        yield from _attention_matrices(layer.attention, hidden_size, gpus)
    if isinstance(mlp, DenseMlp):
        yield from _mlp_matrices("mlp", mlp.intermediate_size // gpus, mlp.gated, hidden_size)
    else:
        spread = gpus if expert_parallel else 1
        yield from _moe_matrices(mlp, hidden_size, gpus, spread, quantization)
    yield Matrix("other", layer.norms * hidden_size, 1)


def matrix_bytes(matrix: Matrix, quantization: Quantization | None) -> int:
    """Bytes of `matrix`, scales included; 16 bit where the checkpoint leaves its part alone."""
    elements = matrix.copies * matrix.rows * matrix.columns
    if quantization is None or matrix.part == "other" or matrix.part in quantization.ignored:
        return 2 * elements
    if quantization.dtype in ("fp8", "int8"):
        return elements + 4 * _scales(matrix, quantization.group_size)
    if quantization.dtype == "mxfp4" and matrix.part == "experts":
        return _mxfp4_expert_bytes(matrix)
    group = quantization.group_size or _DEFAULT_GROUP[quantization.dtype]
    return ceil(elements / 2 + elements / group * _SCALE_BYTES[quantization.dtype])


def allocated_bytes(size: int) -> int:
    """What PyTorch's CUDA allocator hands out for a tensor of `size` bytes.

    Tensors of 10 MiB and more get whole blocks of 2 MiB; a rest of at most 1 MiB stays with the tensor, a
    larger one goes back for others. Smaller tensors round to 512 bytes. Qwen2.5-7B takes 56 MiB more so,
    and its start-up logs show it. Source: PyTorch 2.10, CUDACachingAllocator (block size and split rule).
    """
    rounded = _up(size, 512)
    if rounded < 10 * MIB:
        return rounded
    block = _up(rounded, 2 * MIB)
    return block if block - rounded <= MIB else rounded


def rotary_table_bytes(architecture: Architecture) -> int:
    """The cos/sin tables, which every GPU keeps whole: one row a position, as wide as a head.

    16 bit, or 32 bit with latent attention. Small for most models; 2.5 GiB for Llama 4's ten million
    positions.
    """
    if architecture.position_embeddings:
        return 0
    rows = architecture.max_model_len if architecture.rotary_rows is None else architecture.rotary_rows
    attention = architecture.layers[0].attention
    if isinstance(attention, LatentAttention):
        return rows * attention.rope_head_dim * 4
    return rows * attention.head_dim * 2


def _ends(architecture: Architecture, layout: ReplicaLayout, stage: int) -> Iterator[Matrix]:
    """What stands before the first and after the last layer; a tied head is the embedding once more."""
    first, last = stage == 0, stage == layout.pipeline_parallel_size - 1
    hidden = architecture.hidden_size
    rows = _up(architecture.vocab_size, VOCABULARY_MULTIPLE) // layout.tensor_parallel_size
    if first or (last and architecture.tied_embeddings):
        yield Matrix("other", rows, hidden)
    if first and architecture.position_embeddings:
        yield Matrix("other", architecture.position_embeddings, hidden)
    if last and not architecture.tied_embeddings:
        yield Matrix("other", rows, hidden)
    if last:
        yield Matrix("other", architecture.final_norms * hidden, 1)
    if last and layout.draft_layers:
        # A draft head first merges a token's embedding with the model's hidden state.
        yield Matrix("other", hidden, 2 * hidden)


def _attention_matrices(attention: Attention, hidden_size: int, gpus: int) -> Iterator[Matrix]:
    queries = attention.num_heads // gpus * attention.head_dim
    keys = kv_heads_per_gpu(attention.num_kv_heads, gpus) * attention.head_dim
    yield Matrix("attention", queries + 2 * keys, hidden_size)
    yield Matrix("attention", hidden_size, queries)
    if attention.qkv_bias:
        yield Matrix("other", queries + 2 * keys, 1)
    if attention.output_bias:
        yield Matrix("other", hidden_size, 1)


def _latent_attention_matrices(attention: LatentAttention, hidden_size: int, gpus: int) -> Iterator[Matrix]:
    """Down-projections stand whole on every GPU. The up-projection of K and V is there twice: the engine
    keeps a 16-bit copy, reordered for decoding on the latent."""
    heads = attention.num_heads // gpus
    query_rows = heads * (attention.nope_head_dim + attention.rope_head_dim)
    latent_rows = attention.kv_lora_rank + attention.rope_head_dim
    up_rows = heads * (attention.nope_head_dim + attention.v_head_dim)
    if attention.q_lora_rank is None:
        yield Matrix("attention", query_rows, hidden_size)
        yield Matrix("attention", latent_rows, hidden_size)
    else:
        yield Matrix("attention", attention.q_lora_rank + latent_rows, hidden_size)
        yield Matrix("attention", query_rows, attention.q_lora_rank)
    yield Matrix("attention", up_rows, attention.kv_lora_rank)
    yield Matrix("other", up_rows, attention.kv_lora_rank)
    yield Matrix("attention", hidden_size, heads * attention.v_head_dim)
    if attention.index_heads:
        # The indexer of sparse attention is whole on every GPU.
        index_rows = attention.index_heads * attention.index_head_dim
        yield Matrix("attention", index_rows, attention.q_lora_rank or hidden_size)
        yield Matrix("attention", attention.index_head_dim + attention.index_heads, hidden_size)


def _mlp_matrices(part: str, width: int, gated: bool, hidden_size: int, copies: int = 1) -> Iterator[Matrix]:
    yield Matrix(part, (2 if gated else 1) * width, hidden_size, copies)
    yield Matrix(part, hidden_size, width, copies)


def _moe_matrices(
    mlp: MoeMlp, hidden_size: int, gpus: int, spread: int, quantization: Quantization | None
) -> Iterator[Matrix]:
    """spread: GPUs that the experts are dealt out to; with 1, every GPU has its columns of each expert."""
    mxfp4 = quantization is not None and quantization.dtype == "mxfp4"
    width = mlp.expert_intermediate_size // (gpus // spread)
    experts = ceil(mlp.num_experts / spread)
    if mxfp4:
        width = _up(width, _MXFP4_ROWS)
    yield Matrix("other", mlp.num_experts, hidden_size)
    yield from _mlp_matrices("experts", width, mlp.gated, hidden_size, experts)
    if mlp.bias:
        biases = experts * ((2 if mlp.gated else 1) * width + hidden_size)
        # The mxfp4 kernel wants them at 32 bit.
        yield Matrix("other", 2 * biases if mxfp4 else biases, 1)
    if mlp.shared_intermediate_size:
        yield from _mlp_matrices("shared_experts", mlp.shared_intermediate_size // gpus, mlp.gated, hidden_size)


def _scales(matrix: Matrix, group: int | None) -> int:
    """Scales of an 8-bit matrix: one an output row, or one a square of `group` by `group` weights."""
    if group is None:
        return matrix.copies * matrix.rows
    return matrix.copies * ceil(matrix.rows / group) * ceil(matrix.columns / group)


def _mxfp4_expert_bytes(matrix: Matrix) -> int:
    """4-bit values padded to tiles, and the scales twice: as loaded, and reordered for the kernel.

    The engine never frees the loaded ones. gpt-oss-20b takes 0.6 GiB more so, and its logs show it.
    """
    values = _up(matrix.rows, _MXFP4_ROWS) * _up(matrix.columns, _MXFP4_COLUMNS) // 2
    groups = ceil(matrix.columns / _DEFAULT_GROUP["mxfp4"])
    scales = (matrix.rows + _up(matrix.rows, _MXFP4_SCALE_ROWS)) * groups
    return matrix.copies * (values + scales)


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
