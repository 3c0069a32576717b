"""How many parameters a model has, by part: its size, and what the published total counts."""

from __future__ import annotations

from dataclasses import dataclass, fields

from servecast.model.architecture import Architecture, Attention, DenseMlp, LatentAttention, Layer


@dataclass(frozen=True)
class ParameterCounts:
    """Numbers of parameters, in the units that tensor parallelism and quantisation treat alike.

    embedding: token table. head: output matrix, 0 when it is the token table. attention, mlp: matrices; mlp has dense
    layers and shared experts. experts: all routed experts. router: expert choice. small: norms, biases, position table.
    vision: image tower and projector. experts_used: the share of `experts` that one token passes through.
    """

    embedding: int = 0
    head: int = 0
    attention: int = 0
    mlp: int = 0
    experts: int = 0
    router: int = 0
    small: int = 0
    vision: int = 0
    experts_used: int = 0

    @property
    def total(self) -> int:
        return self.active - self.experts_used + self.experts + self.vision

    @property
    def active(self) -> int:
        """Parameters that one text token passes through. Tables count whole, as published figures do."""
        tables = self.embedding + self.head + self.small
        return tables + self.attention + self.mlp + self.router + self.experts_used

    def __add__(self, other: ParameterCounts) -> ParameterCounts:
        names = [field.name for field in fields(self)]
        return ParameterCounts(*(getattr(self, name) + getattr(other, name) for name in names))

    def times(self, count: int) -> ParameterCounts:
        """The parameters of `count` such parts."""
        return ParameterCounts(*(getattr(self, field.name) * count for field in fields(self)))


def count_parameters(architecture: Architecture) -> ParameterCounts:
    """All parameters of the model, before any parallelism or padding."""
    table = architecture.vocab_size * architecture.hidden_size
    small = (architecture.position_embeddings + architecture.final_norms) * architecture.hidden_size
    if architecture.head_bias:
        small += architecture.vocab_size
    vision = 0 if architecture.vision is None else architecture.vision.parameters
    head = 0 if architecture.tied_embeddings else table
    total = ParameterCounts(embedding=table, head=head, small=small, vision=vision)
    for layer, count in architecture.layer_groups:
        total += layer_parameters(layer, architecture.hidden_size).times(count)
    return total


def layer_parameters(layer: Layer, hidden_size: int) -> ParameterCounts:
    """The parameters of one layer."""
    return (
        _attention_parameters(layer.attention, hidden_size)
        + _mlp_parameters(layer, hidden_size)
        + ParameterCounts(small=layer.norms * hidden_size)
    )


def _attention_parameters(attention: Attention | LatentAttention, hidden_size: int) -> ParameterCounts:
    if isinstance(attention, LatentAttention):
        return _latent_parameters(attention, hidden_size)
    queries = attention.num_heads * attention.head_dim
    keys = attention.num_kv_heads * attention.head_dim
    small = queries + 2 * keys if attention.qkv_bias else 0
    small += hidden_size if attention.output_bias else 0
    small += 2 * attention.head_dim if attention.qk_norm else 0
    rows = 2 * queries + (keys if attention.value_is_key else 2 * keys)
    return ParameterCounts(attention=rows * hidden_size, small=small)


def _latent_parameters(attention: LatentAttention, hidden_size: int) -> ParameterCounts:
    """Down- and up-projections of queries and of the latent, the output, and the indexer of sparse attention."""
    heads, latent = attention.num_heads, attention.kv_lora_rank
    query_rows = heads * (attention.nope_head_dim + attention.rope_head_dim)
    matrices = hidden_size * (latent + attention.rope_head_dim + heads * attention.v_head_dim)
    matrices += latent * heads * (attention.nope_head_dim + attention.v_head_dim)
    query_rank = attention.q_lora_rank
    if query_rank is None:
        matrices += hidden_size * query_rows
    else:
        matrices += query_rank * (hidden_size + query_rows)
    index_rows = attention.index_heads * attention.index_head_dim
    matrices += (query_rank or hidden_size) * index_rows
    matrices += hidden_size * (attention.index_head_dim + attention.index_heads)
    return ParameterCounts(attention=matrices, small=latent + (query_rank or 0))


def _mlp_parameters(layer: Layer, hidden_size: int) -> ParameterCounts:
    mlp = layer.mlp
    inner = 2 if mlp.gated else 1
    if isinstance(mlp, DenseMlp):
        biases = inner * mlp.intermediate_size + hidden_size if mlp.bias else 0
        return ParameterCounts(mlp=(inner + 1) * mlp.intermediate_size * hidden_size, small=biases)
    expert = (inner + 1) * mlp.expert_intermediate_size * hidden_size
    biases = mlp.num_experts * (inner * mlp.expert_intermediate_size + hidden_size + 1) if mlp.bias else 0
    return ParameterCounts(
        mlp=(inner + 1) * mlp.shared_intermediate_size * hidden_size,
        experts=mlp.num_experts * expert,
        experts_used=mlp.experts_per_token * expert,
        router=mlp.num_experts * hidden_size,
        small=biases,
    )


def active_parameters(architecture: Architecture) -> int:
    """Parameters that one token passes through; all of a dense model's."""
    return count_parameters(architecture).active
