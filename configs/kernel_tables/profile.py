"""Writes what was fitted as an engine profile that `servecast run` reads: a base, and coefficients with provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servecast.configs.kernel_tables.group import Group
from servecast.hardware.catalogue import is_path, normalised, user_file
from servecast.hardware.engines import load_engine
from servecast.hardware.errors import ConfigError
from servecast.hardware.gpus import Gpu
from servecast.hardware.yaml_source import read_yaml
from servecast.model.calibration.fitting import Fit

_DIGITS = 4
_ANY_ENGINE = "any"


@dataclass(frozen=True)
class FittedGroup:
    """A group of coefficients and its fit; `fit.free` is empty where the rows determine nothing."""

    group: Group
    fit: Fit


def kernel_entries(fitted: Sequence[FittedGroup], gpu: Gpu, made_by: str) -> dict[str, Any]:
    """The groups as they stand below a GPU's key. made_by: who fitted and when, ends each source."""
    entries: dict[str, Any] = {"fitted_with": _peaks(gpu)}
    for one in fitted:
        if one.fit.free:
            entries[one.group.name] = {_ANY_ENGINE: _entry(one, made_by)}
    return entries


def _entry(one: FittedGroup, made_by: str) -> dict[str, Any]:
    names = [c.name for c in one.group.form.coefficients]
    entry: dict[str, Any] = {name: float(f"{one.fit.values[name]:.{_DIGITS}g}") for name in names}
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
