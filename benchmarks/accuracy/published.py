"""Measured runs that are published as lists in JSON rather than as a table: read for serving.py.

bench_outputs.json: results that people posted, each with its source; those with all that a simulation needs are taken.
U01_splitwise_a100_h100.json: static batches of an eager engine of 2023 on A100 and H100 (MIT); only the ratio of the
two GPUs means something today.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from servecast.configs.measured import MeasuredRun
from servecast.configs.measured.table import table_run

Cells = dict[str, str]

# One client at a time, (prompt, output) -> (TTFT, TPOT); GPU, tensor parallel size and number format are in the text.
_SINGLE = {
    "B09": {"gpu": "h100-sxm", "tp": "2"},
    "B10": {"gpu": "a100-80gb-sxm", "tp": "1"},
    "B11": {"gpu": "a100-80gb-sxm", "tp": "1"},
    "B12": {"gpu": "h100-sxm", "tp": "8", "precision": "awq", "model": "deepseek-r1"},
}
# A rate of Poisson arrivals in the id, 200 tokens in and out.
_OPEN = {"B05-a10-": "a10", "B05-a100-": "a100-80gb-sxm"}
_SPLITWISE = {"a100-80gb": "a100-80gb-sxm", "h100-80gb": "h100-sxm"}
# Of mid 2025 or not stated: the oldest profile.
_ENGINE = "vllm-0.10"


def published_runs(folder: Path) -> list[MeasuredRun]:
    """All runs of the two files in `folder`."""
    bench, splitwise = folder / "bench_outputs.json", folder / "U01_splitwise_a100_h100.json"
    runs = [table_run(cells, bench, number) for number, cells in enumerate(_bench(_read(bench)), start=1)]
    runs += [table_run(cells, splitwise, number) for number, cells in enumerate(_static(_read(splitwise)), start=1)]
    return runs


def _read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def _bench(entries: list[Mapping[str, Any]]) -> Iterator[Cells]:
    for entry in entries:
        if entry["id"] in _SINGLE:
            yield from _single(entry)
        prefix = next((prefix for prefix in _OPEN if entry["id"].startswith(prefix)), None)
        if prefix is not None:
            yield _open(entry, prefix)


def _single(entry: Mapping[str, Any]) -> Iterator[Cells]:
    for prompt, output, ttft, tpot in entry["rows"]:
        figures = {"ttft_mean_ms": str(ttft), "tpot_mean_ms": str(tpot)}
        lengths = {"input_len": str(prompt), "output_len": str(output), "concurrency": "1"}
        common = {"source": entry["id"], "engine": _ENGINE, "model": entry["model"]}
        yield common | lengths | figures | _SINGLE[entry["id"]]


def _open(entry: Mapping[str, Any], prefix: str) -> Cells:
    return {
        "source": prefix.rstrip("-"),
        "engine": _ENGINE,
        "gpu": _OPEN[prefix],
        "model": entry["model"],
        "input_len": "200",
        "output_len": "200",
        "request_rate": entry["id"].removeprefix(prefix),
        "n_requests": str(entry["requests"]),
        "ttft_mean_ms": str(entry["ttft_ms"]["mean"]),
        "tpot_mean_ms": str(entry["tpot_ms"]["mean"]),
        "e2e_mean_ms": str(entry["e2e_ms"]["mean"]),
        "req_per_s": str(entry["req_per_s"]),
    }


def _static(entries: list[Mapping[str, Any]]) -> Iterator[Cells]:
    for entry in entries:
        yield {
            "source": "U01",
            "engine": _ENGINE,
            "gpu": _SPLITWISE[entry["gpu"]],
            "model": {"llama2-70b": "llama-2-70b"}.get(entry["model"], entry["model"]),
            "precision": "fp16",
            "tp": str(entry["tp"]),
            "mode": "offline",
            "batch_size": str(entry["batch"]),
            "input_len": str(entry["prompt"]),
            "output_len": str(entry["out"]),
            "ttft_mean_ms": str(entry["prompt_ms"]),
            "tpot_mean_ms": str(entry["token_ms"]),
        }
