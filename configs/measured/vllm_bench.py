"""The result file of `vllm bench serve --save-result` (JSON). It names no GPU, engine version or layout."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from servecast.configs.fields import describe
from servecast.configs.measured.run import METRICS, MeasuredRun, positive
from servecast.hardware.errors import ConfigError
from servecast.model.lengths import EmpiricalLengths

_NEEDED = ("completed", "total_input_tokens", "total_output_tokens")
# vLLM prints the median where we say p50.
_ALSO = {"p50_ttft_ms": "median_ttft_ms"}


def is_vllm_bench(data: Any) -> bool:
    """Whether parsed JSON is such a result."""
    return isinstance(data, Mapping) and all(key in data for key in _NEEDED)


def bench_run(data: Mapping[str, Any], file: Path) -> MeasuredRun:
    """The run of one result. Raises ConfigError naming file and key."""
    try:
        return _run(data, file)
    except ConfigError as error:
        raise ConfigError(error.problem, file=file, key=error.key, hint=error.hint) from None


def _run(data: Mapping[str, Any], file: Path) -> MeasuredRun:
    completed = int(positive(data["completed"], "completed"))
    failed = int(data.get("failed") or 0)
    mean = {key: max(1, round(positive(data[key], key) / completed)) for key in _NEEDED[1:]}
    workload = {
        "num_requests": completed,
        "arrivals": _arrivals(data, completed),
        "lengths": {
            "prompt": {"distribution": "fixed", "value": mean["total_input_tokens"]},
            "output": {"distribution": "fixed", "value": mean["total_output_tokens"]},
        },
    }
    recorded = _recorded(data)
    notes = [] if recorded else ["lengths: the means, as the file has no input_lens (--save-detailed writes them)"]
    if failed:
        notes.append(f"{failed} requests failed and are not simulated")
    settings: dict[str, Any] = {"workload": workload}
    if data.get("model_id"):
        settings["model"] = str(data["model_id"])
    cells = {key: str(value) for key, value in data.items() if isinstance(value, str | int | float)}
    cells |= {"file": file.name, "line": "1"}
    return MeasuredRun(str(file), settings, _figures(data), cells, recorded, note="; ".join(notes))


def _arrivals(data: Mapping[str, Any], completed: int) -> dict[str, Any]:
    rate = data.get("request_rate", "inf")
    stated = data.get("max_concurrency")
    clients = completed if stated is None else int(positive(stated, "max_concurrency"))
    unlimited = clients >= completed
    if rate in ("inf", "Infinity", float("inf"), None):
        if unlimited:
            return {"process": "batch"}
        return {"process": "closed_loop", "concurrency": clients}
    if not unlimited:
        problem = f"{clients} beside request_rate {rate}: a rate with a limit on concurrency is not simulated"
        raise ConfigError(problem, key="max_concurrency")
    burstiness = positive(data.get("burstiness") or 1.0, "burstiness")
    return {"process": "gamma", "request_rate": positive(rate, "request_rate"), "burstiness": burstiness}


def _recorded(data: Mapping[str, Any]) -> EmpiricalLengths | None:
    """The lengths of the requests one by one; those without an output failed."""
    columns = [data.get(key) for key in ("input_lens", "output_lens")]
    if not all(isinstance(column, list) and column for column in columns):
        return None
    prompts, outputs = columns
    assert prompts is not None  # both are lists, by the line above
    assert outputs is not None
    if len(prompts) != len(outputs):
        problem = f"has {len(outputs)} entries, input_lens has {len(prompts)}"
        raise ConfigError(problem, key="output_lens")
    try:
        pairs = np.array([pair for pair in zip(prompts, outputs, strict=True) if pair[1]], dtype=np.int64)
    except (TypeError, ValueError):
        raise ConfigError(f"must hold numbers of tokens, found {describe(prompts[0])}", key="input_lens") from None
    return EmpiricalLengths(pairs[:, 0], pairs[:, 1]) if len(pairs) else None


def _figures(data: Mapping[str, Any]) -> dict[str, float]:
    found = {}
    for figure, key in METRICS.items():
        known = key if data.get(key) is not None else _ALSO.get(key, key)
        if data.get(known) is not None:
            found[figure] = positive(data[known], known)
    if not found:
        raise ConfigError("holds no figure, such as mean_tpot_ms")
    return found
