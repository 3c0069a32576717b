"""What to change so that a model fits: each knob alone, turned as little as it takes, cheapest knob first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from servecast.hardware.gpus import Gpu
from servecast.hardware.memory_rules import MemoryRules
from servecast.model.architecture import Architecture
from servecast.model.layout import ReplicaLayout, effective_max_model_len, valid_tensor_parallel_sizes
from servecast.model.memory import MemoryPlan, plan_memory
from servecast.model.weights import effective_quantization

Settings = tuple[tuple[str, str | int | float], ...]

# What the engine does not ask for must hold the CUDA graphs, so advice stops short of all memory.
HIGHEST_UTILIZATION = 0.95
LENGTH_STEP = 256
SHORTEST_USEFUL_LENGTH = 2048
SMALLER_DTYPES = ("fp8", "w4a16")


@dataclass(frozen=True)
class Change:
    """A layout that fits and differs from the one asked for in `settings`, vLLM's key -> new value."""

    settings: Settings
    layout: ReplicaLayout
    plan: MemoryPlan

    def __str__(self) -> str:
        return ", ".join(f"{key}: {value}" for key, value in self.settings)


@dataclass(frozen=True)
class FitQuestion:
    """The arguments of `plan_memory`."""

    architecture: Architecture
    gpu: Gpu
    rules: MemoryRules
    layout: ReplicaLayout
    max_num_batched_tokens: int
    max_num_seqs: int = 256

    def plan(self, layout: ReplicaLayout) -> MemoryPlan:
        limits = self.max_num_batched_tokens, self.max_num_seqs
        return plan_memory(self.architecture, self.gpu, self.rules, layout, *limits)


def changes_that_fit(question: FitQuestion) -> list[Change]:
    """One change for each knob that helps alone: utilisation, KV dtype, length, weights dtype, TP.

    If none does, the pairs of a smaller weights dtype and more GPUs. Empty if not even those fit.
    `question.layout` must have passed `check_layout`.
    """
    knobs = (_utilization, _kv_dtype, _length, _weights_dtype, _tensor_parallel)
    changes = [change for knob in knobs if (change := _first_that_fits(question, knob(question)))]
    if changes:
        return changes
    return [change for pairs in _pairs(question) if (change := _first_that_fits(question, pairs))]


def _first_that_fits(question: FitQuestion, candidates: Iterator[Settings]) -> Change | None:
    for settings in candidates:
        layout = _changed(question.layout, settings)
        plan = question.plan(layout)
        if plan.fits:
            return Change(settings, layout, plan)
    return None


def _changed(layout: ReplicaLayout, settings: Settings) -> ReplicaLayout:
    changes: dict[str, Any] = dict(settings)
    return replace(layout, **changes)


def _utilization(question: FitQuestion) -> Iterator[Settings]:
    percent = int(question.layout.gpu_memory_utilization * 100)
    for higher in range(percent + 1, int(HIGHEST_UTILIZATION * 100) + 1):
        yield (("gpu_memory_utilization", higher / 100),)


def _kv_dtype(question: FitQuestion) -> Iterator[Settings]:
    if question.layout.kv_cache_dtype == "auto":
        yield (("kv_cache_dtype", "fp8"),)


def _length(question: FitQuestion) -> Iterator[Settings]:
    """The longest that fits: halving the gap, as room grows with every token less."""
    length = effective_max_model_len(question.architecture, question.layout)
    low, high = SHORTEST_USEFUL_LENGTH // LENGTH_STEP, (length - 1) // LENGTH_STEP
    best = None
    while low <= high:
        middle = (low + high) // 2
        if question.plan(replace(question.layout, max_model_len=middle * LENGTH_STEP)).fits:
            best, low = middle, middle + 1
        else:
            high = middle - 1
    if best is not None:
        yield (("max_model_len", best * LENGTH_STEP),)


def _weights_dtype(question: FitQuestion) -> Iterator[Settings]:
    """Fewer bits than now; a checkpoint that is quantised already stays as it is."""
    now = effective_quantization(question.architecture, question.layout.dtype)
    if now is None:
        for dtype in SMALLER_DTYPES:
            yield (("dtype", dtype),)


def _tensor_parallel(question: FitQuestion) -> Iterator[Settings]:
    for gpus in _more_gpus(question):
        yield (("tensor_parallel_size", gpus),)


def _pairs(question: FitQuestion) -> Iterator[Iterator[Settings]]:
    for (dtype,) in _weights_dtype(question):
        yield iter([(dtype, ("tensor_parallel_size", gpus)) for gpus in _more_gpus(question)])


def _more_gpus(question: FitQuestion) -> list[int]:
    """Powers of two that the model splits over and one server's link joins."""
    sizes = valid_tensor_parallel_sizes(question.architecture, min(question.gpu.server_gpus, 16))
    return [size for size in sizes if size > question.layout.tensor_parallel_size and size & (size - 1) == 0]
