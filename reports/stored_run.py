"""The folder of a run (`servecast run --out`), read back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from servecast.hardware.errors import ConfigError
from servecast.model.slo import SloLimit, parse_slo

SUMMARY_FILE = "summary.json"

# What the report cannot do without; other figures come with these.
_SUMMARY_KEYS = ("completed", "slo", "bound_by", "roofline", "accuracy", "provenance")
_OTHER_VERSION = "Files of an older version lack some things: run it again"


@dataclass(frozen=True)
class StoredRun:
    """docs/cli.md says what is in each file. scenario_yaml: the effective scenario, as a file."""

    folder: Path
    summary: Mapping[str, Any]
    details: Mapping[str, Any]
    series: pd.DataFrame
    distributions: pd.DataFrame
    scenario_yaml: str

    @property
    def scenario(self) -> Mapping[str, Any]:
        settings: Mapping[str, Any] = self.summary["provenance"]["scenario"]
        return settings

    @property
    def limits(self) -> tuple[SloLimit, ...]:
        slo = self.scenario["slo"]
        return () if slo is None else parse_slo(slo).limits


def read_run(folder: Path) -> StoredRun:
    """Raises ConfigError that names the file which is missing or is no such file."""
    return StoredRun(
        folder=folder,
        summary=read_json(folder / SUMMARY_FILE, *_SUMMARY_KEYS),
        details=read_json(folder / "details.json", "title", "memory", "defaulted_keys"),
        series=_read_csv(folder / "series.csv", "prefill_tokens_per_s"),
        distributions=_read_csv(folder / "distributions.csv", "percentile"),
        scenario_yaml=_text(folder / "scenario.yaml"),
    )


@contextmanager
def of_this_version(folder: Path) -> Iterator[None]:
    """What is made of the results in `folder` here may ask for any of their figures. Results of another version lack
    some: that is a ConfigError, not the KeyError that it begins as.
    """
    try:
        yield
    except KeyError as error:
        raise ConfigError(f"its results have no {error.args[0]!r}", file=folder, hint=_OTHER_VERSION) from error


def read_requests(run: StoredRun, columns: list[str]) -> pd.DataFrame:
    """These columns of requests.csv. Raises ConfigError, also where rows are missing."""
    file = run.folder / "requests.csv"
    frame = _read_csv(file, *columns)[columns]
    expected = run.summary["completed"] + run.summary["failed"]
    if len(frame) != expected:
        problem = f"has {len(frame)} rows, but {SUMMARY_FILE} counts {expected} requests"
        raise ConfigError(problem, file=file, hint="The file was cut or changed: run it again")
    return frame


def read_json(file: Path, *keys: str) -> dict[str, Any]:
    """A JSON object that has to have `keys`. Raises ConfigError."""
    try:
        data = json.loads(_text(file))
    except json.JSONDecodeError as error:
        raise ConfigError(f"broken JSON: {error.msg}", file=file, line=error.lineno) from None
    if not isinstance(data, dict):
        raise ConfigError(f"must be a JSON object, found {type(data).__name__}", file=file)
    for key in keys:
        if key not in data:
            raise ConfigError(f"has no {key!r}", file=file, hint=_OTHER_VERSION)
    return data


def _read_csv(file: Path, *columns: str) -> pd.DataFrame:
    """All of a file that has to have `columns`."""
    try:
        with file.open(encoding="utf-8") as text:
            frame = pd.read_csv(text)
    except FileNotFoundError:
        raise _missing(file) from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot be read: {error}", file=file) from None
    for column in columns:
        if column not in frame:
            raise ConfigError(f"has no column {column!r}", file=file)
    return frame


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise _missing(file) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", file=file) from None


def _missing(file: Path) -> ConfigError:
    return ConfigError("no such file", file=file, hint=f"Written by servecast run --out. {_OTHER_VERSION}")
