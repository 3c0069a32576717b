"""How the engine cuts a GPU's KV memory into blocks, also for models whose layers do not all cache alike.

All blocks have one size, so layers are put into groups of equally many layers of one kind (full attention,
or one window); a group's last places stay empty where the numbers do not divide. A block serves one group,
and a sequence takes blocks of every group. Source: vLLM 0.19.0, KV cache specifications and grouping.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from servecast.model.architecture import Architecture, LatentAttention, Layer
from servecast.model.layout import ReplicaLayout, kv_heads_per_gpu

# Kinds of layers whose numbers differ by less than this factor make groups of the larger number.
SPREAD = 1.5

KV_ELEMENT_BYTES = {"auto": 2, "fp8": 1}


@dataclass(frozen=True)
class CacheKind:
    """Layers that cache alike. page_bytes: one block of one layer on one GPU. window: tokens or None."""

    page_bytes: int
    block_size: int
    window: int | None


@dataclass(frozen=True)
class BlockLayout:
    """bytes_per_block: one block on one GPU, all layers of a group. groups: the kind of each group."""

    bytes_per_block: int
    groups: tuple[CacheKind, ...]

    @property
    def block_size(self) -> int:
        """Tokens of a block, in the group where that is fewest."""
        return min(kind.block_size for kind in self.groups)

    def pool_tokens(self, blocks: int) -> int:
        """Tokens as the engine's log counts them: as if a sequence took as many blocks of each group."""
        return blocks // len(self.groups) * self.block_size

    def sequence_blocks(self, tokens: int, max_num_batched_tokens: int) -> int:
        """Blocks that one sequence of `tokens` tokens takes at most.

        A windowed group keeps its window and what one step adds, and one block more, as a window need not
        start at a block's edge.
        """
        total = 0
        for kind in self.groups:
            if kind.window is None:
                total += -(-tokens // kind.block_size)
            else:
                kept = min(kind.window - 1 + max_num_batched_tokens, tokens)
                total += -(-kept // kind.block_size) + 1
        return total


def block_layout(architecture: Architecture, layers: tuple[Layer, ...], layout: ReplicaLayout) -> BlockLayout:
    """The blocks of a GPU that holds `layers`: all of `architecture`, or those of one pipeline stage.

    The grouping follows the whole model; a stage has its share of each group.
    """
    kinds = Counter(_kind(layer, layout) for layer in architecture.layers)
    if len({kind.window for kind in kinds}) == 1:
        # Layers that all keep the same tokens make one group, even if their pages differ in size.
        pages = [_kind(layer, layout) for layer in layers]
        return BlockLayout(sum(page.page_bytes for page in pages), (pages[0],))
    kinds = _same_page(kinds)
    group_size = _group_size(list(kinds.values()))
    groups = tuple(kind for kind, count in kinds.items() for _ in range(-(-count // group_size)))
    share = -(-group_size * len(layers) // architecture.num_layers)
    return BlockLayout(share * groups[0].page_bytes, groups)


def bytes_per_token(architecture: Architecture) -> int:
    """KV bytes of one token in all layers, 16 bit, on one GPU; windowed layers keep those of their window only."""
    pages = (_kind(layer, ReplicaLayout()) for layer in architecture.layers)
    return sum(page.page_bytes // page.block_size for page in pages)


def _kind(layer: Layer, layout: ReplicaLayout) -> CacheKind:
    """The latent of MLA is the same for all heads, so every GPU keeps it whole; KV heads are split."""
    attention = layer.attention
    element_bytes = KV_ELEMENT_BYTES[layout.kv_cache_dtype]
    if isinstance(attention, LatentAttention):
        token_bytes = element_bytes * (attention.kv_lora_rank + attention.rope_head_dim)
        # The indexer of sparse attention keeps 8-bit keys, and a 32-bit scale for each 128 of them.
        token_bytes += attention.index_head_dim + 4 * -(-attention.index_head_dim // 128)
        return CacheKind(layout.block_size * token_bytes, layout.block_size, window=None)
    heads = kv_heads_per_gpu(attention.num_kv_heads, layout.tensor_parallel_size)
    token_bytes = 2 * heads * attention.head_dim * element_bytes
    return CacheKind(layout.block_size * token_bytes, layout.block_size, attention.window)


def _same_page(kinds: Counter[CacheKind]) -> Counter[CacheKind]:
    """Give layers with smaller pages more tokens a block, until all pages are as large as the largest.

    vLLM refuses models whose page sizes do not divide; here the smaller page is padded.
    """
    largest = max(kind.page_bytes for kind in kinds)
    same: Counter[CacheKind] = Counter()
    for kind, count in kinds.items():
        factor = largest // kind.page_bytes
        same[CacheKind(largest, kind.block_size * factor, kind.window)] += count
    return same


def _group_size(counts: list[int]) -> int:
    fewest, most = min(counts), max(counts)
    return most if most < SPREAD * fewest else fewest
