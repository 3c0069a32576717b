"""Workload profiles: prompt and output lengths of public traces and of common benchmark settings.

A profile says nothing of arrivals. A file of your own works wherever a name does; its keys are

    title, source, licence: words      requests: how many were measured (optional)
    rank_correlation: Spearman's, between prompt and output (0 if absent)
    prompt, output: {distribution: fixed, value} | {distribution: uniform, low, high}
                    | {distribution: lognormal, mean, cv, min, max}
                    | {distribution: histogram, probabilities: [0, ..., 1], tokens: [...]}

`benchmarks/make_length_profiles.py` makes one from a trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servecast.hardware.errors import ConfigError, did_you_mean
from servecast.hardware.yaml_source import YamlSource, read_yaml
from servecast.model.lengths import (
    FixedLength,
    HistogramLength,
    JointLengths,
    LengthDistribution,
    LognormalLength,
    UniformLength,
)

FOLDER = Path(__file__).parent / "profiles"
DISTRIBUTIONS: Mapping[str, type[LengthDistribution]] = {
    "fixed": FixedLength,
    "uniform": UniformLength,
    "lognormal": LognormalLength,
    "histogram": HistogramLength,
}
WORDS = ("title", "source", "licence")


@dataclass(frozen=True)
class LengthProfile:
    """A profile with its origin. requests: how many requests were measured, None for a made-up one."""

    name: str
    title: str
    source: str
    licence: str
    lengths: JointLengths
    requests: int | None = None


def profile_names() -> tuple[str, ...]:
    """Names of the built-in profiles, sorted."""
    return tuple(sorted(file.stem for file in FOLDER.glob("*.yaml")))


def load_length_profile(name: str | Path) -> JointLengths:
    """The lengths of a built-in profile, or of a YAML file. Raises ConfigError if it is missing or wrong."""
    return read_length_profile(name).lengths


def read_length_profile(name: str | Path) -> LengthProfile:
    """As `load_length_profile`, with title, source and licence."""
    if isinstance(name, Path) or name.endswith((".yaml", ".yml")):
        file = Path(name)
    elif name in profile_names():
        file = FOLDER / f"{name}.yaml"
    else:
        hint = did_you_mean(name, profile_names())
        raise ConfigError(f"unknown workload profile {name!r}", key="profile", hint=hint)
    source = read_yaml(file)
    _check_keys(source)
    data = source.data
    prompt, output = _distribution(source, "prompt"), _distribution(source, "output")
    try:
        lengths = JointLengths(prompt, output, data.get("rank_correlation", 0.0))
    except ConfigError as error:
        raise _wrong(source, ("rank_correlation",), error.problem) from None
    title, origin, licence = (str(data.get(word, "not stated")) for word in WORDS)
    return LengthProfile(file.stem, title, origin, licence, lengths, data.get("requests"))


def _wrong(source: YamlSource, place: tuple[str, ...], problem: str, hint: str | None = None) -> ConfigError:
    """The error that names file, line and key path of `place`."""
    return ConfigError(problem, file=source.file, line=source.line(place), key=".".join(place), hint=hint)


def _check_keys(source: YamlSource) -> None:
    allowed = (*WORDS, "requests", "rank_correlation", "prompt", "output")
    if not isinstance(source.data, dict):
        raise ConfigError("a profile must be a mapping", file=source.file, hint=f"Keys: {', '.join(allowed)}")
    for key in map(str, source.data):
        if key not in allowed:
            raise _wrong(source, (key,), "unknown key", did_you_mean(key, allowed))
    for key in ("rank_correlation", "requests"):
        value = source.data.get(key, 0)
        if not _is_number(value):
            raise _wrong(source, (key,), f"must be a number, found {value!r}")


def _distribution(source: YamlSource, column: str) -> LengthDistribution:
    section = source.data.get(column)
    if not isinstance(section, dict):
        raise _wrong(source, (column,), "needs a mapping with the key distribution")
    fields = {str(key): value for key, value in section.items()}
    kind = fields.pop("distribution", None)
    if kind not in DISTRIBUTIONS:
        hint = did_you_mean(str(kind), DISTRIBUTIONS)
        raise _wrong(source, (column, "distribution"), f"unknown distribution {kind!r}", hint)
    try:
        return DISTRIBUTIONS[kind](**{key: _plain(value) for key, value in fields.items()})
    except ConfigError as error:
        raise _wrong(source, (column, error.key or ""), error.problem) from None
    except TypeError as error:
        raise _wrong(source, (column,), f"does not fit distribution {kind}: {_reason(error)}") from None


def _plain(value: Any) -> Any:
    """Lists as tuples of numbers, which the parameter classes hold; TypeError for anything but numbers."""
    if value is None or _is_number(value):
        return value
    if isinstance(value, list) and all(map(_is_number, value)):
        return tuple(value)
    raise TypeError(f"{value!r} is not a number")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _reason(error: TypeError) -> str:
    return str(error).partition("__init__() ")[2] or str(error)
