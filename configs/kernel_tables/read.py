"""Reads tables of measured kernel times (CSV, plain or gzip). What a row is, its filled columns say.

    GEMM        m, n, k, latency_us                               and gemm_dtype
    attention   batch_size, isl, step, num_heads, num_key_value_heads, head_dim, latency_us
                                                                  and attn_dtype, kv_cache_dtype, window_size
    collective  op_name, num_gpus, bytes, latency_us              and dtype, kernel_source
    copy        copy, bytes, latency_us

Further columns: gpu, backend (or lib), version, kernel_source, cache (`flushed`: nothing in the caches). An attention
row with step 0 is a prefill of isl tokens, else a decode over step tokens and the new one. Lines that start with # are
remarks.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from servecast.hardware.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

# Kind -> the columns whose cells a row of it fills, all numbers but op_name and copy.
KINDS: Mapping[str, tuple[str, ...]] = {
    "gemm": ("m", "n", "k"),
    "attention": ("batch_size", "isl", "step", "num_heads", "num_key_value_heads", "head_dim"),
    "collective": ("op_name", "num_gpus", "bytes"),
    "copy": ("copy", "bytes"),
}
_WORDS = ("op_name", "copy")
_MAY_BE_ZERO = ("step",)
# What a table may leave out -> what that means.
_DEFAULTS = {
    "gpu": "",
    "backend": "",
    "version": "",
    "kernel_source": "",
    "cache": "",
    "gemm_dtype": "bfloat16",
    "attn_dtype": "bfloat16",
    "kv_cache_dtype": "bfloat16",
    "window_size": "0",
    "dtype": "bfloat16",
}
_TIME = "latency_us"


@dataclass(frozen=True)
class KernelTable:
    """kinds: kind of row -> its rows, with every column of KINDS and of the further ones, and `line` in the file.

    notes: what was left out, and why. remarks: the `key: value` lines at the top, such as the machine's.
    """

    file: Path
    digest: str
    kinds: Mapping[str, pd.DataFrame]
    notes: tuple[str, ...]
    remarks: Mapping[str, str]

    @property
    def name(self) -> str:
        """For sources: the file, and which state of it."""
        return f"{self.file.name} (sha256 {self.digest})"


def read_kernel_table(file: Path) -> KernelTable:
    """Raises ConfigError for a file that is no such table, or has no row that can be used."""
    import pandas as pd

    data = _content(file)
    text = _text(data, file)
    remarks = [line for line in text.splitlines() if line.startswith("#")]
    frame = _frame(text, file)
    kinds: dict[str, pd.DataFrame] = {}
    bad: list[tuple[int, str]] = []
    taken = pd.Series(False, index=frame.index)
    for kind, columns in KINDS.items():
        if not {*columns, _TIME} <= set(frame.columns):
            continue
        rows = frame[(frame[[*columns]] != "").all(axis=1) & ~taken]
        taken |= frame.index.isin(rows.index)
        good, wrong = _numbers(rows, [c for c in (*columns, _TIME) if c not in _WORDS])
        bad += wrong
        if len(good):
            kinds[kind] = good
    bad += [(int(line), "fills the columns of no kind of measurement") for line in frame.loc[~taken, "line"]]
    if not kinds:
        raise ConfigError("holds no row that can be used" + _first(bad), file=file)
    note = (f"{file.name}: {len(bad)} rows left out{_first(bad)}",) if bad else ()
    return KernelTable(file, hashlib.sha256(data).hexdigest()[:12], kinds, note, _remarks(remarks))


def _first(bad: Sequence[tuple[int, str]]) -> str:
    return f"; line {min(bad)[0]} {min(bad)[1]}" if bad else ""


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise ConfigError("no such file", file=file) from None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=file) from None


def _text(data: bytes, file: Path) -> str:
    try:
        plain = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        return plain.decode("utf-8-sig")
    except (OSError, EOFError) as error:
        raise ConfigError(f"is a damaged gzip file: {error}", file=file) from None
    except UnicodeDecodeError:
        hint = "Kernel tables are CSV, plain or gzip"
        raise ConfigError("is not text", file=file, hint=hint) from None


def _frame(text: str, file: Path) -> pd.DataFrame:
    """All cells as text, with the line of each row; columns that the table lacks are filled with their meaning."""
    import io

    import pandas as pd

    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip() and line[0] != "#"]
    try:
        frame = pd.read_csv(io.StringIO("\n".join(line for _, line in lines)), dtype=str, keep_default_na=False)
    except pd.errors.EmptyDataError:
        raise ConfigError("the file is empty", file=file) from None
    except pd.errors.ParserError as error:
        raise ConfigError(f"is not a CSV file: {error}", file=file) from None
    frame.columns = frame.columns.str.strip()
    if not any({*columns, _TIME} <= set(frame.columns) for columns in KINDS.values()):
        known = "; ".join(", ".join((*columns, _TIME)) for columns in KINDS.values())
        problem = f"the columns are of no known layout: {', '.join(frame.columns)}"
        raise ConfigError(problem, file=file, line=lines[0][0], hint=f"Known: {known}")
    frame["line"] = [number for number, _ in lines[1 : len(frame) + 1]]
    if "backend" not in frame and "lib" in frame:
        frame["backend"] = frame["lib"]
    for column, meaning in _DEFAULTS.items():
        frame[column] = frame[column].replace("", meaning) if column in frame else meaning
    return frame


def _numbers(rows: pd.DataFrame, columns: Sequence[str]) -> tuple[pd.DataFrame, list[tuple[int, str]]]:
    """`rows` with numbers in `columns`, and (line, problem) of those where one is none."""
    import numpy as np
    import pandas as pd

    rows = rows.copy()
    bad: dict[int, str] = {}
    for column in columns:
        cells = rows[column]
        numbers = pd.to_numeric(cells, errors="coerce")
        zero = column in _MAY_BE_ZERO
        wrong = ~(np.isfinite(numbers) & ((numbers >= 0) if zero else (numbers > 0)))
        right = "0 or more" if zero else "above 0"
        for line, cell in zip(rows.loc[wrong, "line"], cells[wrong], strict=True):
            bad.setdefault(int(line), f"has {column} {cell!r}, which must be a number {right}")
        rows[column] = numbers
    return rows[~rows["line"].isin(bad)], list(bad.items())


def _remarks(lines: Sequence[str]) -> dict[str, str]:
    pairs = (line.lstrip("# ").partition(":") for line in lines)
    return {key.strip(): value.strip() for key, colon, value in pairs if colon}
