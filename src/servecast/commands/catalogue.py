"""`servecast gpus`, `models`, `engines` and `schema`: what is there, and everything about one entry."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from servecast.configs.architectures import load_architecture, model_entry, model_keys
from servecast.hardware.engines import DEFAULT_ENGINE, EngineProfile, engine_keys, load_engine
from servecast.hardware.gpus import Gpu, gpu_keys, load_gpu
from servecast.model.architecture import Architecture
from servecast.model.kv_cache import bytes_per_token
from servecast.model.parameters import count_parameters


def show_gpus(key: str | None, *, as_json: bool) -> None:
    """Print the catalogue, or `key` with the source of every figure."""
    gpus = [load_gpu(each) for each in gpu_keys()] if key is None else [load_gpu(key)]
    if as_json:
        _print_json([_plain(gpu) for gpu in gpus], key)
    elif key is None:
        _print_table(gpus, _GPU_COLUMNS)
    else:
        _print_entry(_gpu_figures(gpus[0]), gpus[0].sources)


def show_models(key: str | None, *, as_json: bool) -> None:
    """Print the catalogue, or what is known of `key` (a key or the path of a config.json)."""
    models = [load_architecture(each) for each in model_keys()] if key is None else [load_architecture(key)]
    if as_json:
        _print_json([_model_figures(model) for model in models], key)
    elif key is None:
        _print_table(models, _MODEL_COLUMNS)
    else:
        _print_entry(_model_figures(models[0]), _model_sources(models[0]))


def show_engines(key: str | None, *, as_json: bool) -> None:
    """Print the profiles, or `key` with where its numbers are from."""
    engines = [load_engine(each) for each in engine_keys()] if key is None else [load_engine(key)]
    if as_json:
        _print_json([_engine_figures(engine) for engine in engines], key)
    elif key is None:
        _print_table(engines, _ENGINE_COLUMNS)
    else:
        _print_entry(_engine_figures(engines[0]), engines[0].sources)


def print_schema() -> None:
    """Print the JSON schema of scenario files."""
    from servecast.configs.scenario import scenario_json_schema

    print(json.dumps(scenario_json_schema(), indent=2))


def print_sweep_schema() -> None:
    """Print the JSON schema of sweep files."""
    from servecast.sweeps.sweep_file import sweep_json_schema

    print(json.dumps(sweep_json_schema(), indent=2))


_WIDE = 200

# Column title -> text of a cell, and whether it is a number.
Columns = Mapping[str, tuple[Any, bool]]

_GPU_COLUMNS: Columns = {
    "key": (lambda gpu: gpu.key, False),
    "GiB": (lambda gpu: f"{gpu.memory_usable_gib:.1f}", True),
    "GB/s": (lambda gpu: f"{gpu.memory_bytes_per_s / 1e9:,.0f}", True),
    "16-bit TFLOP/s": (lambda gpu: _tflops(gpu, "16bit"), True),
    "FP8": (lambda gpu: _tflops(gpu, "fp8"), True),
    "FP4": (lambda gpu: _tflops(gpu, "fp4"), True),
    "link GB/s": (lambda gpu: "PCIe" if gpu.link is None else f"{gpu.link.bytes_per_s / 1e9:,.0f}", True),
    "W": (lambda gpu: f"{gpu.tdp_w:,.0f}", True),
    "year": (lambda gpu: str(gpu.year), True),
    "calibration": (lambda gpu: load_engine(DEFAULT_ENGINE).kernels_for(gpu.key).calibration, False),
}
_MODEL_COLUMNS: Columns = {
    "key": (lambda model: model.key, False),
    "parameters (B)": (lambda model: f"{count_parameters(model).total / 1e9:,.2f}", True),
    "active (B)": (lambda model: f"{count_parameters(model).active / 1e9:,.2f}", True),
    "layers": (lambda model: str(model.num_layers), True),
    "hidden": (lambda model: f"{model.hidden_size:,}", True),
    "context": (lambda model: f"{model.max_model_len:,}", True),
    "KV bytes/token": (lambda model: f"{bytes_per_token(model):,}", True),
}
_ENGINE_COLUMNS: Columns = {
    "key": (lambda engine: engine.key, False),
    "scheduling": (lambda engine: "asynchronous" if engine.async_scheduling else "synchronous", False),
    "host ms/step": (lambda engine: f"{engine.host.step_s * 1e3:g}", True),
    "host us/request": (lambda engine: f"{engine.host.request_s * 1e6:g}", True),
    "server ms/request": (lambda engine: f"{engine.host.server_s * 1e3:g}", True),
    "measured GPUs": (lambda engine: str(len(_measured(engine))), True),
}


def _tflops(gpu: Gpu, kind: str) -> str:
    return f"{gpu.peak_flops[kind] / 1e12:,.0f}" if kind in gpu.peak_flops else "-"


def _measured(engine: EngineProfile) -> list[str]:
    return [key for key in engine.kernels if engine.kernels_for(key).calibration == "measured"]


def _gpu_figures(gpu: Gpu) -> dict[str, Any]:
    figures: dict[str, Any] = _plain(gpu)
    del figures["sources"]
    return figures | {"calibration": {key: load_engine(key).kernels_for(gpu.key).calibration for key in engine_keys()}}


def _model_figures(model: Architecture) -> dict[str, Any]:
    counts = count_parameters(model)
    return {
        "key": model.key,
        "name": model.name,
        "parameters": counts.total,
        "active_parameters": counts.active,
        "parameters_by_part": {name: n for name, n in dataclasses.asdict(counts).items() if n},
        "num_layers": model.num_layers,
        "hidden_size": model.hidden_size,
        "vocab_size": model.vocab_size,
        "tied_embeddings": model.tied_embeddings,
        "max_model_len": model.max_model_len,
        "kv_bytes_per_token": bytes_per_token(model),
        "layers": [f"{count} x {layer}" for layer, count in model.layer_groups],
    }


def _model_sources(model: Architecture) -> dict[str, str]:
    if model.key not in model_keys():
        return {}
    entry = model_entry(model.key)
    sources = {"config": entry.source, "notes": entry.notes, "parameters": entry.published_note}
    return {name: text for name, text in sources.items() if text}


def _engine_figures(engine: EngineProfile) -> dict[str, Any]:
    memory = _plain(engine.memory)
    del memory["sources"]
    return {
        "key": engine.key,
        "engine": engine.engine,
        "version": engine.version,
        "async_scheduling": engine.async_scheduling,
        "host": _plain(engine.host),
        "elementwise": _plain(engine.elementwise),
        "memory": memory,
        "kernels": {key: engine.kernels_for(key).calibration for key in engine.kernels},
    }


def _plain(value: Any) -> Any:
    """Dataclasses and mappings as plain data for JSON."""
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(inner) for inner in value]
    return value


def _print_json(entries: Sequence[Any], key: str | None) -> None:
    print(json.dumps(list(entries) if key is None else entries[0], indent=2))


def _print_table(entries: Iterable[Any], columns: Columns) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title, (_, is_number) in columns.items():
        table.add_column(title, justify="right" if is_number else "left", no_wrap=title == "key")
    for entry in entries:
        table.add_row(*(text(entry) for text, _ in columns.values()))
    console = Console(highlight=False)
    # Into a file or a pipe a table is as wide as it is.
    (console if console.is_terminal else Console(highlight=False, width=_WIDE)).print(table)


def _print_entry(figures: Mapping[str, Any], sources: Mapping[str, str]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for name, value in figures.items():
        console.print(f"{name}: {_one_line(value)}")
    for field, source in sources.items():
        console.print(f"source of {field}: {source}", style="dim")


def _one_line(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_one_line(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(_one_line(inner) for inner in value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) and value >= 10_000 else str(value)
