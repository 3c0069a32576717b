"""Reads scenario files. Whatever is wrong with one ends as a ConfigError with file, line, key and value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from servecast.configs.fields import describe
from servecast.configs.messages import config_error
from servecast.configs.origin import Origin
from servecast.configs.overrides import apply_overrides
from servecast.configs.scenario import Scenario
from servecast.hardware.errors import ConfigError
from servecast.hardware.yaml_source import read_yaml


def load_scenario(path: Path | str, overrides: Sequence[str] = ()) -> Scenario:
    """Read the scenario file `path`, with `overrides` (`dotted.key=value`, see `apply_overrides`) on top.

    Raises ConfigError.
    """
    if not isinstance(path, (str, Path)):
        raise ConfigError(f"load_scenario needs the path of a scenario file, found {describe(path)}")
    listed = isinstance(overrides, Sequence) and not isinstance(overrides, str)
    if not (listed and all(isinstance(text, str) for text in overrides)):
        raise ConfigError(f"overrides must be a list of texts, such as ['seed=1'], found {describe(overrides)}")
    data, origin = read_scenario(Path(path))
    return scenario_from(data, overrides, origin)


def read_scenario(path: Path) -> tuple[dict[str, Any], Origin]:
    """The content of the scenario file `path`, not yet validated, and where it is from. Raises ConfigError."""
    source = read_yaml(path, "Give the path of a scenario file (YAML)")
    if source.data is None:
        raise ConfigError("is empty", file=source.file, hint="A scenario needs model, gpu and workload")
    if not isinstance(source.data, dict):
        problem = f"must hold a section with keys, found {describe(source.data)}"
        raise ConfigError(problem, file=source.file, line=1, hint="A scenario needs model, gpu and workload")
    if "scenario" in source.data and "workload" not in source.data:
        raise ConfigError("is no scenario but a file about one", file=source.file, hint="servecast sweep runs sweeps")
    return {"name": source.file.stem, **source.data}, Origin(source.file, source.lines)


def scenario_from(data: Mapping[str, Any], overrides: Sequence[str] = (), origin: Origin | None = None) -> Scenario:
    """The scenario that `data`, the content of a scenario file, describes; `data` is not changed.

    origin: where `data` is from, for messages. Raises ConfigError.
    """
    if not isinstance(data, Mapping):
        raise ConfigError(f"a scenario must be a mapping with keys, found {describe(data)}")
    known = origin or Origin()
    settings, applied = apply_overrides(data, overrides)
    return validated(settings, Origin(known.file, known.lines, {**known.overrides, **applied}))


def validated(settings: Mapping[str, Any], origin: Origin) -> Scenario:
    """The scenario with these `settings`, from `origin`. Raises ConfigError with the place of what is wrong."""
    try:
        return Scenario.model_validate(settings).at(origin)
    except ValidationError as error:
        raise config_error(error, Scenario, origin) from None
