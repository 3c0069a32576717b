"""What to measure: the sizes that tell the coefficients of the cost model apart. Pure data; no GPU is needed.

Sizes were chosen among those of the public tables, so that fits to this plan could be tried on six GPUs
(benchmarks/calibration/plan.py); results are in docs/calibration.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

KINDS = ("gemm", "attention", "copy", "all-reduce")

# Weight matrices [n, k], each with two numbers of tokens: launch-bound, memory-bound, at the knee, compute-bound. Every
# octave of tokens is there, and no two matrices go through the same pair.
_GEMMS = (
    (512, 512, (1, 256)),
    (1024, 1024, (8, 2048)),
    (2048, 4096, (64, 512)),
    (5120, 2560, (1, 8192)),
    (6144, 4096, (1, 4096)),
    (4096, 4096, (16, 1024)),
    (16384, 4096, (32, 128)),
    (4096, 12288, (2, 256)),
    (10240, 8192, (4, 2048)),
    (8192, 8192, (128, 512)),
    (16384, 8192, (64, 4096)),
    (8192, 16384, (8, 1024)),
    (3072, 16384, (1, 192)),
    (12288, 3072, (16, 768)),
    (7168, 2048, (32, 1536)),
    (51200, 5120, (1, 96)),
)
# (query heads, KV heads) of a GPU: grouped, one KV head, all heads.
_HEADS = ((32, 8), (8, 1), (16, 16), (64, 8), (12, 4))
_HEAD_DIM = 128
# (prompts, tokens of each)
_PREFILLS = (
    (1, 16),
    (4, 64),
    (1, 128),
    (16, 128),
    (1, 256),
    (1, 512),
    (8, 512),
    (1, 1024),
    (2, 2048),
    (1, 4096),
    (1, 8192),
    (1, 16384),
)
# (sequences, tokens of context, the new one included)
_DECODES = (
    (1, 16),
    (8, 16),
    (64, 16),
    (256, 16),
    (1, 512),
    (1, 4096),
    (1, 16384),
    (1, 131072),
    (8, 32768),
    (32, 1024),
    (32, 4096),
    (64, 2048),
    (128, 1024),
    (256, 512),
    (256, 2048),
)
# Bytes of a piece, and how many of them one after the other: a KV block of a layer, then ever more at once.
_COPIES = ((32 * 2**10, 256), (64 * 2**10, 256), (2**20, 64), (16 * 2**20, 8), (256 * 2**20, 2))
_DIRECTIONS = ("device_to_device", "host_to_device", "device_to_host")
_MESSAGES = tuple(2**power for power in range(12, 29))
GPU_COUNTS = (2, 4, 8)


@dataclass(frozen=True)
class Gemm:
    """y[m, n] = x[m, k] W[n, k]^T. fp8: with the conversion of the activations."""

    gemm_dtype: str
    m: int
    n: int
    k: int

    @property
    def bytes_(self) -> int:
        """About what it needs of the GPU's memory."""
        width = 1 if self.gemm_dtype == "fp8" else 2
        return width * self.n * self.k + 3 * self.m * self.k + 2 * self.m * self.n


@dataclass(frozen=True)
class Attention:
    """step 0: prefill of `batch_size` prompts of `isl` tokens. Else a decode of one token each, after `step` others.

    Both write the new tokens' K and V to the cache, as the engine's layers do.
    """

    batch_size: int
    isl: int
    step: int
    num_heads: int
    num_key_value_heads: int
    head_dim: int
    kv_cache_dtype: str = "bfloat16"

    @property
    def bytes_(self) -> int:
        tokens = self.batch_size * (self.isl + self.step)
        cache = 4 * tokens * self.num_key_value_heads * self.head_dim
        return 2 * cache + 6 * self.batch_size * self.isl * self.num_heads * self.head_dim


@dataclass(frozen=True)
class Copy:
    """`pieces` copies of `bytes` each, one after the other; host memory is pinned."""

    copy: str
    bytes: int
    pieces: int

    @property
    def bytes_(self) -> int:
        return 2 * self.bytes * self.pieces


@dataclass(frozen=True)
class AllReduce:
    """Over `num_gpus` GPUs of this machine, a message of `bytes` on each, 16 bit."""

    num_gpus: int
    bytes: int
    op_name: str = "all_reduce"

    @property
    def bytes_(self) -> int:
        return 3 * self.bytes


Item = Gemm | Attention | Copy | AllReduce


@dataclass(frozen=True)
class Machine:
    """What decides which items can be measured."""

    memory_bytes: int
    gpus: int
    fp8: bool


def items(kinds: Sequence[str] = KINDS) -> list[Item]:
    """All of the plan; kinds: of KINDS."""
    makers = {"gemm": _gemms, "attention": _attentions, "copy": _copies, "all-reduce": _all_reduces}
    return [item for kind in KINDS if kind in kinds for item in makers[kind]()]


def unfit(item: Item, machine: Machine) -> str | None:
    """Why `item` cannot be measured on `machine`; None if it can."""
    if isinstance(item, AllReduce) and item.num_gpus > machine.gpus:
        return f"needs {item.num_gpus} GPUs, here {'is' if machine.gpus == 1 else 'are'} {machine.gpus}"
    if isinstance(item, Gemm) and item.gemm_dtype == "fp8" and not machine.fp8:
        return "needs FP8 arithmetic"
    if item.bytes_ > 0.5 * machine.memory_bytes:
        return f"needs {item.bytes_ / 2**30:.1f} GiB, more than half of the GPU's memory"
    return None


def cells(item: Item) -> dict[str, Any]:
    """The item's columns in a table of measurements."""
    return asdict(item)


def _gemms() -> Iterator[Item]:
    for dtype in ("bfloat16", "fp8"):
        yield from (Gemm(dtype, m, n, k) for n, k, tokens in _GEMMS for m in tokens)


def _attentions() -> Iterator[Item]:
    for heads, kv_heads in _HEADS:
        yield from (Attention(batch, isl, 0, heads, kv_heads, _HEAD_DIM) for batch, isl in _PREFILLS)
    for heads, kv_heads in _HEADS:
        yield from (Attention(batch, 1, context - 1, heads, kv_heads, _HEAD_DIM) for batch, context in _DECODES)


def _copies() -> Iterator[Item]:
    for direction in _DIRECTIONS:
        yield from (Copy(direction, size, pieces) for size, pieces in _COPIES)


def _all_reduces() -> Iterator[Item]:
    for gpus in GPU_COUNTS:
        yield from (AllReduce(gpus, size) for size in _MESSAGES)
