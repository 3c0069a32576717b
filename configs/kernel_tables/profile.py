"""Writes what was fitted as an engine profile that `servecast run` reads: a base, and coefficients with provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from servecast.configs.kernel_tables.group import Group
from servecast.hardware.catalogue import is_path, normalised, user_file
from servecast.hardware.engines import KernelCoefficients, NvlinkAllReduce, load_engine
from servecast.hardware.errors import ConfigError
from servecast.hardware.gpus import Gpu
from servecast.hardware.yaml_source import read_yaml
from servecast.model.calibration.fitting import ErrorPair, Fit, error_pair
from servecast.model.calibration.gemm import GemmFit

_SMALL = "all_reduce_small"
_NVLINK_GROUPS = (_SMALL, "all_reduce_large")
_DIGITS = 4
_ANY_ENGINE = "any"


@dataclass(frozen=True)
class FittedGroup:
    """A group of coefficients and its fit; `fit.free` is empty where the rows determine nothing.

    useless: why the fit is not written all the same.
    """

    group: Group
    fit: Fit
    useless: str = ""

    @property
    def written(self) -> bool:
        return bool(self.fit.free) and not self.useless

    @property
    def before(self) -> ErrorPair:
        """Error of the engine profile as it was, on the same rows."""
        return error_pair(self.group.before_s, self.group.rows.seconds)


def with_whole_all_reduce(fitted: Sequence[FittedGroup], kernels: KernelCoefficients) -> list[FittedGroup]:
    """`fitted`, in which an all-reduce over NVLink is useless that lacks one of its regimes, here and in `kernels`."""
    names = {one.group.name for one in fitted if one.fit.free}
    nvlink = {name for name in names if name.startswith(_NVLINK_GROUPS)}
    whole = _SMALL in nvlink and len(nvlink) > 1
    if whole or isinstance(kernels.all_reduce, NvlinkAllReduce):
        return list(fitted)
    why = "over NVLink small messages (the engine's own kernel) and large ones (NCCL) are needed, or the GPU's stay"
    return [replace(one, useless=why) if one.group.name in nvlink else one for one in fitted]


def kernel_entries(fitted: Sequence[FittedGroup], gpu: Gpu, made_by: str) -> dict[str, Any]:
    """The groups as they stand below a GPU's key. made_by: who fitted and when, ends each source."""
    entries: dict[str, Any] = {"fitted_with": _peaks(gpu)}
    for one in fitted:
        if one.written:
            entries[one.group.name] = {_ANY_ENGINE: _entry(one, made_by)}
    return entries


def _entry(one: FittedGroup, made_by: str) -> dict[str, Any]:
    names = [c.name for c in one.group.form.coefficients]
    entry: dict[str, Any] = {name: float(f"{one.fit.values[name]:.{_DIGITS}g}") for name in names}
    if isinstance(one.group.form, GemmFit):
        entry |= one.group.form.kept_entries(entry["t0_us"])
    entry["heldout"] = str(one.fit.heldout)
    entry["regimes"] = {name: str(error) for name, error in one.fit.by_regime.items()}
    if one.fit.kept:
        entry["kept"] = dict(one.fit.kept)
    points = f"{len(one.group.rows):,} points of {one.fit.shapes:,} shapes"
    entry["source"] = "; ".join((one.group.source, points, *_stand_ins(one.group.notes), made_by))
    return entry


def _stand_ins(notes: Sequence[str]) -> list[str]:
    return [note for note in notes if "stand in" in note]


def _peaks(gpu: Gpu) -> dict[str, Any]:
    """What the shares are shares of."""
    return {
        "peak_tflops": {kind: peak / 1e12 for kind, peak in gpu.peak_flops.items()},
        "memory_gb_per_s": gpu.memory_bytes_per_s / 1e9,
        "sm_count": gpu.sm_count,
    }


def profile_yaml(engine: str, changes: Mapping[str, Any], title: str) -> str:
    """The text of a profile: all of `engine` (a key, or a user's file), with `changes` on top, section by section."""
    import yaml

    data = _merged(_base(engine), changes)
    body = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=110)
    return f"# {title}\n{body}"


def _base(engine: str) -> dict[str, Any]:
    """A profile that ships is referred to; a user's file is copied, so that the result stands alone."""
    if not is_path(engine):
        return {"based_on": normalised(engine)}
    file = user_file(engine, None)
    data = dict(read_yaml(file).data)
    if "kernels_folder" in data:
        data["kernels_folder"] = str((file.parent / data["kernels_folder"]).resolve())
    return data


def _merged(base: Any, changes: Any) -> Any:
    """Mappings are merged; an entry of coefficients, which has a source, is replaced as a whole."""
    if not isinstance(base, Mapping) or not isinstance(changes, Mapping) or "source" in changes:
        return changes
    return {**base, **{key: _merged(base.get(key), value) for key, value in changes.items()}}


def check_readable(file: Path, gpu: Gpu) -> None:
    """Raises ConfigError if the profile that was just written cannot be read back."""
    try:
        load_engine(str(file.absolute())).kernels_for(gpu.key)
    except ConfigError as error:
        raise ConfigError(f"was written but cannot be read back: {error}", file=file) from None
