"""Cohorts: classes of requests that are reported by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from servecast.model.workload import Workload

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class CohortParameters:
    """by: "prompt_tokens", "output_tokens", "priority" or "tenant". edges: upper edges of the classes of a token
    count.
    """

    by: str
    edges: tuple[int, ...] = ()


def cohorts(parameters: CohortParameters, workload: Workload) -> Iterator[tuple[str, Mask]]:
    """Name and members of each class, smallest first; together they are all requests."""
    if parameters.by in ("prompt_tokens", "output_tokens"):
        tokens = workload.prompt_tokens if parameters.by == "prompt_tokens" else workload.output_tokens
        yield from _by_edges(parameters, tokens)
        return
    column = workload.priority if parameters.by == "priority" else workload.tenant
    values = np.zeros(len(workload), dtype=np.int64) if column is None else column
    for value in np.unique(values):
        yield f"{parameters.by} {value}", values == value


def _by_edges(parameters: CohortParameters, tokens: NDArray[np.int64]) -> Iterator[tuple[str, Mask]]:
    for low, high in pairwise((0, *parameters.edges)):
        yield f"{_short(parameters.by)} {low + 1}-{high}", (tokens > low) & (tokens <= high)
    last = parameters.edges[-1]
    yield f"{_short(parameters.by)} >{last}", tokens > last


def _short(key: str) -> str:
    return key.removesuffix("_tokens")
