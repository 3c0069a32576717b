"""Reads the coefficients of experts' kernels, latent attention and all-to-all from a GPU's file; see kernel_files.py.

moe_bf16, moe_fp8, moe_fp8_block, moe_nvfp4, moe_mxfp4, moe_int4      kind of experts' weights
  ..._small   for steps of few tokens            ..._ep   where experts are dealt out to GPUs
mla_prefill_bf16 (fp8, nvfp4), mla_short_..., mla_decode_...          ..._kv8 with an FP8 cache
all_to_all_ll_dispatch, ..._ll_combine, ..._ht_dispatch, ..._ht_combine
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypedDict, TypeVar

from servecast.hardware.engines.kernel_entries import only_with_residual
from servecast.hardware.engines.mla_profile import MlaDecodeCoefficients, MlaPrefillCoefficients
from servecast.hardware.engines.moe_profile import AllToAllCoefficients, MoeCoefficients
from servecast.hardware.yaml_fields import Fields

T = TypeVar("T")

_US, _GB = 1e-6, 1e9
_MOE_KINDS = ("bf16", "fp8", "fp8_block", "nvfp4", "mxfp4", "int4")
_MOE = tuple(f"moe_{kind}{variant}" for kind in _MOE_KINDS for variant in ("", "_small", "_ep", "_ep_small"))
_MLA_KINDS = tuple(f"{kind}{cache}" for kind in ("bf16", "fp8", "nvfp4") for cache in ("", "_kv8"))
_MLA_PREFILL = tuple(f"mla_prefill_{kind}" for kind in _MLA_KINDS)
_MLA_SHORT = tuple(f"mla_short_{kind}" for kind in _MLA_KINDS)
_MLA_DECODE = tuple(f"mla_decode_{kind}" for kind in _MLA_KINDS)
ALL_TO_ALL_GROUPS = tuple(f"all_to_all_{mode}_{way}" for mode in ("ll", "ht") for way in ("dispatch", "combine"))
SPECIAL_GROUPS = (*_MOE, *_MLA_PREFILL, *_MLA_SHORT, *_MLA_DECODE, *ALL_TO_ALL_GROUPS)
# What the default gives to a GPU that lacks it. A kernel for short chunks is a matter of the measured GPU's engine.
TYPICAL_GROUPS = (*_MOE, *_MLA_PREFILL, *_MLA_DECODE)


def without_strangers(entries: Mapping[str, Fields]) -> dict[str, Fields]:
    """`entries` less the variants (small steps, dealt-out experts, short chunks) of another engine than their main
    group's: they are of another kernel.
    """
    return {
        group: entry
        for group, entry in entries.items()
        if (main := entries.get(main_group(group))) is None or main.path[-1] == entry.path[-1]
    }


def main_group(group: str) -> str:
    """The group that `group` is a variant of, or itself."""
    if group not in SPECIAL_GROUPS:
        return group
    return group.replace("mla_short_", "mla_prefill_").removesuffix("_small").removesuffix("_ep")


class SpecialKernels(TypedDict):
    """Fields of KernelCoefficients."""

    moe: dict[str, MoeCoefficients]
    mla_prefill: dict[str, MlaPrefillCoefficients]
    mla_short: dict[str, MlaPrefillCoefficients]
    mla_decode: dict[str, MlaDecodeCoefficients]
    all_to_all: dict[str, AllToAllCoefficients]


def read_special_kernels(entries: Mapping[str, Fields]) -> SpecialKernels:
    """Those of `entries` (group -> entry) that are of SPECIAL_GROUPS."""

    def read(prefix: str, entry_of: Callable[[Fields], T]) -> dict[str, T]:
        groups = [group for group in SPECIAL_GROUPS if group.startswith(prefix) and group in entries]
        return {group.removeprefix(prefix): entry_of(entries[group]) for group in groups}

    return SpecialKernels(
        moe=read("moe_", _moe),
        mla_prefill=read("mla_prefill_", _mla_prefill),
        mla_short=read("mla_short_", _mla_prefill),
        mla_decode=read("mla_decode_", _mla_decode),
        all_to_all=read("all_to_all_", _all_to_all),
    )


def _moe(entry: Fields) -> MoeCoefficients:
    only_with_residual(entry, "t0_us", "e_c", "e_m", "p", "h_rows", "e_a", "rows")
    rows = entry.text("rows")
    if rows not in ("all", "local"):
        raise entry.error("rows", f"must be all or local, found {rows!r}")
    return MoeCoefficients(
        t0_s=entry.number("t0_us", zero=True) * _US,
        e_c=entry.number("e_c"),
        e_m=entry.number("e_m"),
        p=entry.number("p"),
        padding_rows=entry.number("h_rows", zero=True),
        e_a=entry.number("e_a"),
        all_rows=rows == "all",
    )


def _mla_prefill(entry: Fields) -> MlaPrefillCoefficients:
    only_with_residual(entry, "t0_us", "e_g", "e_m", "e_c", "s_half", "up_to")
    return MlaPrefillCoefficients(
        t0_s=entry.number("t0_us", zero=True) * _US,
        e_g=entry.number("e_g"),
        e_m=entry.number("e_m"),
        e_c=entry.number("e_c"),
        s_half_tokens=entry.number("s_half", zero=True),
        up_to_tokens=entry.count("up_to") if entry.has("up_to") else None,
    )


def _mla_decode(entry: Fields) -> MlaDecodeCoefficients:
    only_with_residual(entry, "t0_us", "e_w", "e_m", "e_c", "p", "h_pad", "c_ctx_us_per_1k")
    return MlaDecodeCoefficients(
        t0_s=entry.number("t0_us", zero=True) * _US,
        e_w=entry.number("e_w"),
        e_m=entry.number("e_m"),
        e_c=entry.number("e_c"),
        p=entry.number("p"),
        h_pad=entry.number("h_pad"),
        c_ctx_s_per_token=entry.number("c_ctx_us_per_1k", zero=True) * _US / 1000,
    )


def _all_to_all(entry: Fields) -> AllToAllCoefficients:
    only_with_residual(entry, "a_us", "bw_gbs", "bw_per_sm_gbs")
    return AllToAllCoefficients(
        a_s=entry.number("a_us") * _US,
        bytes_per_s=entry.number("bw_gbs") * _GB,
        bytes_per_s_per_sm=entry.number("bw_per_sm_gbs") * _GB if entry.has("bw_per_sm_gbs") else None,
    )
