"""The KV pool with prefix caching: full prompt blocks stay findable until they are evicted.

As in vLLM V1: freed blocks keep their content and join the free queue at its tail, the end of a chain first; new blocks
are taken from its head, which evicts what they held. A hit takes a reference, and leaves the queue if it was free. Two
requests that compute the same content at once have a block each; the older one is found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from servecast.hardware.errors import InvariantError
from servecast.model.block_pool import BlockPool
from servecast.model.prefix_chains import OWN, Branch, BranchKey, FreeQueue, Run
from servecast.model.request import Request


class Held:
    """The leading, findable blocks of one request. spans: [first run, block up to which they go], in order."""

    __slots__ = ("blocks", "spans")

    def __init__(self) -> None:
        self.blocks = 0
        self.spans: list[tuple[Run, int]] = []

    def add(self, run: Run) -> None:
        run.refs += 1
        self.spans.append((run, run.end))
        self.blocks += run.end - run.start

    def grow(self, blocks: int) -> None:
        """Lengthen the last run, which nobody else holds."""
        run, _ = self.spans[-1]
        run.end += blocks
        self.spans[-1] = (run, run.end)
        self.blocks += blocks

    def runs(self) -> list[Run]:
        """In the order of the prompt. Runs that were split since are the sum of their parts."""
        runs = []
        for first, end in self.spans:
            run: Run | None = first
            while run is not None:
                runs.append(run)
                run = run.rest if run.end < end else None
        return runs


class CachingBlockPool(BlockPool):
    """`free_blocks` counts cached blocks that nobody holds. Reads of a request: id, content, prompt_tokens,
    emitted_tokens, preemptions; changes none of them. `content` must not be longer than the prompt.

    Blocks outside the content are private: only their number counts, unless `keep` lets their request find them again.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        super().__init__(num_blocks, block_size)
        self._root = Branch()
        self._queue = FreeQueue()
        self._queue.append_anonymous(num_blocks)
        self._held: dict[int, Held] = {}

    # Lookup

    def hit_blocks(self, request: Request) -> int:
        """Leading blocks of `request` that are cached now, at most all but its last known token: that one is always
        computed. Changes nothing.
        """
        if not request.content and not request.preemptions:
            return 0
        # All but the last known token.
        findable = (request.prompt_tokens + request.emitted_tokens - 1) // self.block_size
        return max((end for _, _, end in self._cached(request, findable)), default=0)

    def free_hits(self, request: Request, blocks: int) -> int:
        """How many of its first `blocks` hits nobody holds: taking them uses free blocks up. Changes nothing."""
        return sum(end - start for run, start, end in self._cached(request, blocks) if not run.refs)

    def _cached(self, request: Request, blocks: int) -> Iterator[tuple[Run, int, int]]:
        """(run, first, end) of consecutive hits among the first `blocks` blocks. Runs may be split in between."""
        branch: Branch | None = self._root
        for key, start, end in self._stretches(request, blocks, own=request.preemptions > 0):
            branch = branch.children.get(key) if branch is not None else None
            if branch is None:
                return
            block = start
            while block < end:
                run = branch.find(block)
                if run is None:
                    return
                until = min(run.end, end)
                yield run, block, until
                block = until

    def _stretches(self, request: Request, blocks: int, *, own: bool) -> Iterator[tuple[BranchKey, int, int]]:
        """(branch key, first, end) of the first `blocks` blocks, by the branch that their last token lies in.

        own: whether the private blocks after the content count.
        """
        size = self.block_size
        start = before = 0
        for content, tokens in request.content:
            if start // size >= blocks:
                return
            end = start + tokens
            yield (before, content), start // size, min(end // size, blocks)
            start, before = end, tokens
        if own and start // size < blocks:
            yield (OWN, request.id), start // size, blocks

    # Blocks come and go

    def take(self, request: Request, hits: int, blocks: int) -> None:
        """Admit `request` with its first `hits` cached blocks and `blocks` new ones. Hits come first, so that the new
        blocks do not evict them.
        """
        if hits:
            held = self._held[request.id] = Held()
            for run, start, end in self._cached(request, hits):
                part = self._queue.split(run, start) if run.start < start else run
                if end < part.end:
                    self._queue.split(part, end)
                if not part.refs:
                    self._queue.remove(part)
                    self.free_blocks -= end - start
                held.add(part)
            if held.blocks != hits:
                raise InvariantError(f"request {request.id} takes {hits} cached blocks of {held.blocks}")
        self.extend_decodes(blocks)

    def extend(self, request: Request, blocks: int) -> None:  # noqa: ARG002  # new blocks have no content yet
        """Give `request` `blocks` more blocks."""
        self.extend_decodes(blocks)

    def extend_decodes(self, blocks: int) -> None:
        """Give whichever requests `blocks` more blocks, whose content nobody looks up."""
        if blocks > self.free_blocks:
            raise InvariantError(f"{blocks} blocks are allocated, {self.free_blocks} are free")
        self.free_blocks -= blocks
        self._queue.evict(blocks)

    def publish(self, request: Request, computed_tokens: int) -> None:
        """Let the full blocks of `request`'s content be found, as far as `computed_tokens` go."""
        if request.content:
            content_tokens = sum(tokens for _, tokens in request.content)
            self._publish(request, min(computed_tokens, content_tokens), own=False)

    def keep(self, request: Request, computed_tokens: int) -> None:
        """Let a request that is about to be released by preemption find all its full blocks again, private ones too,
        when it comes back (with `preemptions` above 0).
        """
        self._publish(request, computed_tokens, own=True)

    def _publish(self, request: Request, tokens: int, *, own: bool) -> None:
        full = tokens // self.block_size
        held = self._held.get(request.id)
        published = held.blocks if held is not None else 0
        if full <= published:
            return
        if held is None:
            held = self._held[request.id] = Held()
        branch = self._root
        for key, start, end in self._stretches(request, full, own=own):
            branch = branch.child(key)
            start = max(start, published)
            if start >= end:
                continue
            last = held.spans[-1] if held.spans else None
            # Only the newest run of a branch may grow: a longer older one would go before others' blocks.
            if last is not None and last[0].refs == 1 and branch.runs[-1:] == [last[0]]:
                held.grow(end - start)
            else:
                held.add(branch.publish(start, end))

    def release(self, request: Request, blocks: int) -> None:
        """`request` finished or was preempted and gives back all its `blocks` blocks."""
        held = self._held.pop(request.id, None)
        published = held.blocks if held is not None else 0
        if blocks < published:
            raise InvariantError(f"request {request.id} releases {blocks} blocks, {published} of it are findable")
        self._free_anonymous(blocks - published)
        if held is None:
            return
        for run in reversed(held.runs()):
            run.refs -= 1
            if not run.refs:
                self._queue.append(run)
                self.free_blocks += run.end - run.start

    def _free_anonymous(self, blocks: int) -> None:
        self._queue.append_anonymous(blocks)
        self.free_blocks += blocks

    # Invariants

    def check(self, held_blocks: int) -> None:
        """Raise InvariantError unless references are those of the holders, the queue holds exactly what nobody refers
        to, every cached block can be reached, and `held_blocks` (the sum over requests of the blocks they use) are the
        used blocks with each shared one as often as it is shared.
        """
        holders = Counter(id(run) for held in self._held.values() for run in held.runs())
        queued = {id(run) for run in self._queue}
        shared = 0
        for branch in self._root:
            if branch.parent is not None and not branch.runs and not branch.children:
                raise InvariantError(f"{branch} is empty")
            for run in branch.runs:
                if run.refs != holders.pop(id(run), 0) or run.blocks <= 0:
                    raise InvariantError(f"{run} is not held by {run.refs} requests")
                if (run.refs == 0) != (id(run) in queued):
                    raise InvariantError(f"{run} is in the free queue although held, or lost")
                shared += run.blocks * max(run.refs - 1, 0)
        if holders:
            raise InvariantError("requests hold runs that cannot be found")
        free = sum(run.blocks for run in self._queue)
        if free != self.free_blocks:
            raise InvariantError(f"{free} blocks in the free queue, {self.free_blocks} counted")
        super().check(held_blocks - shared)
