"""The KV pool of a replica as a count of blocks."""

from __future__ import annotations

from servecast.hardware.errors import InvariantError


class BlockPool:
    """`num_blocks` blocks of `block_size` tokens. Who holds how many follows from the requests' computed tokens."""

    __slots__ = ("block_size", "free_blocks", "num_blocks")

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.free_blocks = num_blocks

    @property
    def used_blocks(self) -> int:
        return self.num_blocks - self.free_blocks

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold `tokens` tokens of one request."""
        return -(-tokens // self.block_size)

    def growth(self, computed: int, tokens: int) -> int:
        """Blocks that a request needs besides its own to go from `computed` to `computed + tokens` tokens."""
        size = self.block_size
        return -(-(computed + tokens) // size) + (-computed // size)

    def can_allocate(self, blocks: int, reserve: int = 0) -> bool:
        """Whether `blocks` are free and `reserve` more stay so."""
        return self.free_blocks >= blocks + reserve

    def allocate(self, blocks: int) -> None:
        self.free_blocks -= blocks

    def release(self, blocks: int) -> None:
        self.free_blocks += blocks

    def check(self, held_blocks: int) -> None:
        """Raise InvariantError unless the requests hold exactly the used blocks."""
        if self.free_blocks < 0 or held_blocks + self.free_blocks != self.num_blocks:
            raise InvariantError(f"{held_blocks} blocks held + {self.free_blocks} free != {self.num_blocks}")

    def __repr__(self) -> str:
        return f"BlockPool({self.used_blocks} of {self.num_blocks} blocks used)"
