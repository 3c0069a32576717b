"""Which columns of a trace file hold arrival times, prompt tokens and output tokens.

Adding a format is one line in `FORMATS`; a new name for a column is one word in the lists below.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from servecast.hardware.errors import ConfigError, did_you_mean

TIME_UNITS_S = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def _words(*lines: str) -> tuple[str, ...]:
    return tuple(" ".join(lines).split())


# In order of preference, where a file has several.
ARRIVAL_NAMES = _words(
    "arrival_s arrival_time_s arrival_time arrived_at arrival_timestamp arrival timestamp timestamp_s",
    "time_s time start_time_s start_time request_time created_at created",
)
PROMPT_NAMES = _words(
    "prompt_tokens input_tokens num_prefill_tokens num_prompt_tokens num_input_tokens context_tokens",
    "contexttokens request_tokens input_length prompt_length input_len prompt_len prompt_size isl",
)
OUTPUT_NAMES = _words(
    "output_tokens completion_tokens num_decode_tokens num_output_tokens generated_tokens",
    "generatedtokens response_tokens output_length output_len token_size osl",
)
# Names that carry their unit, e.g. arrival_ms, come after those in seconds.
ARRIVAL_UNITS = dict.fromkeys(ARRIVAL_NAMES, "s") | {
    f"{name}_{unit}": unit for unit in ("ms", "us", "ns") for name in ("arrival", "arrival_time", "timestamp", "time")
}


@dataclass(frozen=True)
class TraceFormat:
    """Columns of a published format, by their normalised names (see `normalise`).

    hash_block_tokens: prompt tokens behind one entry of `hash_ids`. marker: a column that tells two formats
    apart.
    """

    arrival: str
    prompt: str
    output: str
    time_unit: str = "s"
    hash_block_tokens: int | None = None
    marker: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        named = (self.arrival, self.prompt, self.output)
        return named if self.marker is None else (*named, self.marker)


FORMATS = {
    "azure": TraceFormat("timestamp", "contexttokens", "generatedtokens"),
    "burstgpt": TraceFormat("timestamp", "request_tokens", "response_tokens"),
    "qwen-bailian": TraceFormat("timestamp", "input_length", "output_length", "s", 16, marker="chat_id"),
    "mooncake": TraceFormat("timestamp", "input_length", "output_length", "ms", 512),
    "vidur": TraceFormat("arrived_at", "num_prefill_tokens", "num_decode_tokens"),
    "splitwise-sim": TraceFormat("arrival_timestamp", "prompt_size", "token_size"),
    "openai-log": TraceFormat("timestamp", "prompt_tokens", "completion_tokens"),
}
GENERIC = "plain"
FORMAT_NAMES = ("auto", *FORMATS, GENERIC)


@dataclass(frozen=True)
class TraceColumns:
    """The columns to read, as the file spells them. arrival: None if the file has lengths only."""

    format: str
    arrival: str | None
    prompt: str
    output: str
    time_unit: str
    hash_block_tokens: int | None = None
    notes: tuple[str, ...] = ()


def normalise(name: str) -> str:
    """`Request tokens` -> `request_tokens`: lower case, with one underscore for blanks, dots and hyphens."""
    return re.sub(r"[\s.\-]+", "_", name.strip().lower())


def choose_columns(names: Sequence[str], file: Path, trace_format: str, time_unit: str | None) -> TraceColumns:
    """Find the columns among `names`, the file's. Raises ConfigError naming those missing and those found.

    trace_format: one of FORMAT_NAMES; `auto` takes the first published format whose columns are all present,
    else any names from the lists above. time_unit: overrules the unit that the format or the column's name
    states.
    """
    if trace_format not in FORMAT_NAMES:
        problem = f"unknown trace format {trace_format!r}"
        raise ConfigError(problem, file=file, key="format", hint=did_you_mean(trace_format, FORMAT_NAMES))
    if time_unit is not None and time_unit not in TIME_UNITS_S:
        problem = f"unknown unit {time_unit!r}"
        raise ConfigError(problem, file=file, key="time_unit", hint=did_you_mean(time_unit, TIME_UNITS_S))
    spelled = _by_normalised_name(names)
    if trace_format == "auto":
        complete = (key for key, known in FORMATS.items() if spelled.keys() >= set(known.columns))
        trace_format = next(complete, GENERIC)
    if trace_format == GENERIC:
        columns = _generic_columns(spelled, names, file)
    else:
        columns = _published_columns(trace_format, spelled, names, file)
    return columns if time_unit is None else replace(columns, time_unit=time_unit)


def _by_normalised_name(names: Iterable[str]) -> dict[str, str]:
    spelled: dict[str, str] = {}
    for name in names:
        spelled.setdefault(normalise(name), name)
    return spelled


def _published_columns(key: str, spelled: dict[str, str], names: Sequence[str], file: Path) -> TraceColumns:
    known = FORMATS[key]
    missing = [column for column in known.columns if column not in spelled]
    if missing:
        problem = f"format {key} has no column {', '.join(missing)} here. Found: {_listed(names)}"
        raise ConfigError(problem, file=file, hint="Other formats: " + ", ".join(FORMAT_NAMES))
    arrival, prompt, output = (spelled[name] for name in (known.arrival, known.prompt, known.output))
    return TraceColumns(key, arrival, prompt, output, known.time_unit, known.hash_block_tokens)


def _generic_columns(spelled: dict[str, str], names: Sequence[str], file: Path) -> TraceColumns:
    arrivals = [name for name in ARRIVAL_UNITS if name in spelled]
    prompts = [name for name in PROMPT_NAMES if name in spelled]
    outputs = [name for name in OUTPUT_NAMES if name in spelled]
    missing = [
        f"{role} (such as {', '.join(usual[:3])})"
        for role, found, usual in (
            ("prompt tokens", prompts, PROMPT_NAMES),
            ("output tokens", outputs, OUTPUT_NAMES),
        )
        if not found
    ]
    if missing:
        problem = f"no column for {' and '.join(missing)}. Found: {_listed(names)}"
        raise ConfigError(problem, file=file, line=1, hint=_hint_on_missing(spelled, names))
    notes = _ambiguous(spelled, {"arrival": arrivals, "prompt": prompts, "output": outputs})
    arrival, unit = None, "s"
    if arrivals:
        arrival, unit = spelled[arrivals[0]], ARRIVAL_UNITS[arrivals[0]]
    else:
        notes.append(f"has lengths only: none of its columns ({_listed(names)}) is an arrival time")
    return TraceColumns(GENERIC, arrival, spelled[prompts[0]], spelled[outputs[0]], unit, notes=tuple(notes))


def _hint_on_missing(spelled: dict[str, str], names: Sequence[str]) -> str | None:
    """What is probably wrong: no header, or one column of a published format is not there."""
    if all(map(_is_number, names)):
        return "The first line must name the columns"
    for key, known in FORMATS.items():
        if len(spelled.keys() & set(known.columns)) >= 2:
            return f"Format {key} has {', '.join(known.columns)}"
    return None


def _ambiguous(spelled: dict[str, str], candidates: dict[str, list[str]]) -> list[str]:
    """Notes on roles that several columns could have; the first is used."""
    notes = []
    for role, found in candidates.items():
        if len(found) > 1:
            several = _listed(spelled[name] for name in found)
            notes.append(f"columns {several} could all be the {role}; {spelled[found[0]]} is used")
    return notes


def _listed(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - 12} more" if len(listed) > 12 else ""
    return (", ".join(listed[:12]) + more) or "nothing"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
