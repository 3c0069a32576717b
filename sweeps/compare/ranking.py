"""From what was simulated to a ranking: GPUs and cost of each candidate with their intervals, why losers lost, the
recommendation in a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from servecast.sweeps.compare.evaluate import DOES_NOT_FIT, FITS, UNREACHABLE
from servecast.sweeps.compare.variants import BURST_CV, BURSTS, LOAD_FACTOR, OUTPUT_FACTOR, OUTPUTS, SLOW, SLOW_FACTOR

Row = dict[str, Any]

REFUSED = "refused"
# Of the cost; candidates closer than this are a tie whatever their intervals.
_SAME_COST = 0.02
# Ties in the recommendation.
_MOST_NAMED = 3

_MORE = "load_more"
QUESTIONS = {
    SLOW: f"every time is {SLOW_FACTOR - 1:.0%} longer than predicted",
    _MORE: f"{LOAD_FACTOR - 1:.0%} more requests",
    OUTPUTS: f"outputs {OUTPUT_FACTOR - 1:.0%} longer",
    BURSTS: f"bursts: gaps between requests with CV {BURST_CV:g}",
}


def size_interval(fleet: Mapping[str, Any], spare: int) -> tuple[int, int | None]:
    """(fewest, most) replicas, spare ones included, over the interval of the capacity; None where there is no end."""
    low, high = fleet["needed_low"], fleet["needed_high"]
    fewest = max(1, min(whole(low), fleet["replicas"])) + spare
    return fewest, None if high is None else max(whole(high), fleet["replicas"]) + spare


def whole(replicas: float) -> int:
    """Replicas that there must be; what is over by rounding does not count."""
    return math.ceil(replicas - 1e-6)


def rank(rows: Sequence[Row]) -> list[Row]:
    """`rows` (of compare.py) by cost an hour, with `rank`, `tie`, `extra_cost` (share over the cheapest) and `reason`.

    Candidates without a price follow by their number of GPUs, then those that do not carry the load.
    """
    carried = [row for row in rows if row["status"] == FITS]
    carried.sort(key=lambda row: (row["usd_per_hour"] is None, row["usd_per_hour"] or 0.0, row["gpus"], row["label"]))
    others = [row for row in rows if row["status"] != FITS]
    others.sort(key=lambda row: [UNREACHABLE, DOES_NOT_FIT, REFUSED].index(row["status"]))
    ranked: list[Row] = []
    best = carried[0] if carried and carried[0]["usd_per_hour"] is not None else None
    for number, row in enumerate(carried, start=1):
        tie = best is not None and row is not best and is_tie(best, row)
        extra = None if best is None or row["usd_per_hour"] is None else row["usd_per_hour"] / best["usd_per_hour"] - 1
        ranked.append(
            {**row, "rank": number, "tie": tie, "extra_cost": extra, "reason": _reason(row, best, tie, extra)}
        )
    return ranked + [{**row, "rank": None, "tie": False, "extra_cost": None, "reason": row["reason"]} for row in others]


def is_tie(best: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether the intervals of their cost overlap, or their costs are all but the same."""
    if other["usd_per_hour"] is None:
        return False
    if other["usd_per_hour"] <= best["usd_per_hour"] * (1 + _SAME_COST):
        return True
    high = best["usd_per_hour_high"]
    return high is None or other["usd_per_hour_low"] < high


def _reason(row: Row, best: Row | None, tie: bool, extra: float | None) -> str:
    if row is best:
        return "cheapest"
    if row["usd_per_hour"] is None and row.get("run") is None:
        return "so many replicas were not simulated, and so not priced"
    if extra is None:
        return "no price known"
    cost = _dearer(extra)
    if tie:
        return f"tie: {cost}, error bands overlap"
    return f"{cost}; {row['limit']} binds"


def _dearer(extra: float) -> str:
    if abs(extra) < 0.005:
        return "the same cost"
    return f"costs {extra:.0%} more" if extra < 1 else f"costs {extra + 1:.3g} times as much"


def limit_word(capacity: Mapping[str, Any]) -> str:
    """What ends the capacity of a replica, in a word or two."""
    binding = capacity["binding"]
    if binding is None:
        return "queue" if capacity["growing_above"] else "nothing found"
    return str(binding["limit"]).split("<=")[0]


