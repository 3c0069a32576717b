"""Reads files of measured runs; the layout is known by the header of a CSV file or the keys of a JSON file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from servecast.configs.measured.requests import is_request_table, request_run
from servecast.configs.measured.rules import Rules
from servecast.configs.measured.run import MeasuredRun
from servecast.configs.measured.table import COLUMNS, FIGURES, is_table, table_run
from servecast.configs.measured.vllm_bench import bench_run, is_vllm_bench
from servecast.configs.overrides import apply_overrides
from servecast.configs.trace_file import opened
from servecast.hardware.errors import ConfigError

_NAMES = ("model", "gpu", "engine")


def read_runs(
    file: Path,
    rules: Rules | None = None,
    defaults: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
) -> list[MeasuredRun]:
    """All runs of `file`, in its order.

    rules: what the file leaves unsaid. defaults: model, gpu or engine for runs that name none after that. overrides:
    `dotted.key=value`, on top of everything. A run that cannot be simulated has a `problem`. Raises ConfigError where
    the file as a whole cannot be read.
    """
    return complete(_read(file), rules, defaults, overrides)


def complete(
    runs: Sequence[MeasuredRun],
    rules: Rules | None = None,
    defaults: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
) -> list[MeasuredRun]:
    """`runs` with what their file does not state; arguments as for `read_runs`."""
    stated = (rules.apply(run) if rules else run for run in runs)
    return [_completed(run, defaults or {}, overrides) for run in stated]


def _completed(run: MeasuredRun, defaults: Mapping[str, str], overrides: Sequence[str]) -> MeasuredRun:
    if run.problem is not None:
        return run
    settings, _ = apply_overrides({**defaults, **run.settings}, overrides)
    missing = [name for name in _NAMES if not settings.get(name)]
    problem = f"does not say which {missing[0]}; give --{missing[0]}" if missing else None
    return replace(run, settings=settings, problem=problem)


def _read(file: Path) -> list[MeasuredRun]:
    with opened(file) as stream:
        text = stream.read().decode("utf-8-sig")
    start = text.lstrip()[:1]
    if not start:
        raise ConfigError("the file is empty", file=file)
    return _read_json(text, file) if start in "{[" else _read_csv(text, file)


def _read_json(text: str, file: Path) -> list[MeasuredRun]:
    """One result, an array of them, or one a line, as `--append-result` writes them."""
    try:
        data: Any = json.loads(text)
    except json.JSONDecodeError as whole:
        try:
            data = [json.loads(line) for line in text.splitlines() if line.strip()]
        except json.JSONDecodeError:
            raise ConfigError(f"broken JSON: {whole.msg}", file=file, line=whole.lineno) from None
    results = data if isinstance(data, list) else [data]
    if not results:
        raise ConfigError("holds no runs: the list is empty", file=file)
    for number, result in enumerate(results):
        if not is_vllm_bench(result):
            place = f"entry {number + 1} " if len(results) > 1 else ""
            problem = f"{place}is not a result of vllm bench serve: it needs completed, total_input_tokens ..."
            raise ConfigError(problem, file=file)
    return [bench_run(result, file) for result in results]


def _read_csv(text: str, file: Path) -> list[MeasuredRun]:
    reader = csv.reader(io.StringIO(text))
    names = [name.strip() for name in next(reader)]
    rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    if not rows:
        raise ConfigError("has a header but no rows", file=file)
    for line, row in rows:
        if len(row) != len(names):
            raise ConfigError(f"{len(row)} cells where the header has {len(names)}", file=file, line=line)
    cells = [(line, dict(zip(names, row, strict=True))) for line, row in rows]
    if is_table(names):
        return [table_run(row, file, line) for line, row in cells]
    if is_request_table(names):
        return [request_run(cells, file)]
    needed = ", ".join([COLUMNS["input"][0], COLUMNS["output"][0], f"a figure such as {FIGURES['tpot'][1]}"])
    hint = f"A table of runs needs {needed}; a table of requests arrival_s, input_tokens, output_tokens, ttft_s, e2e_s"
    raise ConfigError(f"the columns are of no known layout: {', '.join(names)}", file=file, line=1, hint=hint)
