"""HTML templates (Jinja2). Everything that they are given is escaped, unless it is marked as HTML already."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


@cache
def _environment() -> Environment:
    loader = PackageLoader("servecast.reports", "templates")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def render(template: str, **values: Any) -> str:
    """`template`, a file of this folder, filled in."""
    return _environment().get_template(template).render(**values)
