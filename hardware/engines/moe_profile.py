"""Coefficients of a fused mixture-of-experts kernel, and of the all-to-all exchange of expert parallelism."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MoeCoefficients:
    """t0_s + activations/(e_a*bw) + pnorm(compute, weights; p), from the choice of experts to the weighted sum.

    e_c, e_m, e_a: shares of peak FLOP/s and of bandwidth (weights; activations). padding_rows: rows that each expert
    hit computes besides its tokens, as tiles are filled up. all_rows: with experts spread over GPUs, the kernel moves
    the activations of every chosen row (Triton), not just of those whose expert is on this GPU.
    """

    t0_s: float
    e_c: float
    e_m: float
    p: float
    padding_rows: float
    e_a: float
    all_rows: bool


@dataclass(frozen=True)
class AllToAllCoefficients:
    """One way of an exchange between the GPUs of a server: a_s + bytes*(1/bytes_per_s + 1/(SMs*bytes_per_s_per_sm)).

    bytes_per_s_per_sm: None for kernels that the link alone limits.
    """

    a_s: float
    bytes_per_s: float
    bytes_per_s_per_sm: float | None = None
