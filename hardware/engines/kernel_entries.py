"""Reads one entry of a file of kernel coefficients: a group of coefficients as measured with one engine.

Units in the files are those of the fits (us, GB/s); in Python they are SI. Each entry holds its source and exactly one
residual.
"""

from __future__ import annotations

from servecast.hardware.engines.profile import (
    TOKEN_EDGES,
    DecodeCoefficients,
    GemmCoefficients,
    NvlinkAllReduce,
    PcieShare,
    PrefillCoefficients,
    RingAllReduce,
)
from servecast.hardware.yaml_fields import Fields

_US = 1e-6
_GB = 1e9
# Up to here vLLM's own all-reduce kernel was measured and fitted ("small"); above, it hands over to NCCL.
_SMALL_ALL_REDUCE_BYTES = 8 * 2**20
# How an error was found: key beside the coefficients -> words for people.
_RESIDUAL_KINDS = {
    "heldout": "on shapes held out of the fit",
    "fit": "in-sample",
    "leave_one_model_out": "on models held out of the fit",
    "unseen_gpu": "on a GPU held out of the fit",
    "untested": "untested",
}


def only_with_residual(entry: Fields, *keys: str) -> None:
    """Raises ConfigError for a key that is none of `keys`, the source and the residuals. regimes, kept: what `servecast
    calibrate` says of an entry that it wrote, for people.
    """
    entry.only((*keys, "source", "regimes", "kept", *_RESIDUAL_KINDS))


def read_residual(entry: Fields) -> str:
    """The error of the entry, in words. Exactly one kind must stand there."""
    kinds = [kind for kind in _RESIDUAL_KINDS if entry.has(kind)]
    if len(kinds) != 1:
        raise entry.error("heldout", f"one residual must stand here, one of {', '.join(_RESIDUAL_KINDS)}")
    return f"{entry.text(kinds[0])} ({_RESIDUAL_KINDS[kinds[0]]})"


def read_gemm(entry: Fields, kind: str) -> GemmCoefficients:
    """kind: whose peak the coefficients scale, a key of KernelCoefficients.gemm."""
    only_with_residual(entry, "t0_us", "e_c", "e_m", "p", "s", "q", "by_tokens", "quant_us")
    by_tokens = entry.numbers("by_tokens") if entry.has("by_tokens") else ()
    if by_tokens and len(by_tokens) != len(TOKEN_EDGES) + 1:
        raise entry.error("by_tokens", f"must be {len(TOKEN_EDGES) + 1} factors, found {len(by_tokens)}")
    return GemmCoefficients(
        t0_s=entry.number("t0_us", zero=True) * _US,
        e_c=entry.number("e_c"),
        e_m=entry.number("e_m"),
        p=entry.number("p"),
        s=entry.number("s", zero=True) if entry.has("s") else 0.0,
        starvation_power=entry.number("q") if entry.has("q") else 1.0,
        tile_measured_on=_measured_on(entry, kind) if entry.has("s") else None,
        by_tokens=by_tokens,
        quant_s=entry.number("quant_us", zero=True) * _US if entry.has("quant_us") else 0.0,
    )


def _measured_on(entry: Fields, kind: str) -> tuple[float, int] | None:
    """Peak FLOP/s of `kind` and SMs with which the entry's file was fitted, where it says so."""
    file = Fields.of_file(entry.source, "a GPU's kernel coefficients")
    if not file.has("fitted_with"):
        return None
    fitted = file.section("fitted_with")
    peaks, peak = fitted.section("peak_tflops"), "fp4" if kind == "nvfp4" else kind
    return (peaks.number(peak) * 1e12, fitted.count("sm_count")) if peaks.has(peak) else None


def read_prefill(entry: Fields) -> PrefillCoefficients:
    only_with_residual(entry, "t0_us", "e_c", "e_m", "s_half", "c_tail")
    return PrefillCoefficients(
        t0_s=entry.number("t0_us", zero=True) * _US,
        e_c=entry.number("e_c"),
        e_m=entry.number("e_m"),
        s_half_tokens=entry.number("s_half", zero=True),
        c_tail=entry.number("c_tail", zero=True),
    )


def read_decode(entry: Fields) -> DecodeCoefficients:
    only_with_residual(entry, "t0_us", "e_m", "c_item_us", "c_ctx_us_per_1k")
    return DecodeCoefficients(
        t0_s=entry.number("t0_us", zero=True) * _US,
        e_m=entry.number("e_m"),
        c_item_s=entry.number("c_item_us", zero=True) * _US,
        c_ctx_s_per_token=entry.number("c_ctx_us_per_1k", zero=True) * _US / 1000,
    )


def read_nvlink(small: Fields, large: RingAllReduce) -> NvlinkAllReduce:
    only_with_residual(small, "a_us", "b_us_per_peer", "bw_twoshot_gbs", "bw_oneshot_gbs", "x_twoshot_us")
    return NvlinkAllReduce(
        small_max_bytes=_SMALL_ALL_REDUCE_BYTES,
        small_a_s=small.number("a_us") * _US,
        small_b_s_per_peer=small.number("b_us_per_peer", zero=True) * _US,
        small_oneshot_bytes_per_s=small.number("bw_oneshot_gbs") * _GB,
        small_twoshot_bytes_per_s=small.number("bw_twoshot_gbs") * _GB,
        small_twoshot_extra_s=small.number("x_twoshot_us", zero=True) * _US,
        large=large,
    )


def read_ring(entry: Fields) -> tuple[float, float]:
    only_with_residual(entry, "a_us", "busbw_gbs")
    return entry.number("a_us") * _US, entry.number("busbw_gbs") * _GB


def read_share(entry: Fields) -> PcieShare:
    """All-reduce over PCIe as a share of the link."""
    entry.only(("a_us", "share", "between_servers", "source"))
    between = entry.section("between_servers")
    between.only(("lowest", "highest"))
    return PcieShare(
        latency_s=entry.number("a_us") * _US,
        share=entry.number("share"),
        lowest=between.number("lowest"),
        highest=between.number("highest"),
    )


def read_table(entry: Fields) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Message sizes in bytes and seconds."""
    only_with_residual(entry, "kib", "us")
    sizes, times = entry.numbers("kib"), entry.numbers("us")
    if len(sizes) != len(times) or len(sizes) < 2 or sorted(set(sizes)) != list(sizes):
        raise entry.error("us", f"must be one time for each of the ascending sizes in kib, found {len(times)}")
    return tuple(size * 1024 for size in sizes), tuple(time * _US for time in times)
