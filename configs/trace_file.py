"""Opens a trace file, plain or gzip, CSV or JSON lines, and picks the wanted cells. Understands no values."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from servecast.configs.trace_columns import TraceColumns
from servecast.hardware.errors import ConfigError

GZIP_START = b"\x1f\x8b"
OTHER_PACKINGS = {
    b"PK\x03\x04": "zip",
    b"\x28\xb5\x2f\xfd": "zstandard",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"PAR1": "Parquet",
}
ROWS_THAT_NAME_COLUMNS = 100  # JSON objects need not all have the same keys

Choose = Callable[[Sequence[str]], TraceColumns]


@dataclass
class RawTrace:
    """Cells as they stand in the file, one list a column. `lines`: line in the file of each row, from 1.

    broken: (line, what is wrong) of rows that could not be taken apart; they are in no list.
    """

    columns: TraceColumns
    lines: list[int] = field(default_factory=list)
    arrival: list[Any] = field(default_factory=list)
    prompt: list[Any] = field(default_factory=list)
    output: list[Any] = field(default_factory=list)
    hash_ids: list[Any] = field(default_factory=list)
    broken: list[tuple[int, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_cells(file: Path, choose: Choose) -> RawTrace:
    """Read `file`; `choose` maps the column names found to those wanted. Raises ConfigError if it cannot be
    read."""
    with opened(file) as stream:
        start = stream.peek(64).removeprefix(b"\xef\xbb\xbf").lstrip()
        if not start:
            raise ConfigError("the file is empty", file=file)
        if start.startswith(b"["):
            problem = "is one JSON array; a trace has one JSON object a line"
            raise ConfigError(problem, file=file, hint="`jq -c '.[]'` converts it")
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        if start.startswith(b"{"):
            return _read_json_lines(text, choose, file)
        return _read_csv(text, choose, file)


@contextmanager
def opened(file: Path) -> Iterator[io.BufferedReader]:
    """The file's bytes, unpacked. gzip is known by its content, not its name."""
    try:
        with file.open("rb") as stream:
            start = stream.peek(8)
            for magic, kind in OTHER_PACKINGS.items():
                if start.startswith(magic):
                    raise ConfigError(f"is a {kind} file; plain text or gzip is read", file=file)
            if start.startswith(GZIP_START):
                yield io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=stream)))
            else:
                yield stream
    except FileNotFoundError:
        raise ConfigError("no such file", file=file) from None
    except IsADirectoryError:
        raise ConfigError("is a folder, not a trace file", file=file) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8 text: {error.reason} at byte {error.start}", file=file) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ConfigError(f"is a damaged gzip file: {error}", file=file) from None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error}", file=file) from None
    except csv.Error as error:
        raise ConfigError(f"is not a CSV file: {error}", file=file) from None


def _read_csv(text: io.TextIOWrapper, choose: Choose, file: Path) -> RawTrace:
    skipped, header = next((n, line) for n, line in enumerate(text, start=1) if line.strip())
    delimiter = max(",;\t", key=header.count)
    names = [name.strip() for name in next(csv.reader([header], delimiter=delimiter))]
    trace = RawTrace(choose(names))
    columns, width = trace.columns, len(names)
    for name in (columns.arrival, columns.prompt, columns.output):
        if names.count(name or "") > 1:
            raise ConfigError(f"column {name} stands twice", file=file, line=skipped)
    arrival = None if columns.arrival is None else names.index(columns.arrival)
    prompt, output = names.index(columns.prompt), names.index(columns.output)
    reader = csv.reader(text, delimiter=delimiter)
    for row in reader:
        if len(row) != width:
            if row:
                trace.broken.append((skipped + reader.line_num, f"{len(row)} cells where the header has {width}"))
            continue
        trace.lines.append(skipped + reader.line_num)
        trace.prompt.append(row[prompt])
        trace.output.append(row[output])
        if arrival is not None:
            trace.arrival.append(row[arrival])
    if delimiter == ";":
        _read_decimal_commas(trace)
    return trace


def _read_decimal_commas(trace: RawTrace) -> None:
    """Where semicolons separate, a comma is the decimal sign (spreadsheets in much of Europe write so)."""
    cells = itertools.chain(trace.arrival, trace.prompt, trace.output)
    if not any("," in cell for cell in cells):
        return
    for column in (trace.arrival, trace.prompt, trace.output):
        column[:] = [cell.replace(",", ".") for cell in column]
    trace.notes.append("separated by semicolons: commas are read as decimal signs (0,5 is 0.5)")


def _read_json_lines(text: io.TextIOWrapper, choose: Choose, file: Path) -> RawTrace:
    broken: list[tuple[int, str]] = []
    records = _records(text, broken)
    first = list(itertools.islice(records, ROWS_THAT_NAME_COLUMNS))
    if not first:
        line, problem = broken[0]
        raise ConfigError(problem, file=file, line=line)
    names = dict.fromkeys(name for _, record in first for name in record)
    trace = RawTrace(choose(tuple(names)), broken=broken)
    columns = trace.columns
    for line, record in itertools.chain(first, records):
        trace.lines.append(line)
        trace.prompt.append(record.get(columns.prompt))
        trace.output.append(record.get(columns.output))
        if columns.arrival is not None:
            trace.arrival.append(record.get(columns.arrival))
        if columns.hash_block_tokens is not None:
            trace.hash_ids.append(record.get("hash_ids"))
    return trace


def _records(text: io.TextIOWrapper, broken: list[tuple[int, str]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Objects with their lines. An inner `usage` object, where gateways log tokens, is spread into the outer
    one."""
    for line, content in enumerate(text, start=1):
        if not content.strip():
            continue
        try:
            record = json.loads(content)
        except json.JSONDecodeError as error:
            broken.append((line, f"broken JSON: {error.msg} at column {error.colno}"))
            continue
        if not isinstance(record, dict):
            broken.append((line, "not a JSON object"))
            continue
        usage = record.get("usage")
        yield line, record if not isinstance(usage, dict) else usage | record
