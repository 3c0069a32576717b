"""What the simulator knows of a language model: the shapes of its layers, and what follows from them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class Attention:
    """Grouped-query attention (multi-head when `num_kv_heads == num_heads`). Sizes of the whole layer, before TP.

    window: tokens that a query sees, None for all. The KV cache of a windowed layer keeps that many tokens.
    value_is_key: one matrix makes keys and values (Gemma 4); engines load it twice and cache both.
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int
    window: int | None = None
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: bool = False
    value_is_key: bool = False


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek). One latent of `kv_lora_rank + rope_head_dim` is cached for each token.

    index_heads, index_head_dim, index_topk: of the indexer that chooses the tokens to attend to (DeepSeek sparse
    attention); 0 without one.
    """

    num_heads: int
    q_lora_rank: int | None
    kv_lora_rank: int
    rope_head_dim: int
    nope_head_dim: int
    v_head_dim: int
    index_heads: int = 0
    index_head_dim: int = 0
    index_topk: int = 0


@dataclass(frozen=True)
class DenseMlp:
    """Two matrices (up, down), or three when `gated`."""

    intermediate_size: int
    gated: bool = True
    bias: bool = False


@dataclass(frozen=True)
class MoeMlp:
    """Routed experts of which each token uses `experts_per_token`, plus experts that every token uses."""

    num_experts: int
    experts_per_token: int
    expert_intermediate_size: int
    shared_intermediate_size: int = 0
    gated: bool = True
    bias: bool = False


@dataclass(frozen=True)
class Layer:
    """One transformer block. Equal layers compare equal, so `Counter(layers)` groups them.

    norms: vectors of `hidden_size` that the block's norms hold (2 for RMSNorm before attention and MLP).
    """

    attention: Attention | LatentAttention
    mlp: DenseMlp | MoeMlp
    norms: int = 2


@dataclass(frozen=True)
class VisionEncoder:
    """The image tower in front of a language model, as far as memory goes.

    parameters: weights of tower and projector. item_tokens: prompt tokens of the largest image that the processor lets
    through. item_values: pixel values of that image. table_bytes: tables that the tower builds on first use.
    """

    parameters: int
    item_tokens: int
    item_values: int
    table_bytes: int = 0


@dataclass(frozen=True)
class Quantization:
    """How a checkpoint stores its matrices. Embeddings and head stay 16 bit in any case.

    dtype: fp8 | int8 | w4a16 | awq | gptq | nvfp4 | mxfp4. group_size: weights that share one scale, None: one scale an
    output row. ignored: parts left at 16 bit, of {"attention", "mlp", "experts", "shared_experts"}.
    kv_cache_dtype: "fp8" where the checkpoint brings scales for the KV cache.
    """

    dtype: str
    group_size: int | None = None
    ignored: frozenset[str] = frozenset()
    kv_cache_dtype: str | None = None


@dataclass(frozen=True)
class Architecture:
    """A decoder-only model. `layers` holds one entry a layer, in order.

    max_model_len: tokens of context that the checkpoint allows. position_embeddings: rows of a learned position table
    (0 with rotary embeddings). final_norms: vectors of `hidden_size` after the last layer. rotary_rows: rows of all
    cos/sin tables together, None for one table of `max_model_len` rows. quantization: None for a 16-bit checkpoint.
    unquantised: parts that published quantised versions of this checkpoint leave at 16 bit, as in `Quantization`.
    head_bias: the output matrix has a bias. dtype: the 16-bit type of what is not quantised, bfloat16 or float16.
    published_parameters_b: billions, as the makers state. notes: what was assumed or simplified in reading it.
    """

    key: str
    name: str
    hidden_size: int
    vocab_size: int
    tied_embeddings: bool
    layers: tuple[Layer, ...]
    max_model_len: int
    position_embeddings: int = 0
    final_norms: int = 1
    rotary_rows: int | None = None
    vision: VisionEncoder | None = None
    quantization: Quantization | None = None
    unquantised: frozenset[str] = frozenset()
    head_bias: bool = False
    dtype: str = "bfloat16"
    published_parameters_b: float | None = field(default=None, compare=False)
    source: str = field(default="", compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def num_layers(self) -> int:
        return len(self.layers)

    @cached_property
    def layer_groups(self) -> tuple[tuple[Layer, int], ...]:
        """Distinct layers with how often each occurs, in order of first appearance."""
        return tuple(Counter(self.layers).items())


def kv_bytes_per_token(layer: Layer, element_bytes: int = 2, tensor_parallel_size: int = 1) -> int:
    """Bytes that one token adds to the KV cache of one layer on one GPU, while it is inside the layer's window.

    KV heads are split over the GPUs, at least one on each; MLA's latent is the same for all heads and never split.
    """
    attention = layer.attention
    if isinstance(attention, LatentAttention):
        return (attention.kv_lora_rank + attention.rope_head_dim) * element_bytes
    heads = -(-attention.num_kv_heads // tensor_parallel_size)
    return 2 * heads * attention.head_dim * element_bytes
