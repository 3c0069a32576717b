"""CUDA graphs: what a step is padded to, and what its launches take where it is not replayed as a graph."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from servecast.hardware.engines import CudaGraphs
from servecast.model.kernels import Floats

# Captured by every engine that captures at all.
_SMALLEST = (1, 2, 4)


def captured_tokens(graphs: CudaGraphs, max_num_seqs: int) -> list[int]:
    """Numbers of tokens that have a graph, ascending: up to twice the requests that may run, as vLLM has it."""
    largest = min(2 * max_num_seqs, graphs.steps[-1][0])
    return [size for size in (*_SMALLEST, *_multiples(graphs)) if size <= largest]


def _multiples(graphs: CudaGraphs) -> Iterator[int]:
    above = _SMALLEST[-1]
    for largest, multiple in graphs.steps:
        yield from range((above // multiple + 1) * multiple, largest + 1, multiple)
        above = largest


def padded(tokens: Floats, captured: list[int]) -> Floats:
    """Each of `tokens` as the GPU computes it: the next captured number, itself above the largest."""
    if not captured:
        return tokens
    sizes = np.array(captured, dtype=np.float64)
    next_size = sizes[np.searchsorted(sizes, tokens).clip(max=len(sizes) - 1)]
    return np.asarray(np.maximum(tokens, next_size))


def launch_s(tokens: Floats, captured: list[int], layers: int, graphs: CudaGraphs, *, eager: bool) -> Floats:
    """Seconds that the CPU takes to launch the layers' kernels, for each of `tokens`. The GPU may take longer."""
    if eager:
        return np.full_like(tokens, layers * graphs.eager_layer_s)
    largest = captured[-1] if captured else 0
    return np.where(tokens > largest, layers * graphs.uncaptured_layer_s, 0.0)
