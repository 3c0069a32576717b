"""Cached prompt blocks as runs in a tree of contents, and the queue of those that are free.

A token's identity is its content and its place in it; a block's is that of all tokens up to its last one (the hash
chain of vLLM). The tree has a branch for each content that follows another one at a given token, so a block belongs to
the branch in which its last token lies, under its index from the start of the prompt. Neighbouring blocks with the same
history are kept as one run: a prompt of 100,000 tokens is a handful of objects, not 6,250.
"""

from __future__ import annotations

from collections.abc import Iterator

from servecast.hardware.errors import InvariantError

# (tokens of the content before that were used, content id); or (OWN, request id) for a request's private tokens.
BranchKey = tuple[int, int]
OWN = -1


class Run:
    """Blocks `start` to `end` (excluded) of a branch, or without a branch anonymous ones, whose number alone counts.

    refs: requests that hold them, each holds all. rest: the other part after a run was split; whoever held it all goes
    on there. before, after: neighbours in the free queue, None while it is not in it.
    """

    __slots__ = ("after", "before", "branch", "end", "refs", "rest", "start")

    def __init__(self, branch: Branch | None, start: int, end: int) -> None:
        self.branch = branch
        self.start = start
        self.end = end
        self.refs = 0
        self.rest: Run | None = None
        self.before: Run | None = None
        self.after: Run | None = None

    @property
    def blocks(self) -> int:
        return self.end - self.start

    def __repr__(self) -> str:
        kind = "anonymous" if self.branch is None else "cached"
        return f"Run({self.start}..{self.end}, {kind}, refs={self.refs})"


class Branch:
    """The blocks whose last token lies in one content at one place of the tree. runs: as published, oldest first;
    where several hold the same block, the oldest is the one that is found.
    """

    __slots__ = ("children", "key", "parent", "runs")

    def __init__(self, parent: Branch | None = None, key: BranchKey = (0, 0)) -> None:
        self.parent = parent
        self.key = key
        self.children: dict[BranchKey, Branch] = {}
        self.runs: list[Run] = []

    def child(self, key: BranchKey) -> Branch:
        """The branch `key` after this one, made if it is not there."""
        child = self.children.get(key)
        if child is None:
            child = self.children[key] = Branch(self, key)
        return child

    def find(self, block: int) -> Run | None:
        """The oldest run with `block`, None if it is not cached. It stays the oldest one up to its end: whoever held a
        block held one as old of each before it, which is evicted later, so no older run starts further on.
        """
        for run in self.runs:
            if run.start <= block < run.end:
                return run
        return None

    def publish(self, start: int, end: int) -> Run:
        run = Run(self, start, end)
        self.runs.append(run)
        return run

    def drop(self, run: Run) -> None:
        """Forget `run`, whose last block was evicted, and branches that are empty now."""
        self.runs.remove(run)
        run.rest = None
        branch = self
        while branch.parent is not None and not branch.runs and not branch.children:
            del branch.parent.children[branch.key]
            branch = branch.parent

    def __iter__(self) -> Iterator[Branch]:
        """This branch and all that follow it."""
        stack = [self]
        while stack:
            branch = stack.pop()
            yield branch
            stack.extend(branch.children.values())

    def __repr__(self) -> str:
        return f"Branch({self.key}, {self.runs}, {len(self.children)} children)"


class FreeQueue:
    """Free runs, the next to be evicted first; a run is evicted from its end."""

    def __init__(self) -> None:
        # A ring that closes in an empty run: no end needs a case of its own.
        self._ring = Run(None, 0, 0)
        self._ring.before = self._ring.after = self._ring

    def append(self, run: Run) -> None:
        self._insert(run, self._ring)

    def append_anonymous(self, blocks: int) -> None:
        last = self._ring.before
        if last is not None and last is not self._ring and last.branch is None:
            last.end += blocks
        elif blocks:
            self.append(Run(None, 0, blocks))

    def remove(self, run: Run) -> None:
        before, after = run.before, run.after
        if before is None or after is None:
            raise InvariantError(f"{run} is not free")
        before.after, after.before = after, before
        run.before = run.after = None

    def split(self, run: Run, at: int) -> Run:
        """Part a cached run at block `at`, wherever it is; returns the part from there on, which is evicted first."""
        branch = run.branch
        if branch is None:
            raise InvariantError(f"{run} is split")
        tail = Run(branch, at, run.end)
        tail.refs, tail.rest = run.refs, run.rest
        run.end, run.rest = at, tail
        branch.runs.insert(branch.runs.index(run) + 1, tail)
        if run.before is not None:
            self._insert(tail, run)
        return tail

    def evict(self, blocks: int) -> None:
        """Take `blocks` blocks from the head; so many must be there."""
        while blocks:
            run = self._ring.after
            if run is None or run is self._ring:
                raise InvariantError(f"{blocks} blocks are evicted from an empty queue")
            evicted = min(blocks, run.end - run.start)
            blocks -= evicted
            run.end -= evicted
            if run.start == run.end:
                self.remove(run)
                if run.branch is not None:
                    run.branch.drop(run)

    def __iter__(self) -> Iterator[Run]:
        run = self._ring.after
        while run is not None and run is not self._ring:
            yield run
            run = run.after

    @staticmethod
    def _insert(run: Run, after: Run) -> None:
        """Put `run` into the ring right before `after`."""
        before = after.before
        if before is None:
            raise InvariantError(f"{after} is not free")
        run.before, run.after = before, after
        before.after = after.before = run

    def __repr__(self) -> str:
        return f"FreeQueue({list(self)})"
