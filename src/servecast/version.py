"""The version of the installed program."""

from __future__ import annotations

from importlib.metadata import version as installed_version


def version() -> str:
    """As in pyproject.toml, e.g. "0.1.0"."""
    return installed_version("servecast")
