"""Reads engine profiles: by the key of one that ships, such as `vllm-0.19`, or a user's own YAML file."""

from __future__ import annotations

from pathlib import Path

from servecast.hardware.catalogue import WANTED, is_path, normalised, user_file
from servecast.hardware.engines.kernel_files import KernelFiles
from servecast.hardware.engines.profile import QUANTISERS, CudaGraphs, Elementwise, EngineProfile, Fusions, HostTimes
from servecast.hardware.errors import ConfigError, did_you_mean
from servecast.hardware.gpus import gpu_key
from servecast.hardware.memory_rules import (
    MemoryRules,
    load_memory_rules,
    memory_rules_keys,
    read_memory_rules,
)
from servecast.hardware.yaml_fields import Fields
from servecast.hardware.yaml_source import read_yaml

DEFAULT_ENGINE = "vllm-0.19"

_FOLDER = Path(__file__).parent
_KERNELS = _FOLDER / "kernels"
_KEYS = (
    "based_on",
    "engine",
    "version",
    "async_scheduling",
    "scheduler_reserve_full_isl",
    "host",
    "elementwise",
    "fusions",
    "graphs",
    "kernels_of",
    "kernels_folder",
    "kernels",
    "memory",
    "sources",
)


def engine_keys() -> list[str]:
    """Keys of all profiles that ship, sorted."""
    return sorted(file.stem for file in _FOLDER.glob("*.yaml"))


def load_engine(key_or_path: str, base_dir: Path | None = None) -> EngineProfile:
    """A profile by key (`vllm-0.19`; case does not matter) or by path.

    A path ends in .yaml or .yml or holds a path separator; it is relative to `base_dir` (default: the working
    directory). Raises ConfigError for an unknown key, a missing file or a wrong field. A user's file may take all that
    it leaves out from a profile that ships (`based_on: vllm-0.19`), and hold coefficients of its own that go before
    those that ship: group by group under `kernels` and the GPU's key, or a file a GPU in a `kernels_folder`, relative
    to itself.
    """
    wanted = normalised(key_or_path)
    if is_path(key_or_path):
        file = user_file(key_or_path, base_dir)
    elif wanted in engine_keys():
        file = _FOLDER / f"{wanted}.yaml"
    else:
        raise ConfigError(f"unknown engine {key_or_path!r}", hint=did_you_mean(wanted, engine_keys()))
    return _profile(file.stem, Fields.of_file(read_yaml(file, WANTED["engine"]), "an engine profile"))


def _profile(key: str, fields: Fields) -> EngineProfile:
    fields.only(_KEYS)
    fields = _with_base(fields)
    engine = fields.text("engine")
    kernels = KernelFiles(_kernel_folders(fields), fields.texts("kernels_of") or (engine,), _own_kernels(fields))
    return EngineProfile(
        key=key,
        engine=engine,
        version=fields.text("version"),
        async_scheduling=fields.flag("async_scheduling"),
        scheduler_reserve_full_isl=fields.flag("scheduler_reserve_full_isl"),
        host=_host(fields.section("host")),
        elementwise=_elementwise(fields.section("elementwise")),
        kernels=kernels,
        default_kernels=kernels.default,
        memory=_memory(fields),
        sources=fields.text_map("sources"),
        fusions=_fusions(fields.section("fusions")) if fields.has("fusions") else Fusions(),
        graphs=_graphs(fields.section("graphs")) if fields.has("graphs") else None,
    )


def _with_base(fields: Fields) -> Fields:
    """`fields`, with those of the shipped profile that `based_on` names where they leave something out."""
    if not fields.has("based_on"):
        return fields
    name = normalised(fields.text("based_on"))
    if name not in engine_keys():
        raise fields.error("based_on", f"unknown engine {name!r}", did_you_mean(name, engine_keys()))
    values = dict(read_yaml(_FOLDER / f"{name}.yaml").data)
    for key, value in fields.values.items():
        whole = not isinstance(value, dict) or not isinstance(values.get(key), dict)
        if value is not None:
            values[key] = value if whole else values[key] | value
    return Fields(fields.source, fields.path, values)


def _own_kernels(fields: Fields) -> dict[str, Fields]:
    """The groups under `kernels`, by GPU key; an alias of the catalogue stands for its GPU."""
    if not fields.has("kernels"):
        return {}
    section = fields.section("kernels")
    return {gpu_key(name): section.section(name) for name in section.values}


def _kernel_folders(fields: Fields) -> list[Path]:
    if not fields.has("kernels_folder"):
        return [_KERNELS]
    folder = fields.source.file.parent / fields.text("kernels_folder")
    if not folder.is_dir():
        raise fields.error("kernels_folder", f"no such folder: {folder}")
    return [folder, _KERNELS]


def _memory(fields: Fields) -> MemoryRules:
    """The rules below `memory`, or those of the shipped file that it names, as engine versions share some."""
    if not isinstance(fields.values.get("memory"), str):
        return read_memory_rules(fields.section("memory"))
    name = fields.text("memory")
    if normalised(name) not in memory_rules_keys():
        raise fields.error("memory", f"unknown rules {name!r}", did_you_mean(name, memory_rules_keys()))
    return load_memory_rules(name)


def _host(fields: Fields) -> HostTimes:
    fields.only(("step_ms", "request_us", "peer_us", "sampling_bytes", "server_ms"))
    return HostTimes(
        step_s=fields.number("step_ms", zero=True) * 1e-3,
        request_s=fields.number("request_us", zero=True) * 1e-6,
        server_s=fields.number("server_ms", zero=True) * 1e-3,
        peer_s=fields.number("peer_us", zero=True) * 1e-6 if fields.has("peer_us") else 0.0,
        sampling_bytes=fields.number("sampling_bytes", zero=True) if fields.has("sampling_bytes") else 0.0,
    )


def _fusions(fields: Fields) -> Fusions:
    """`{quantisation: [norm], all_reduce_norm_mib: {Hopper: {2: 64}}}`"""
    fields.only(("quantisation", "all_reduce_norm_mib"))
    names = fields.texts("quantisation")
    for name in names:
        if name not in QUANTISERS:
            raise fields.error("quantisation", f"unknown kernel {name!r}", did_you_mean(name, QUANTISERS))
    limits = _largest(fields.section("all_reduce_norm_mib")) if fields.has("all_reduce_norm_mib") else {}
    return Fusions(frozenset(names), limits)


def _graphs(fields: Fields) -> CudaGraphs:
    """`{multiples_up_to: {256: 8, 512: 16}, uncaptured_layer_us: 100, eager_layer_us: 250}`"""
    fields.only(("multiples_up_to", "uncaptured_layer_us", "eager_layer_us"))
    sizes = fields.section("multiples_up_to")
    return CudaGraphs(
        steps=tuple((int(largest), int(sizes.number(largest))) for largest in sorted(sizes.values)),
        uncaptured_layer_s=fields.number("uncaptured_layer_us", zero=True) * 1e-6,
        eager_layer_s=fields.number("eager_layer_us", zero=True) * 1e-6,
    )


def _largest(fields: Fields) -> dict[str, dict[int, float]]:
    """Largest message in bytes by generation and number of GPUs."""
    return {
        generation: {gpus: section.number(gpus) * 2**20 for gpus in section.values}
        for generation, section in ((name, fields.section(name)) for name in fields.values)
    }


def _elementwise(fields: Fields) -> Elementwise:
    fields.only(("kernel_us", "e_m"))
    return Elementwise(kernel_s=fields.number("kernel_us", zero=True) * 1e-6, e_m=fields.number("e_m"))
