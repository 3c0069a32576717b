"""Contexts at which swapping KV out and in is cheaper than computing it again."""

from __future__ import annotations

from servecast.model.preemption import PreemptionCosts


def swap_is_cheaper(costs: PreemptionCosts, block_size: int, longest: int) -> list[tuple[int, int]]:
    """Ranges (from, to), in tokens and both included, of whole blocks up to `longest` tokens.

    There can be two: a short context is cheap to copy but costs a whole step to compute again, and a long one costs
    attention that grows with its square.
    """
    ranges: list[tuple[int, int]] = []
    for blocks in range(1, longest // block_size + 1):
        tokens = blocks * block_size
        if costs.swap_s(blocks) >= costs.recompute_s(tokens):
            continue
        if ranges and ranges[-1][1] == tokens - block_size:
            ranges[-1] = (ranges[-1][0], tokens)
        else:
            ranges.append((tokens, tokens))
    return ranges
