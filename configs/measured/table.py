"""Tables with one measured run a row, as CSV. Columns are known by any of several names, see COLUMNS.

A row without usable numbers becomes a run with a `problem`, so that it is counted and shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servecast.configs.measured.run import MeasuredRun, positive
from servecast.configs.measured.words import engine_profile, precision_settings, without_remark
from servecast.hardware.errors import ConfigError

# What is read -> the names that its column may have, in lower case.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "gpu": ("gpu", "gpu_sku", "system"),
    "engine": ("engine", "backend"),
    "version": ("engine_version", "backend_version", "version"),
    "model": ("model", "model_path", "model_id"),
    "precision": ("precision", "dtype"),
    "input": ("input_len", "isl", "random_input_len"),
    "output": ("output_len", "osl", "random_output_len"),
    "tp": ("tp", "tp_size", "tensor_parallel_size"),
    "pp": ("pp", "pp_size", "pipeline_parallel_size"),
    "replicas": ("replicas",),
    "mode": ("mode",),
    "concurrency": ("concurrency", "max_concurrency"),
    "request_rate": ("request_rate",),
    "batch_size": ("batch_size",),
    "requests": ("n_requests", "num_prompts", "num_requests"),
    "max_num_batched_tokens": ("max_num_batched_tokens",),
    "max_num_seqs": ("max_num_seqs",),
    "max_model_len": ("max_model_len",),
    "kv_tokens": ("kv_tokens",),
}
# Figure (METRICS) -> names of its column.
FIGURES: Mapping[str, tuple[str, ...]] = {
    "tpot": ("measured_tpot_ms", "tpot_mean_ms", "mean_tpot_ms"),
    "ttft": ("measured_ttft_ms", "ttft_mean_ms", "mean_ttft_ms"),
    "throughput": ("out_tok_per_s", "output_throughput"),
    "requests": ("req_per_s", "request_throughput"),
    "e2el": ("e2e_mean_ms", "mean_e2el_ms"),
    "tpot_p99": ("tpot_p99_ms", "p99_tpot_ms"),
    "ttft_p50": ("ttft_p50_ms", "p50_ttft_ms", "median_ttft_ms"),
    "ttft_p90": ("ttft_p90_ms", "p90_ttft_ms"),
    "ttft_p99": ("ttft_p99_ms", "p99_ttft_ms"),
    "e2el_p99": ("e2e_p99_ms", "p99_e2el_ms"),
}
# Requests of a closed loop whose number is not stated: so many for each client.
REQUESTS_PER_CLIENT = 10
_BLOCK_TOKENS = 16
_BURSTINESS = re.compile(r"burstiness\s+([\d.]+)")


def is_table(names: Sequence[str]) -> bool:
    """Whether a header is that of such a table: it has lengths and a figure."""
    known = {name.lower() for name in names}
    return all(known & set(COLUMNS[key]) for key in ("input", "output")) and any(
        known & set(columns) for columns in FIGURES.values()
    )


def table_run(cells: Mapping[str, str], file: Path, line: int) -> MeasuredRun:
    """The run of one row. cells: column -> text, empty where there is nothing."""
    row = _Row({name.lower(): text for name, text in cells.items()})
    place = f"{file}:{line}"
    words = {**row.cells, "file": file.name, "line": str(line)}
    try:
        return MeasuredRun(place, _settings(row), _figures(row), words)
    except ConfigError as error:
        return MeasuredRun(place, {}, {}, words, problem=str(error))


@dataclass(frozen=True)
class _Row:
    """cells: lower-case column -> text. Methods take keys of COLUMNS and raise ConfigError without file and line."""

    cells: Mapping[str, str]

    def column(self, key: str) -> str | None:
        """The column that holds `key` here, if one does and is not empty."""
        return next((name for name in COLUMNS[key] if self.cells.get(name)), None)

    def text(self, key: str) -> str:
        column = self.column(key)
        return "" if column is None else self.cells[column]

    def number(self, key: str) -> float:
        return positive(self.text(key), self.column(key) or COLUMNS[key][0])

    def count(self, key: str, default: int | None = None) -> int:
        """As a whole number, 1 or more; tables state mean lengths too."""
        if default is not None and self.column(key) is None:
            return default
        return max(1, round(self.number(key)))


def _settings(row: _Row) -> dict[str, Any]:
    replica: dict[str, Any] = {
        "tensor_parallel_size": row.count("tp", 1),
        "pipeline_parallel_size": row.count("pp", 1),
        **precision_settings(row.text("precision")),
    }
    if row.column("kv_tokens"):
        replica["kv_pool_blocks"] = row.count("kv_tokens") // _BLOCK_TOKENS
    if row.column("max_model_len"):
        replica["max_model_len"] = row.count("max_model_len")
    settings: dict[str, Any] = {
        "replica": replica,
        "scheduler": _scheduler(row),
        "fleet": {"replicas": row.count("replicas", 1)},
        "workload": {**_load(row), "lengths": _lengths(row)},
    }
    named = {"model": row.text("model"), "gpu": without_remark(row.text("gpu")), "engine": _engine(row)}
    return {key: value for key, value in named.items() if value} | settings


def _engine(row: _Row) -> str | None:
    return engine_profile(row.text("engine"), row.text("version")) if row.column("engine") else None


def _scheduler(row: _Row) -> dict[str, int]:
    keys = ("max_num_batched_tokens", "max_num_seqs")
    return {key: row.count(key) for key in keys if row.column(key)}


def _lengths(row: _Row) -> dict[str, Any]:
    return {
        name: {"distribution": "fixed", "value": row.count(key)}
        for name, key in (("prompt", "input"), ("output", "output"))
    }


def _load(row: _Row) -> dict[str, Any]:
    """How requests arrive, and how many: by the column `mode`, else by which of the columns is there."""
    mode = row.text("mode").lower() or _mode(row)
    if mode.startswith("closed"):
        clients = row.count("concurrency")
        count = row.count("requests", REQUESTS_PER_CLIENT * clients)
        return {"num_requests": count, "arrivals": {"process": "closed_loop", "concurrency": clients}}
    if mode.startswith("offline"):
        key = "batch_size" if row.column("batch_size") else "requests"
        return {"num_requests": row.count(key), "arrivals": {"process": "batch"}}
    if mode.startswith("open"):
        return {"num_requests": row.count("requests"), "arrivals": _open_loop(row, mode)}
    raise ConfigError(f"must begin with open, closed or offline, found {mode!r}", key="mode")


def _mode(row: _Row) -> str:
    for key, mode in (("request_rate", "open poisson"), ("batch_size", "offline"), ("concurrency", "closed")):
        if row.column(key):
            return mode
    raise ConfigError("is missing: a run needs concurrency, request_rate or batch_size", key="concurrency")


def _open_loop(row: _Row, mode: str) -> dict[str, Any]:
    rate = row.number("request_rate")
    if "constant" in mode:
        return {"process": "constant", "request_rate": rate}
    if burstiness := _BURSTINESS.search(mode):
        return {"process": "gamma", "request_rate": rate, "burstiness": float(burstiness.group(1))}
    if "poisson" in mode:
        return {"process": "poisson", "request_rate": rate}
    raise ConfigError(f"must be open poisson, open constant or open gamma burstiness N, found {mode!r}", key="mode")


def _figures(row: _Row) -> dict[str, float]:
    found = {}
    for figure, columns in FIGURES.items():
        column = next((name for name in columns if row.cells.get(name)), None)
        if column is not None:
            found[figure] = positive(row.cells[column], column)
    if not found:
        raise ConfigError(f"no measured figure: none of {', '.join(names[0] for names in FIGURES.values())}")
    return found
