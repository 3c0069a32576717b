"""The pool's runs and counts against a pool that keeps every block with all the tokens that it stands for."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from servecast.model.prefix_cache import CachingBlockPool
from servecast.model.request import Content, Request

Token = tuple[Any, ...]


class EveryBlock:
    """vLLM V1's pool, block by block. cached: the blocks that hold some tokens after some others, oldest first."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.size = block_size
        self.free = list(range(num_blocks))
        self.refs = [0] * num_blocks
        self.key: list[tuple[Token, ...] | None] = [None] * num_blocks
        self.cached: dict[tuple[Token, ...], list[int]] = {}
        self.table: dict[int, list[int]] = {}

    def hits(self, tokens: list[Token]) -> list[int]:
        found = []
        for end in range(self.size, len(tokens), self.size):
            blocks = self.cached.get(tuple(tokens[:end]))
            if not blocks:
                break
            found.append(blocks[0])
        return found

    def take(self, id: int, hits: list[int], blocks: int) -> None:
        for block in hits:
            if not self.refs[block]:
                self.free.remove(block)
            self.refs[block] += 1
        self.table[id] = list(hits)
        self.extend(id, blocks)

    def extend(self, id: int, blocks: int) -> None:
        for _ in range(blocks):
            block = self.free.pop(0)
            key = self.key[block]
            if key is not None:
                self.cached[key].remove(block)
                self.key[block] = None
            self.refs[block] = 1
            self.table[id].append(block)

    def publish(self, id: int, tokens: list[Token]) -> None:
        for index, block in enumerate(self.table[id][: len(tokens) // self.size]):
            if self.key[block] is None:
                key = tuple(tokens[: (index + 1) * self.size])
                self.key[block] = key
                self.cached.setdefault(key, []).append(block)

    def release(self, id: int) -> None:
        for block in reversed(self.table.pop(id)):
            self.refs[block] -= 1
            if not self.refs[block]:
                self.free.append(block)


class Both:
    """Requests that go through both pools. keeps: whether a preempted one finds its private tokens again."""

    def __init__(self, num_blocks: int, block_size: int, *, keeps: bool) -> None:
        self.pool = CachingBlockPool(num_blocks, block_size)
        self.model = EveryBlock(num_blocks, block_size)
        self.keeps = keeps
        self.arrived = 0
        self.probes: list[Request] = []
        self.waiting: list[Request] = []
        self.running: list[Request] = []

    def tokens(self, request: Request) -> list[Token]:
        """All known tokens of `request`, each with its identity."""
        shared = [(content, place) for content, tokens in request.content for place in range(tokens)]
        life = 0 if self.keeps else request.preemptions
        private = range(request.prompt_tokens + request.emitted_tokens - len(shared))
        return [*shared, *(("private", request.id, life, place) for place in private)]

    def arrive(self, content: Content, private_tokens: int) -> None:
        shared = sum(tokens for _, tokens in content)
        prompt = max(shared + private_tokens, 1)
        request, probe = (Request(id, prompt, 1000, content=content) for id in (self.arrived, -1))
        self.arrived += 1
        self.waiting.append(request)
        self.probes.append(probe)

    def start(self, content: Content, chunk: int, fewer_hits: int) -> None:
        self.arrive(content, 1)
        self.admit(-1, chunk, fewer_hits)

    def admit(self, which: int, chunk: int, fewer_hits: int) -> None:
        """Start with the hits less `fewer_hits` and a chunk of at most `chunk` tokens, if blocks for it are free."""
        if not self.waiting:
            return
        request = self.waiting[which % len(self.waiting)]
        hits = self.model.hits(self.tokens(request))
        hits = hits[: max(len(hits) - fewer_hits, 0)]
        computed = len(hits) * self.pool.block_size
        tokens = min(chunk, request.known_tokens - computed)
        new = self.pool.blocks_for(computed + tokens) - len(hits)
        free_hits = self.pool.free_hits(request, len(hits))
        assert free_hits == sum(not self.model.refs[block] for block in hits)
        if not self.pool.can_allocate(new + free_hits):
            return
        self.waiting.remove(request)
        self.running.append(request)
        self.pool.take(request, len(hits), new)
        self.model.take(request.id, hits, new)
        self.advance(request, computed + tokens)

    def prefill(self, which: int, chunk: int) -> None:
        going = [r for r in self.running if r.uncomputed_tokens]
        if not going:
            return
        request = going[which % len(going)]
        tokens = min(chunk, request.uncomputed_tokens)
        blocks = self.pool.growth(request.computed_tokens, tokens)
        if self.pool.can_allocate(blocks):
            self.pool.extend(request, blocks)
            self.model.extend(request.id, blocks)
            self.advance(request, request.computed_tokens + tokens)

    def advance(self, request: Request, computed: int) -> None:
        request.computed_tokens = computed
        self.pool.publish(request, computed)
        self.model.publish(request.id, self.tokens(request)[:computed])
        if not request.uncomputed_tokens:
            request.emitted_tokens += 1

    def decode(self, steps: int) -> None:
        """Give everybody whose last token is all that is left to compute `steps` tokens, if blocks are free."""
        going = [r for r in self.running if r.uncomputed_tokens == 1 and r.emitted_tokens]
        blocks = [self.pool.growth(r.computed_tokens, steps) for r in going]
        if not self.pool.can_allocate(sum(blocks)):
            return
        self.pool.extend_decodes(sum(blocks))
        for request, needed in zip(going, blocks, strict=True):
            self.model.extend(request.id, needed)
            request.computed_tokens += steps
            request.emitted_tokens += steps
            self.model.publish(request.id, self.tokens(request)[: request.computed_tokens])

    def leave(self, which: int, preempted: bool) -> None:
        if not self.running:
            return
        request = self.running.pop(which % len(self.running))
        if preempted and self.keeps:
            self.pool.keep(request, request.computed_tokens)
        self.pool.release(request, self.pool.blocks_for(request.computed_tokens))
        self.model.release(request.id)
        if preempted:
            request.preemptions += 1
            request.computed_tokens = 0
            self.waiting.append(request)

    def compare(self) -> None:
        assert self.pool.free_blocks == len(self.model.free)
        for request in self.waiting + self.probes:
            assert self.pool.hit_blocks(request) == len(self.model.hits(self.tokens(request)))
        self.pool.check(sum(self.pool.blocks_for(r.computed_tokens) for r in self.running))


# Few contents and many arrivals that run at once, so that most sequences share, split and evict.
CONTENT = st.lists(st.tuples(st.integers(-2, -1), st.integers(1, 12)), min_size=1, max_size=3).map(tuple)
CHUNK = st.sampled_from([3, 7, 40])
HITS_LEFT_OUT = st.sampled_from([0, 0, 0, 1, 99])
ARRIVE = st.tuples(st.just("arrive"), CONTENT | st.just(()), st.integers(0, 9))
START = st.tuples(st.just("start"), CONTENT, CHUNK, HITS_LEFT_OUT)
ADMIT = st.tuples(st.just("admit"), st.integers(0, 9), CHUNK, HITS_LEFT_OUT)
PREFILL = st.tuples(st.just("prefill"), st.integers(0, 9), CHUNK)
DECODE = st.tuples(st.just("decode"), st.integers(1, 5))
LEAVE = st.tuples(st.just("leave"), st.integers(0, 9), st.booleans())
ACTION = st.one_of(START, START, START, ARRIVE, ADMIT, PREFILL, DECODE, LEAVE, LEAVE, LEAVE)


@given(st.lists(ACTION, min_size=30, max_size=50), st.integers(6, 24), st.integers(1, 4), st.booleans())
def test_runs_behave_as_single_blocks_do(
    actions: list[tuple[Any, ...]], num_blocks: int, block_size: int, keeps: bool
) -> None:
    """`Both.compare` asserts, after every action, that the two hold the same blocks for the same requests."""
    both = Both(num_blocks, block_size, keeps=keeps)
    for action, *arguments in actions:
        getattr(both, action)(*arguments)
        both.compare()
