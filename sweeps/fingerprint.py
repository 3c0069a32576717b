"""What a stored result depends on, as a hash: the settings, the files they name, and the program with its data."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from servecast.configs.scenario import Scenario
from servecast.hardware.errors import ConfigError
from servecast.hardware.yaml_source import read_yaml

# Layers that decide what a simulation gives, and the libraries that it computes and draws random numbers with.
_LAYERS = ("servecast.hardware", "servecast.model", "servecast.configs")
_LIBRARIES = ("servecast", "numpy", "simpy")


@cache
def program_digest() -> str:
    """Hash of the program that simulates: its code, catalogue and coefficients, and the versions of its libraries.

    A price or a coefficient that was changed by hand is another program.
    """
    files = [file for layer in _LAYERS for file in _files_of(Path(str(import_module(layer).__file__)).parent)]
    return _digest([*(f"{name} {version(name)}" for name in _LIBRARIES), *map(_file_digest, files)])


def _files_of(folder: Path) -> Iterator[Path]:
    for file in sorted(folder.rglob("*")):
        example = file.suffix == ".yaml" and file.parent.name == "configs"
        if file.suffix in (".py", ".yaml", ".csv") and not example:
            yield file


def content_key(content: Mapping[str, Any], files: Iterable[Path] = ()) -> str:
    """Key of work that depends on `content` (plain data), the bytes of `files` and the program."""
    plain = json.dumps(content, sort_keys=True, allow_nan=False)
    return _digest([program_digest(), plain, *map(_file_digest, files)])


def scenario_key(scenario: Scenario) -> str:
    """Key of the result of `scenario`. Its name does not count: it is only a title."""
    settings = {key: value for key, value in scenario.effective().items() if key != "name"}
    return content_key(settings, scenario_files(scenario))


def scenario_files(scenario: Scenario) -> list[Path]:
    """Every file outside the program that the result of `scenario` depends on."""
    named = scenario.files()
    files = set(named.values())
    if "model" in named:
        folder = named["model"] if named["model"].is_dir() else named["model"].parent
        files |= {folder / "config.json", folder / "hf_quant_config.json"}
    if "engine" in named:
        files |= set(_kernel_files(named["engine"]))
    files |= set(_policy_file(scenario.scheduler.policy))
    return sorted(file for file in files if file.is_file())


def _kernel_files(engine: Path) -> list[Path]:
    """Kernel coefficients of the user's own, which an engine profile of theirs names."""
    try:
        fields = read_yaml(engine).data
    except ConfigError:
        # The simulation will say what is wrong with it.
        return []
    folder = fields.get("kernels_folder") if isinstance(fields, dict) else None
    return list((engine.parent / folder).rglob("*.yaml")) if isinstance(folder, str) else []


def _policy_file(policy: str) -> list[Path]:
    """The module of a policy of the user's own, `package.module:Class`."""
    if ":" not in policy:
        return []
    try:
        found = importlib.util.find_spec(policy.split(":")[0])
    except (ImportError, ValueError):
        return []
    return [] if found is None or found.origin is None else [Path(found.origin)]


def _file_digest(file: Path) -> str:
    return _digest_of_bytes(file, file.stat().st_mtime_ns)


@cache
def _digest_of_bytes(file: Path, _changed_ns: int) -> str:
    """Kept, as the points of a sweep name the same files."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
