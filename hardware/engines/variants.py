"""Engine profiles that a calibrated one is compared with: the bare roofline, and as if no GPU had been measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from servecast.hardware.engines.profile import Elementwise, EngineProfile, HostTimes, RingAllReduce
from servecast.hardware.gpus import Gpu

# With this power pnorm is the larger of its arguments but for 0.001 of it.
_SHARP = 512.0
# Fields of coefficients that cost time beyond the roofline: tiles and heads that are computed in vain, starvation.
_WASTE = frozenset({"s", "s_half_tokens", "c_tail", "padding_rows", "h_pad"})


def ideal(profile: EngineProfile, gpu: Gpu) -> EngineProfile:
    """The datasheet roofline: every efficiency 1, no launch or host times, the link at its datasheet bandwidth.

    The scheduler's rules stay those of `profile`, but for asynchronous scheduling: it hides host time that is not
    there.
    """
    speed = gpu.pcie_bytes_per_s if gpu.link is None else gpu.link.bytes_per_s
    ring = RingAllReduce({gpus: (0.0, speed) for gpus in range(2, gpu.server_gpus + 1)})
    default = profile.default_kernels
    ideal_kernels = {field.name: _ideal(getattr(default, field.name)) for field in fields(default)}
    kernels = replace(default, **ideal_kernels | {"decode_fp8_kv": None, "all_reduce": ring})
    return replace(
        profile,
        async_scheduling=False,
        host=HostTimes(step_s=0.0, request_s=0.0, server_s=0.0),
        elementwise=Elementwise(kernel_s=0.0, e_m=1.0),
        kernels={},
        default_kernels=kernels,
        graphs=None,
    )


def unmeasured(profile: EngineProfile, _gpu: Gpu) -> EngineProfile:
    """`profile` with the universal default coefficients for every GPU: what a GPU that nobody measured would get."""
    return replace(profile, kernels={})


def _ideal(value: Any) -> Any:
    """Coefficients, or a mapping of them, without losses; anything else as it is."""
    if isinstance(value, Mapping):
        return {key: _ideal(inner) for key, inner in value.items()}
    if not is_dataclass(value) or isinstance(value, type):
        return value
    return replace(
        value, **{field.name: _ideal_field(field.name, getattr(value, field.name)) for field in fields(value)}
    )


def _ideal_field(name: str, value: Any) -> Any:
    """By the names that all coefficients share: `e_...` are efficiencies, `..._s` times, p the power of pnorm."""
    if name.startswith("e_"):
        return 1.0
    is_time = name.endswith(("_s", "_s_per_token")) and not name.endswith("bytes_per_s")
    if is_time or name in _WASTE:
        return 0.0
    return {"p": _SHARP, "by_tokens": ()}.get(name, value)
