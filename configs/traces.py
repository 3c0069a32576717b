"""Reads request traces: when requests came, and how long their prompts and outputs were.

Every odd row is named, counted and handled by one stated rule; none disappears silently:

- a row without usable numbers (missing, not a number, negative, a fraction of a token) is an error that names
  its line, or is left out and counted with `bad_rows="skip"`;
- 0 tokens count as 1: the request was sent and had to be read (BurstGPT logs failed requests with 0 response
  tokens);
- rows out of order are sorted by arrival, and rows with equal times keep their order in the file;
- times are counted from the first request;
- prefix hashes that do not match the prompt's length are ignored, for that request.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from servecast.configs.trace_columns import choose_columns
from servecast.configs.trace_file import RawTrace, read_cells
from servecast.configs.trace_values import RowProblems, arrival_times, token_counts
from servecast.hardware.errors import ConfigError
from servecast.model.arrivals import TraceArrivals
from servecast.model.lengths import EmpiricalLengths
from servecast.model.request import Content

Tokens = npt.NDArray[np.int64]
HashIds = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class TraceData:
    """The requests of a trace in order of arrival; one entry a request in each column.

    format: the format it was read as. prompt_tokens, output_tokens: int64, 1 or more. arrival_s: float64,
    from 0; None if the file has lengths only. notes: everything odd, with counts. hash_ids: for each request
    one id per block of `hash_block_tokens` prompt tokens (equal ids are equal content; the last, started
    block may lack one), empty where unknown; None if the file has none.
    """

    file: Path
    format: str
    prompt_tokens: Tokens
    output_tokens: Tokens
    arrival_s: npt.NDArray[np.float64] | None
    notes: tuple[str, ...] = ()
    hash_ids: HashIds | None = None
    hash_block_tokens: int | None = None

    def __len__(self) -> int:
        return len(self.prompt_tokens)

    @property
    def request_rate(self) -> float | None:
        """Mean requests/s from the first to the last arrival; None without times or with no time between."""
        if self.arrival_s is None or len(self) < 2 or self.arrival_s[-1] <= 0:
            return None
        return (len(self) - 1) / float(self.arrival_s[-1])

    def arrivals(self, rate_scale: float = 1.0) -> TraceArrivals:
        """The recorded arrivals, for a workload. Raises ConfigError if the file has none."""
        if self.arrival_s is None:
            problem = "has no arrival times, only lengths"
            hint = "Choose arrivals such as {process: poisson, request_rate: ...} or {process: batch}"
            raise ConfigError(problem, file=self.file, hint=hint)
        return TraceArrivals(self.arrival_s, rate_scale)

    def contents(self) -> tuple[Content, ...] | None:
        """What each prompt shares with others, from its block hashes; None if the file has none."""
        if self.hash_ids is None or self.hash_block_tokens is None:
            return None
        block = self.hash_block_tokens
        return tuple(
            tuple((id, min(block, tokens - i * block)) for i, id in enumerate(ids))
            for ids, tokens in zip(self.hash_ids, self.prompt_tokens.tolist(), strict=True)
        )

    def lengths(self, order: Literal["replay", "sample"] = "replay") -> EmpiricalLengths:
        """The recorded lengths, for a workload."""
        return EmpiricalLengths(self.prompt_tokens, self.output_tokens, order)


def read_trace(
    path: Path | str,
    format: str = "auto",
    *,
    time_unit: str | None = None,
    bad_rows: Literal["error", "skip"] = "error",
) -> TraceData:
    """Read a trace: CSV or JSON lines, plain or gzip.

    format: one of `servecast.configs.trace_columns.FORMAT_NAMES`; `auto` goes by the column names. time_unit:
    `s`, `ms`, `us` or `ns`, where the format's own is wrong. Raises ConfigError naming file, lines and
    values.
    """
    file = Path(path)
    if bad_rows not in ("error", "skip"):
        raise ConfigError(f"must be error or skip, found {bad_rows!r}", file=file, key="bad_rows")
    choose = partial(choose_columns, file=file, trace_format=format, time_unit=time_unit)
    raw = read_cells(file, choose)
    if not raw.lines and not raw.broken:
        raise ConfigError("has a header but no rows", file=file)
    return _sorted_by_arrival(_understood(raw, file, bad_rows))


def _understood(raw: RawTrace, file: Path, bad_rows: str) -> TraceData:
    """The good rows in file order."""
    columns, notes = raw.columns, [*raw.columns.notes, *raw.notes]
    problems = RowProblems(raw.lines)
    problems.add_broken(raw.broken)
    prompt = token_counts(raw.prompt, columns.prompt, problems)
    output = token_counts(raw.output, columns.output, problems)
    arrival_s: npt.NDArray[np.float64] | None = None
    time_notes: tuple[str, ...] = ()
    if columns.arrival is not None:
        arrival_s, time_notes = arrival_times(raw.arrival, columns.arrival, columns.time_unit, problems)
    notes.extend(_bad_row_notes(problems, len(raw.lines) + len(raw.broken), file, bad_rows))
    notes.extend(time_notes)
    good = ~problems.bad
    prompt_tokens, output_tokens = prompt[good].astype(np.int64), output[good].astype(np.int64)
    notes.extend(_zero_notes(prompt_tokens, columns.prompt) + _zero_notes(output_tokens, columns.output))
    hash_ids, hash_notes = _checked_hashes(raw, prompt_tokens, good)
    return TraceData(
        file,
        columns.format,
        np.maximum(prompt_tokens, 1),
        np.maximum(output_tokens, 1),
        None if arrival_s is None else arrival_s[good],
        (*notes, *hash_notes),
        hash_ids,
        None if hash_ids is None else columns.hash_block_tokens,
    )


def _bad_row_notes(problems: RowProblems, rows: int, file: Path, bad_rows: str) -> list[str]:
    if not problems.count:
        return []
    counted = f"{problems.count:,} of {rows:,} rows"
    if problems.count == rows:
        raise ConfigError(f"no row can be used: {problems}", file=file)
    if bad_rows == "error":
        hint = "Correct them, or leave them out with bad_rows: skip"
        raise ConfigError(f"{counted} cannot be used: {problems}", file=file, hint=hint)
    return [f"{counted} left out: {problems}"]


def _zero_notes(tokens: Tokens, column: str) -> list[str]:
    zeros = int(np.count_nonzero(tokens == 0))
    return [f"{_counted(zeros, 'request')} with 0 {column}: each counts as 1 token"] if zeros else []


def _checked_hashes(
    raw: RawTrace, prompt_tokens: Tokens, good: npt.NDArray[np.bool_]
) -> tuple[HashIds | None, list[str]]:
    """Hash ids of the good rows, empty where missing or of a wrong number for the prompt; and notes."""
    block = raw.columns.hash_block_tokens
    if block is None or not any(raw.hash_ids):
        return None, []
    rows = np.flatnonzero(good).tolist()
    found = [_ids(raw.hash_ids[row]) for row in rows]
    # Some traces hash only full blocks, others the last, started one as well.
    full, started = (prompt_tokens // block).tolist(), (-(-prompt_tokens // block)).tolist()
    wrong = [i for i, ids in enumerate(found) if ids and not full[i] <= len(ids) <= started[i]]
    notes = []
    if wrong:
        first = wrong[0]
        example = f"line {raw.lines[rows[first]]}: {len(found[first])} for {started[first]}"
        problem = f"with a wrong number of hash_ids for blocks of {block} tokens, ignored ({example})"
        notes.append(f"{_counted(len(wrong), 'request')} {problem}")
    missing = sum(not ids for ids in found)
    if missing:
        notes.append(f"{_counted(missing, 'request')} without hash_ids: taken to share no prefix")
    for i in wrong:
        found[i] = ()
    return tuple(found), notes


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _ids(cell: Any) -> tuple[int, ...]:
    return tuple(cell) if isinstance(cell, list) else ()


def _sorted_by_arrival(trace: TraceData) -> TraceData:
    """`trace` in order of arrival, with notes on what was out of order or simultaneous."""
    times = trace.arrival_s
    if times is None:
        return trace
    late = np.flatnonzero(times < np.maximum.accumulate(times))
    notes = list(trace.notes)
    order = np.argsort(times, kind="stable")
    if len(late):
        notes.append(f"{_counted(len(late), 'row')} out of order: the trace is sorted by arrival")
    times = times[order]
    ties = int(np.count_nonzero(np.diff(times) == 0))
    if ties:
        counted = _counted(ties, "request")
        notes.append(f"{counted} at the same time as the one before: kept, in the order of the file")
    return replace(
        trace,
        prompt_tokens=trace.prompt_tokens[order],
        output_tokens=trace.output_tokens[order],
        arrival_s=times,
        notes=tuple(notes),
        hash_ids=None if trace.hash_ids is None else tuple(trace.hash_ids[row] for row in order),
    )
