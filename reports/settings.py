"""Effective settings as tables: those that somebody set, and the defaults."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from servecast.configs.load import scenario_from
from servecast.reports.tables import Column, Table

_COLUMNS = (Column("key", "setting"), Column("value", "value"))


def flat_settings(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted key and value of each setting, in order."""
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from flat_settings(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def shown(value: Any) -> str:
    """A setting as YAML would have it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list) and len(value) > 12:
        return f"[{', '.join(map(shown, value[:12]))}, ... {len(value)} values]"
    return f"[{', '.join(map(shown, value))}]" if isinstance(value, list) else str(value)


def settings_tables(settings: Mapping[str, Any], defaulted_keys: Collection[str]) -> tuple[Table, Table]:
    """What was set, and what was left at its default."""
    rows = [{"key": key, "value": shown(value)} for key, value in flat_settings(settings)]
    asked = [row for row in rows if not _is_default(row["key"], defaulted_keys)]
    defaults = [row for row in rows if _is_default(row["key"], defaulted_keys)]
    return Table("settings", "Settings", _COLUMNS, asked), Table("defaults", "Defaults", _COLUMNS, defaults)


def common_settings(all_settings: Sequence[Mapping[str, Any]]) -> tuple[Table, Table]:
    """Settings that all points of a sweep share: what differs from the defaults, and what does not."""
    first, *others = (dict(flat_settings(settings)) for settings in all_settings)
    shared = {key: value for key, value in first.items() if all(other.get(key, ...) == value for other in others)}
    defaults = _default_settings()
    rows = [{"key": key, "value": shown(value)} for key, value in shared.items()]
    asked = [row for row in rows if defaults.get(row["key"], ...) != shared[row["key"]]]
    rest = [row for row in rows if defaults.get(row["key"], ...) == shared[row["key"]]]
    title = "Settings of all points"
    return Table("settings", title, _COLUMNS, asked), Table("defaults", "Defaults", _COLUMNS, rest)


def _default_settings() -> dict[str, Any]:
    """What a scenario says that sets nothing but what it must."""
    arrivals = {"process": "poisson", "request_rate": 1.0}
    workload = {"num_requests": 1, "arrivals": arrivals, "lengths": {"profile": "sharegpt"}}
    scenario = scenario_from({"model": "llama-3.1-8b", "gpu": "h100-sxm", "workload": workload})
    unset, settings = scenario.defaulted_keys(), dict(flat_settings(scenario.effective()))
    return {key: value for key, value in settings.items() if _is_default(key, unset)}


def _is_default(key: str, defaulted_keys: Collection[str]) -> bool:
    # A default can be a mapping, whose parts are settings of their own here.
    parts = key.split(".")
    return any(".".join(parts[:length]) in defaulted_keys for length in range(1, len(parts) + 1))
