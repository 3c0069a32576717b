"""A comparison for the terminal and as Markdown: the recommendation, what was asked, the tables, what they rest on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from servecast.reports.capacity_text import limit_text
from servecast.reports.comparison_tables import all_tables, carried
from servecast.reports.table_formats import to_markdown, to_rich
from servecast.reports.units import LOAD

Figures = Mapping[str, Any]


def render_comparison(figures: Figures) -> RenderableType:
    """Everything that the terminal shows."""
    parts: list[RenderableType] = [Text(asked(figures)), Text(figures["recommendation"], style="bold")]
    parts += [Text(line) for line in verification(figures)]
    for table in all_tables(figures):
        parts += [Text(), Text(table.title, style="bold"), to_rich(table)]
    parts += [Text(), *(Text(line) for line in assumptions(figures))]
    return Group(*parts)


def comparison_markdown(figures: Figures) -> str:
    """The same as a page of Markdown."""
    parts = [f"# {figures['name']}", asked(figures), f"**{figures['recommendation']}**", *verification(figures)]
    for table in all_tables(figures):
        parts += [f"## {table.title}", to_markdown(table).rstrip()]
    parts += ["## What this rests on", *(f"- {line}" for line in assumptions(figures))]
    return "\n\n".join(parts) + "\n"


def asked(figures: Figures) -> str:
    """The question in a sentence."""
    question = figures["question"]
    load = "-" if question["target"] is None else f"{LOAD.text(question['target'])} {question['unit']}"
    headroom = f", {question['headroom']:.0%} headroom in it" if question["headroom"] else ""
    spare = question["spare_replicas"]
    extra = f", {spare} spare replica{'s' if spare > 1 else ''}" if spare else ""
    single = f" ({question['attainment']:.4g} of the requests)" if _limits_single_requests(question["slo"]) else ""
    return f"{figures['name']}: {', '.join(question['models'])}, {load}{headroom}{extra}, {question['slo']}{single}"


def _limits_single_requests(slo: str) -> bool:
    return any("<=" not in limit for limit in slo.split())


def verification(figures: Figures) -> Iterator[str]:
    """What the simulations of the winner's fleet said, with its replicas and with one less."""
    rows = carried(figures)
    if not rows or rows[0]["fleet"]["at"] is None:
        return
    best = rows[0]
    at, below, spare = best["fleet"]["at"], best["fleet"]["below"], best["spare_replicas"]
    needed = best["replicas"] - spare
    yield f"Simulated with {_replicas(needed)}: {_outcome(at)}."
    if below is not None:
        yield f"Simulated with {_replicas(needed - 1)}: {_outcome(below)}."
    if not best["verified"]:
        yield "The search for the smallest fleet ran out of simulations: fewer replicas may do."


def _seeds(count: int) -> str:
    return f"{count} seed{'' if count == 1 else 's'}"


def _replicas(count: int) -> str:
    return f"{count} replica{'' if count == 1 else 's'}"


def _outcome(probe: Mapping[str, Any]) -> str:
    word = "met" if probe["met"] else "MISSED"
    limits = ", ".join(limit_text(limit) for limit in probe["limits"])
    grows = "; the queue grows" if probe["growing"] else ""
    return f"{word}; {limits}; {probe['attained']:.2%} of the requests are within every limit{grows}"


def assumptions(figures: Figures) -> Iterator[str]:
    """What a reader must know of the figures."""
    question = figures["question"]
    yield (
        f"Ranked by {question['basis']} cost. Ranges come from {_seeds(question['seeds'])} and the error band of the "
        "model (docs/capacity.md); a tie means that they overlap."
    )
    if any(price["stale"] for price in figures["prices"]):
        yield "Prices marked STALE are older than 180 days: put today's into `prices`."
    yield "Watts and joules are estimates from the TDP. Sizes under 'What if' follow from capacities, not fleet runs."
    yield from figures.get("notes", [])
    notes = dict.fromkeys(f"{row['gpu']}: {note}" for row in figures["candidates"] for note in row.get("notes") or [])
    yield from notes
