"""The model catalogue: `model/llms/<key>.yaml`, and the user's own config.json or YAML file by path."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import servecast.model.llms
from servecast.configs.hf_config import read_architecture
from servecast.configs.hf_config_fields import ConfigFields
from servecast.configs.hf_config_file import read_config_file
from servecast.configs.model_names import spellings, split_weights
from servecast.hardware.catalogue import normalised, user_file
from servecast.hardware.errors import ConfigError, did_you_mean
from servecast.hardware.yaml_fields import Fields
from servecast.hardware.yaml_source import read_yaml
from servecast.model.architecture import Architecture, Quantization, VisionEncoder

_FOLDER = Path(servecast.model.llms.__path__[0])
_FILE_ENDINGS = (".json", ".yaml", ".yml")
_CONFIG_FILE = "config.json"
_KEYS = (
    *("name", "published_parameters_b", "published_note", "source", "aliases", "notes"),
    *("rotary_rows", "unquantised", "vision", "config"),
)
_PARTS = ("attention", "mlp", "experts", "shared_experts")


@dataclass(frozen=True)
class ModelEntry:
    """What the catalogue says of a model besides its shapes.

    published_parameters_b: billions, as the makers state; published_note: why the fields give another number.
    """

    key: str
    name: str
    published_parameters_b: float
    published_note: str
    source: str
    notes: str


def model_keys() -> list[str]:
    """Keys of the catalogue, sorted."""
    return sorted(file.stem for file in _FOLDER.glob("*.yaml"))


def model_entry(key: str) -> ModelEntry:
    """What the catalogue says of `key`, or of another name of the model. Raises ConfigError for an unknown one."""
    found, _ = _resolved(key)
    if found is None:
        raise _unknown(key)
    return _entry(_fields_of(_FOLDER / f"{found}.yaml"), found)


def load_architecture(key_or_path: str, base_dir: Path | None = None) -> Architecture:
    """A model of the catalogue by key, alias or Hugging Face name, or a user's file by path.

    Case does not matter, nor do an organisation before the name and words such as `Instruct` in it; an ending such as
    `-FP8-dynamic` stands for quantised weights. A path ends in .json, .yaml or .yml, or is a file, or a folder with a
    config.json; it is relative to `base_dir` (default: the working directory). Raises ConfigError for an unknown name,
    a missing file or a wrong field.
    """
    path = _path_of(key_or_path, base_dir)
    if path is not None:
        return _read_path(path)
    key, dtype = _resolved(key_or_path)
    if key is not None:
        architecture = _read_entry(_FOLDER / f"{key}.yaml")
        return architecture if dtype is None else _quantised(architecture, dtype, key_or_path)
    path = user_file(key_or_path, base_dir)
    if key_or_path.strip() and path.exists():
        return _read_path(path)
    raise _unknown(key_or_path)


def _path_of(name: str, base_dir: Path | None) -> Path | None:
    """`name` as a path if it looks like one; `organisation/model` only does if there is such a file or folder."""
    path = user_file(name, base_dir)
    if name.lower().endswith(_FILE_ENDINGS) or name.startswith((".", "~", "/")):
        return path
    has_separator = "/" in name or os.sep in name
    return path if has_separator and (path.exists() or name.count("/") != 1) else None


def _read_path(path: Path) -> Architecture:
    if path.is_dir():
        path = path / _CONFIG_FILE
        if not path.is_file():
            raise ConfigError(f"the folder holds no {_CONFIG_FILE}", file=path.parent)
    if path.suffix.lower() in (".yaml", ".yml"):
        return _read_entry(path)
    name = _checkpoint_name(path)
    return replace(read_architecture(read_config_file(path), normalised(name), name), source=str(path))


def _checkpoint_name(path: Path) -> str:
    """A config.json is named by its folder, which in Hugging Face's cache is a hash below the checkpoint's own."""
    if path.name != _CONFIG_FILE:
        return path.stem
    folder = path.absolute().parent
    if folder.parent.name == "snapshots":
        folder = folder.parent.parent
    return folder.name.rpartition("--")[2]


def _read_entry(file: Path) -> Architecture:
    """A file of the catalogue's form, or one of the user's that has the fields of a config.json at its top."""
    fields = _fields_of(file)
    if not fields.has("config"):
        return read_architecture(_config_fields(fields), normalised(file.stem), file.stem)
    fields.only(_KEYS)
    entry = _entry(fields, file.stem)
    unquantised = _unquantised(fields)
    config = fields.section("config")
    if fields.has("vision"):
        # the entry's own figures stand in for the estimate from vision_config
        config = replace(config, values={**config.values, "vision_config": None})
    architecture = read_architecture(_config_fields(config), entry.key, entry.name)
    return replace(
        architecture,
        rotary_rows=fields.count("rotary_rows") if fields.has("rotary_rows") else architecture.rotary_rows,
        vision=_vision(fields.section("vision")) if fields.has("vision") else architecture.vision,
        unquantised=unquantised,
        published_parameters_b=entry.published_parameters_b or None,
        source=entry.source,
        notes=(*filter(None, (entry.notes, entry.published_note)), *architecture.notes),
    )


def _fields_of(file: Path) -> Fields:
    return Fields.of_file(read_yaml(file), "a model")


def _config_fields(fields: Fields) -> ConfigFields:
    return ConfigFields(fields.source.file, fields.path, fields.values, fields.source.line)


def _entry(fields: Fields, key: str) -> ModelEntry:
    return ModelEntry(
        key=normalised(key),
        name=fields.text("name", key),
        published_parameters_b=fields.number("published_parameters_b") if fields.has("published_parameters_b") else 0.0,
        published_note=fields.text("published_note", ""),
        source=fields.text("source", ""),
        notes=" ".join(fields.texts("notes"))
        if isinstance(fields.values.get("notes"), list)
        else fields.text("notes", ""),
    )


def _vision(fields: Fields) -> VisionEncoder:
    fields.only(("parameters", "item_tokens", "item_values", "table_bytes"))
    return VisionEncoder(
        parameters=fields.count("parameters"),
        item_tokens=fields.count("item_tokens"),
        item_values=fields.count("item_values"),
        table_bytes=fields.count("table_bytes") if fields.has("table_bytes") else 0,
    )


def _unquantised(fields: Fields) -> frozenset[str]:
    parts = fields.texts("unquantised")
    for part in parts:
        if part not in _PARTS:
            raise fields.error("unquantised", f"unknown part {part!r}", did_you_mean(part, _PARTS))
    return frozenset(parts)


def _resolved(name: str) -> tuple[str | None, str | None]:
    """The catalogue's key for `name`, and the weights dtype if the name has one that the entry's does not."""
    key = _catalogue_key(name)
    if key is not None:
        return key, None
    base, dtype = split_weights(name)
    return (None, None) if dtype is None else (_catalogue_key(base), dtype)


def _quantised(architecture: Architecture, dtype: str, name: str) -> Architecture:
    """The checkpoint `name`, of which only the name is known; `architecture` is that of its 16-bit original."""
    own = architecture.quantization
    if own is not None and own.dtype == dtype:
        return architecture
    note = f"weights in {dtype}, by the name {name}; embeddings and head in 16 bit"
    quantization = Quantization(dtype, ignored=architecture.unquantised)
    return replace(architecture, quantization=quantization, notes=(*architecture.notes, note))


def _catalogue_key(name: str) -> str | None:
    """The key that `name` stands for, None if the catalogue has no such model."""
    names = list(spellings(name))
    for spelling in names:
        if (_FOLDER / f"{spelling}.yaml").is_file():
            return spelling
    return _key_of_alias(names)


def _key_of_alias(names: list[str]) -> str | None:
    for key in model_keys():
        file = _FOLDER / f"{key}.yaml"
        # parsing every file would cost more than all else at start-up; few hold the words at all
        text = normalised(file.read_text(encoding="utf-8"))
        if any(name in text for name in names):
            aliases = _fields_of(file).texts("aliases")
            if any(spelling in names for alias in aliases for spelling in spellings(alias)):
                return key
    return None


def _unknown(name: str) -> ConfigError:
    *_, plain = spellings(name)
    hint = f"{did_you_mean(plain, model_keys())}; or the path of a config.json"
    return ConfigError(f"unknown model {name!r}", hint=hint)
