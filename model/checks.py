"""One helper for the checks that parameter classes make on construction."""

from __future__ import annotations

from servecast.hardware.errors import ConfigError


def require(condition: bool, key: str, problem: str) -> None:
    """Raise ConfigError naming `key` unless `condition` holds. `configs/` adds file and line to it."""
    if not condition:
        raise ConfigError(problem, key=key)
