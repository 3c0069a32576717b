"""Reads a Hugging Face config.json as people have it: with a byte order mark, half downloaded, or broken by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from servecast.configs.hf_config_fields import ConfigFields
from servecast.hardware.catalogue import WANTED
from servecast.hardware.errors import ConfigError
from servecast.hardware.yaml_source import KeyPath, parse_yaml

# ModelOpt checkpoints keep what other tools write under `quantization_config` in a file of its own.
_MODELOPT_FILE = "hf_quant_config.json"


def read_config_file(file: Path) -> ConfigFields:
    """The fields of `file`. Raises ConfigError, with line and column, if it is missing, not JSON or no mapping."""
    text = _read_text(file)
    data = _parse_json(text, file)
    if not isinstance(data, dict):
        raise ConfigError("must hold the fields of a model, { ... }", file=file)
    beside = file.with_name(_MODELOPT_FILE)
    if "quantization_config" not in data and beside.is_file():
        data["quantization_config"] = _parse_json(_read_text(beside), beside)
    return ConfigFields(file, (), data, lambda path: _line(text, file, path), [])


def _read_text(file: Path) -> str:
    try:
        content = file.read_bytes()
        return content.decode(json.detect_encoding(content))
    except FileNotFoundError:
        raise ConfigError("no such file", file=file, hint=WANTED["model"]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", file=file) from None


def _parse_json(text: str, file: Path) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        problem, position = error.msg[:1].lower() + error.msg[1:], error.pos
        if not text.strip():
            problem = "the file is empty"
        elif text.startswith("version https://git-lfs"):
            raise ConfigError("is a Git LFS pointer, not the file it stands for", file=file) from None
        elif comma := re.search(r",\s*$", text[:position]):
            # Newer Pythons point at the comma, older ones at the bracket after it.
            problem, position = "comma without an entry after it", comma.start()
        elif re.match(r",\s*[}\]]", text[position:]):
            problem = "comma without an entry after it"
        line = text.count("\n", 0, position) + 1
        column = position - text.rfind("\n", 0, position)
        raise ConfigError(f"broken JSON, column {column}: {problem}", file=file, line=line) from None
    except RecursionError:
        raise ConfigError("broken JSON: far too deep nesting", file=file) from None
    except ValueError as error:
        # An integer of thousands of digits.
        raise ConfigError(f"broken JSON: {error}", file=file) from None


def _line(text: str, file: Path, path: KeyPath) -> int | None:
    """Line of a key. Found only when a message needs it: the YAML reader, which takes JSON too, counts lines."""
    try:
        return parse_yaml(text, file).line(path)
    except ConfigError:
        return None
