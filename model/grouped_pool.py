"""The KV pool of a model with sliding windows: a sequence has a block table in each group of layers.

A group with full attention keeps every block. A windowed one gives blocks back that its window has left behind, when
the next step of the sequence is planned; while a chunk of a prompt is computed it holds the window before it and all of
the chunk. Source: vLLM 0.19.0, sliding-window manager of the KV cache.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from servecast.hardware.errors import InvariantError
from servecast.model.block_pool import BlockPool
from servecast.model.kv_cache import CacheKind


class GroupedBlockPool(BlockPool):
    """`num_blocks` as the engine counts them: a block serves one of `groups`. kinds: of groups, with their numbers.

    chunk_tokens: most tokens of one sequence in a step. A sequence is counted with the blocks that it holds between two
    steps, `blocks_for`. What a chunk takes beyond that is free again when the next step is planned (`settle`).
    """

    def __init__(self, num_blocks: int, groups: Sequence[CacheKind], chunk_tokens: int) -> None:
        super().__init__(num_blocks, min(kind.block_size for kind in groups))
        # Groups that are alike count at once.
        self.kinds = tuple(Counter(groups).items())
        self._chunk_tokens = chunk_tokens
        self._outgrown = 0

    def blocks_for(self, tokens: int) -> int:
        """Blocks of a sequence with `tokens` tokens, the last of them computed alone: in a windowed group those of the
        window before that token are kept.
        """
        return sum(count * (-(-tokens // kind.block_size) - _passed(kind, tokens - 1)) for kind, count in self.kinds)

    def most_blocks_for(self, tokens: int) -> int:
        """Most blocks that a sequence ever holds on its way to `tokens` tokens, however they are cut into chunks."""
        total = 0
        for kind, count in self.kinds:
            blocks = -(-tokens // kind.block_size)
            if kind.window is not None:
                kept = min(kind.window - 1 + self._chunk_tokens, tokens)
                blocks = min(blocks, -(-kept // kind.block_size) + 1)
            total += count * blocks
        return total

    def growth(self, computed: int, tokens: int) -> int:
        """May be negative: blocks behind the window go first."""
        return self._while_computing(computed, tokens) - self.blocks_for(computed)

    def outgrow(self, computed: int, tokens: int) -> None:
        self._outgrown += self._while_computing(computed, tokens) - self.blocks_for(computed + tokens)

    def settle(self) -> None:
        self.free_blocks += self._outgrown
        self._outgrown = 0

    def _while_computing(self, computed: int, tokens: int) -> int:
        end = computed + tokens
        return sum(count * (-(-end // kind.block_size) - _passed(kind, computed)) for kind, count in self.kinds)

    def check(self, held_blocks: int) -> None:
        if self._outgrown < 0:
            raise InvariantError(f"{self._outgrown} blocks outgrown")
        super().check(held_blocks + self._outgrown)


def _passed(kind: CacheKind, computed: int) -> int:
    """Blocks that nobody reads any more when the token after `computed` tokens is computed."""
    return 0 if kind.window is None else max(0, (computed - kind.window + 1) // kind.block_size)
