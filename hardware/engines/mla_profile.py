"""Coefficients of a whole multi-head latent attention: projections, norms, rotary embedding, attention, output."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MlaPrefillCoefficients:
    """Prompt tokens. t0_s + pnorm(compute, weights; 2) + traffic/(e_m*bw) + pairs.

    e_g: share of the projections' peak; e_m: of the bandwidth; e_c: of the 16-bit peak, for query-key pairs.
    up_to_tokens: of a kernel for short chunks only (the engine lets them take the decode kernel), None without limit.
    """

    t0_s: float
    e_g: float
    e_m: float
    e_c: float
    s_half_tokens: float
    up_to_tokens: int | None = None


@dataclass(frozen=True)
class MlaDecodeCoefficients:
    """One new token a request. t0_s + projections + pnorm(latents read, scores; p) + c_ctx_s_per_token*longest.

    e_w, e_m: shares of bandwidth, for weights and for the cache; e_c: of the 16-bit peak. h_pad: heads that the kernel
    computes at least.
    """

    t0_s: float
    e_w: float
    e_m: float
    e_c: float
    p: float
    h_pad: float
    c_ctx_s_per_token: float
