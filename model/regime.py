"""How loaded a run was: predictions err differently where requests wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

REGIMES = ("light", "knee", "overload")
# Share of a request's whole time that it waits for admission, on average.
_WAITING_SOME = 0.05
_WAITING_MOST = 0.25


def regime(summary: Mapping[str, Any]) -> str:
    """One of REGIMES, from a simulation's summary.

    overload: more arrives than is served, or requests wait more than 25 % of their time. knee: some wait (`saturation`
    says "at", or they wait more than 5 % of their time). light: the rest. Closed loops and batches, in which no
    more arrives than is served, go by the time alone.
    """
    waiting, whole = summary["queue_time"]["mean"] or 0.0, summary["mean_e2el_ms"]
    share = waiting / whole if whole else 0.0
    if summary["saturation"] == "above" or share > _WAITING_MOST:
        return "overload"
    return "knee" if summary["saturation"] == "at" or share > _WAITING_SOME else "light"
