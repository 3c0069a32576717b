"""The table of measurements: written row by row, so that nothing is lost when measuring stops, and continued later."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TextIO

from servecast.hardware.errors import ConfigError
from servecast.hardware.measure.loop import Measured
from servecast.hardware.measure.plan import AllReduce, Attention, Copy, Gemm, Item, cells

_ITEM_COLUMNS = tuple(
    dict.fromkeys(field.name for kind in (Gemm, Attention, AllReduce, Copy) for field in fields(kind))
)
COLUMNS = (
    "backend",
    "version",
    "kernel_source",
    "cache",
    *_ITEM_COLUMNS,
    "latency_us",
    "spread_us",
    "repetitions",
)
_FIRST_LINE = "# servecast measure"
# Facts that must be the same for two measurements to stand in one table; clocks and dates may differ.
SAME = ("gpu", "driver", "cuda", "torch", "vllm", "flash_attn", "power_limit")


class MeasurementTable:
    """An open table. Use it as a context manager."""

    def __init__(self, file: Path, facts: Mapping[str, str]) -> None:
        """Start `file`, or go on with it. facts: what machine this is. Raises ConfigError if it is another's."""
        self._file = file
        self._done = _read(file, facts) if file.exists() else None
        self._stream: TextIO | None = None
        self._facts = facts

    def __enter__(self) -> MeasurementTable:
        try:
            self._stream = self._file.open("a", encoding="utf-8", newline="")
        except OSError as error:
            raise ConfigError(f"cannot be written: {error.strerror}", file=self._file, key="-o") from None
        if self._done is None:
            self._done = set()
            lines = [_FIRST_LINE, *(f"# {key}: {value}" for key, value in self._facts.items()), ",".join(COLUMNS)]
            self._stream.write("\n".join(lines) + "\n")
            self._stream.flush()
        return self

    def __exit__(self, *_: object) -> None:
        if self._stream is not None:
            self._stream.close()

    def left(self, items: Sequence[Item]) -> list[Item]:
        """Those of `items` that have no row yet."""
        done = self._done or set()
        return [item for item in items if _key(cells(item)) not in done]

    def add(self, measured: Measured) -> None:
        """Write a row, at once and whole."""
        if self._stream is None:
            raise RuntimeError("the table is not open")
        row = cells(measured.item) | {
            "backend": measured.operation.backend,
            "version": measured.operation.version,
            "kernel_source": measured.operation.kernel_source,
            "cache": measured.operation.cache,
            "latency_us": f"{measured.seconds * 1e6:.6g}",
            "spread_us": f"{measured.spread_s * 1e6:.3g}",
            "repetitions": measured.repetitions,
        }
        csv.DictWriter(self._stream, COLUMNS, restval="", lineterminator="\n").writerow(row)
        self._stream.flush()


def _key(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(row.get(column, "")) for column in _ITEM_COLUMNS)


def _read(file: Path, facts: Mapping[str, str]) -> set[tuple[str, ...]]:
    """Keys of the rows that `file` has. Raises ConfigError if it is no table of this machine."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        lines = []
    hint = "Give a file that does not exist"
    if not lines or lines[0] != _FIRST_LINE or ",".join(COLUMNS) not in lines:
        raise ConfigError("is no table of `servecast measure`; it is not overwritten", file=file, key="-o", hint=hint)
    remarks = dict(line.lstrip("# ").split(": ", 1) for line in lines if line.startswith("# ") and ": " in line)
    for key in SAME:
        if remarks.get(key) != facts.get(key):
            problem = f"was measured with {key} {remarks.get(key)!r}, here it is {facts.get(key)!r}"
            raise ConfigError(problem, file=file, key="-o", hint=hint)
    return {_key(row) for row in csv.DictReader(line for line in lines if not line.startswith("#"))}