def unreachable(capacity: Mapping[str, Any]) -> str:
    """Why no load meets the SLO."""
    binding = capacity["binding"]
    if binding is None:
        return "the queue grows at any load"
    value = "" if binding["value_ms"] is None else f" is {binding['value_ms']:,.0f} ms"
    if binding["share"] is not None:
        value = f" is met by {binding['share']:.1%}"
    return f"{binding['limit']}{value} even when requests hardly meet"


def between(low: int, high: int | None, answer: int) -> str:
    """Whole numbers in words: "6 to 7", "6 or more", or the one."""
    if high is None:
        return f"{low} or more"
    return str(answer) if low == high else f"{low} to {high}"


def recommendation(ranked: Sequence[Row]) -> str:
    """The answer in a sentence or two, with its margin."""
    carried = [row for row in ranked if row["status"] == FITS]
    if not carried:
        return "No candidate carries this load within the limits."
    best = carried[0]
    if best["usd_per_hour"] is None:
        return f"{_deployment(best)} has the fewest GPUs; no candidate has a price."
    text = f"{_deployment(best)}: ${best['usd_per_hour']:,.2f} an hour."
    others = [row for row in carried[1:] if row["usd_per_hour"] is not None]
    if not others:
        return text
    ties = [row for row in others if row["tie"]]
    if ties:
        named = ", ".join(f"{row['label']} (+{row['extra_cost']:.0%})" for row in ties[:_MOST_NAMED])
        more = f" and {len(ties) - _MOST_NAMED} more" if len(ties) > _MOST_NAMED else ""
        text += f" A tie within the error bands with {named}{more}."
    # The next that would be another purchase, unless the ties name one; else the next that is no tie.
    other_gpus = [row for row in others if row["gpu"] != best["gpu"]]
    if any(row["tie"] for row in other_gpus):
        return text
    other = next((row for row in other_gpus or others if not row["tie"]), None)
    if other is not None:
        text += f" Next: {_deployment(other)}, ${other['usd_per_hour']:,.2f} an hour, {other['extra_cost']:.0%} dearer."
    return text


def _deployment(row: Mapping[str, Any]) -> str:
    gpus = f"{row['gpus']} {row['gpu']}"
    if row["gpus_text"] != str(row["gpus"]):
        gpus += f", {row['gpus_text']} within the error band"
    return f"{row['replicas']} x {row['label']} ({gpus})"


def sensitivity_rows(ranked: Sequence[Row]) -> list[Row]:
    """What the ranking would be under each question: winner, its size and cost, whether it is another winner.

    Sizes here follow from capacities; they were not simulated as fleets.
    """
    carried = [row for row in ranked if row["status"] == FITS and row["usd_per_hour"] is not None]
    if not carried or not any(row["sensitivity"] for row in carried):
        return []
    rows = [
        _answer("as predicted", carried, {row["label"]: float(row["replicas_needed"]) for row in carried}, carried[0])
    ]
    for name, text in QUESTIONS.items():
        if name != _MORE and not any(name in (row["sensitivity"] or {}) for row in carried):
            continue  # it makes no sense for this traffic
        needed = {row["label"]: _needed(row, name) for row in carried}
        rows.append(_answer(text, carried, {label: n for label, n in needed.items() if n is not None}, carried[0]))
    return rows


def _needed(row: Row, question: str) -> float | None:
    """Replicas as a real number under a question, None if the SLO is out of reach or nobody asked."""
    if question == _MORE:
        return float(row["replicas_needed"]) * LOAD_FACTOR
    capacity = (row["sensitivity"] or {}).get(question)
    return None if not capacity else float(row["replicas_needed"]) * row["capacity"] / capacity


def _answer(text: str, carried: Sequence[Row], needed: Mapping[str, float], winner: Row) -> Row:
    sized = []
    for row in carried:
        if row["label"] in needed:
            replicas = whole(needed[row["label"]]) + row["spare_replicas"]
            sized.append((row["usd_per_hour"] / row["replicas"] * replicas, row, replicas))
    sized.sort(key=lambda item: (item[0], item[1]["label"]))
    if not sized:
        return {"question": text, "winner": None, "changed": True}
    cost, best, replicas = sized[0]
    return {
        "question": text,
        "winner": best["label"],
        "replicas": replicas,
        "gpus": replicas * best["gpus_per_replica"],
        "usd_per_hour": cost,
        "next": sized[1][1]["label"] if len(sized) > 1 else None,
        "next_extra_cost": sized[1][0] / cost - 1 if len(sized) > 1 and cost else None,
        "changed": best["label"] != winner["label"],
    }
