"""The KV pool of a replica as a count of blocks."""

from __future__ import annotations

from servecast.hardware.errors import InvariantError
from servecast.model.request import Request


class BlockPool:
    """`num_blocks` blocks of `block_size` tokens. Who holds how many follows from the requests' computed tokens.

    The methods that name a request are for pools that know what a block holds (prefix_cache.py); here only numbers
    count.
    """

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

    def most_blocks_for(self, tokens: int) -> int:
        """Most blocks that one request ever holds on its way to `tokens` tokens."""
        return self.blocks_for(tokens)

    def growth(self, computed: int, tokens: int) -> int:
        """Blocks that a request needs besides its own to go from `computed` to `computed + tokens` tokens."""
        size = self.block_size
        return -(-(computed + tokens) // size) + (-computed // size)

    def can_allocate(self, blocks: int, reserve: int = 0) -> bool:
        """Whether `blocks` are free and `reserve` more stay so."""
        return self.free_blocks >= blocks + reserve

    def hit_blocks(self, request: Request) -> int:  # noqa: ARG002  # nothing is cached here
        """Leading blocks of its prompt that need not be computed."""
        return 0

    def free_hits(self, request: Request, blocks: int) -> int:  # noqa: ARG002  # nothing is cached here
        """How many of its first `blocks` hits count as free now."""
        return 0

    def take(self, request: Request, hits: int, blocks: int) -> None:  # noqa: ARG002  # there are no hits
        """`request` is admitted with `hits` cached blocks and `blocks` new ones."""
        self.free_blocks -= blocks

    def extend(self, request: Request, blocks: int) -> None:  # noqa: ARG002  # blocks have no owner here
        """`request` gets `blocks` more."""
        self.free_blocks -= blocks

    def extend_decodes(self, blocks: int) -> None:
        """Decode steps open `blocks` blocks, of whichever requests."""
        self.free_blocks -= blocks

    def outgrow(self, computed: int, tokens: int) -> None:
        """A request goes from `computed` to `computed + tokens` tokens in the planned step, for which it has blocks."""

    def settle(self) -> None:
        """The next step is planned: what steps took beyond what their requests keep is free."""

    def publish(self, request: Request, computed_tokens: int) -> None:
        """The prompt of `request` is computed up to `computed_tokens`."""

    def keep(self, request: Request, computed_tokens: int) -> None:
        """`request` is preempted with `computed_tokens` tokens computed: what it finds of them later, it need not
        compute again.
        """

    def release(self, request: Request, blocks: int) -> None:  # noqa: ARG002  # blocks have no owner here
        """`request` gives back the `blocks` blocks that it holds."""
        self.free_blocks += blocks

    def check(self, held_blocks: int) -> None:
        """Raise InvariantError unless the requests hold exactly the used blocks."""
        if self.free_blocks < 0 or held_blocks + self.free_blocks != self.num_blocks:
            raise InvariantError(f"{held_blocks} blocks held + {self.free_blocks} free != {self.num_blocks}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.used_blocks} of {self.num_blocks} blocks used)"
