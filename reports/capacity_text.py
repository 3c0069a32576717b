"""The answer of a capacity search for the terminal: the search as a table, and what it found in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from servecast.reports.run_text import REASONS
from servecast.reports.units import LIMITED_MS, LOAD, MIXED


def render_capacity(figures: Mapping[str, Any], title: str) -> RenderableType:
    """Everything that the terminal shows. figures: of `capacity_figures`."""
    parts: list[RenderableType] = [Text(title, style="bold"), Text(answer(figures), style="bold")]
    parts += [_probes(figures), *(Text(line) for line in explain_capacity(figures))]
    return Group(*parts)


def load_text(load: float, figures: Mapping[str, Any]) -> str:
    """A load with its unit."""
    return f"{load:,.0f} {figures['unit']}" if figures["load"] == "concurrency" else f"{load:,.3g} {figures['unit']}"


def answer(figures: Mapping[str, Any]) -> str:
    """The answer in a sentence, with its interval."""
    slo, load = figures["slo"], figures["capacity"]
    if load is None:
        return f"No load meets {slo}: even {load_text(figures['above'], figures)} misses it."
    if figures["ceiling_hit"]:
        return f"Capacity: {load_text(load, figures)} or more within {slo}: the highest load tried still meets it."
    low, high = figures["interval"]
    between = f" ({low:,.3g} to {high:,.3g})" if high > low else ""
    return f"Capacity: {load_text(load, figures)}{between} within {slo}"


def _probes(figures: Mapping[str, Any]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(f"{figures['load']} ({figures['unit']})", justify="right")
    for title in ("TTFT p50", "TTFT p99", "TPOT p50", "TPOT p99", "req/s", "output tok/s"):
        table.add_column(title, justify="right")
    table.add_column("SLO", no_wrap=True)
    tried = [probe for probe in figures["probes"] if probe["load"] != figures["above"]]
    tried += [figures["missed"]] if figures["missed"] else []
    for probe in sorted(tried, key=lambda probe: float(probe["load"])):
        names = ("p50_ttft_ms", "p99_ttft_ms", "p50_tpot_ms", "p99_tpot_ms", "request_throughput", "output_throughput")
        cells = [MIXED.text(probe.get(name)) for name in names]
        table.add_row(LOAD.text(probe["load"]), *cells, _verdict(probe))
    return table


def _verdict(probe: Mapping[str, Any]) -> str:
    if probe["met"]:
        return "met"
    if probe["stopped"] and "p99_ttft_ms" not in probe:
        return "missed (stopped when certain)"
    over = [limit["limit"] for limit in probe["limits"] if limit["ratio"] is None or limit["ratio"] > 1]
    return "missed: " + ", ".join([*dict.fromkeys(over), *(["the queue grows"] if probe["growing"] else [])])


def explain_capacity(figures: Mapping[str, Any]) -> Iterator[str]:
    """What binds, what the figures stand on, and how sure they are."""
    missed = figures["missed"]
    if missed is not None:
        yield _binding(figures, missed)
    if figures["at"] is not None:
        closest = figures["at"]["limits"][0]
        yield f"At {load_text(figures['capacity'], figures)} all limits are met; the closest: {limit_text(closest)}."
    yield _basis(figures)
    if not figures["precise"] and figures["capacity"] is not None and figures["above"] is not None:
        yield "The search ran out of simulations before it was as precise as asked."
    yield from _sureness(figures)
    for reason, count in (figures["at"] or missed or {}).get("unservable", {}).items():
        yield f"Not judged: {count:,} requests that no load would serve ({REASONS.get(reason, reason)})."


def _binding(figures: Mapping[str, Any], missed: Mapping[str, Any]) -> str:
    where = f"At {load_text(figures['above'], figures)}"
    over = [limit for limit in missed["limits"] if limit["ratio"] is None or limit["ratio"] > 1]
    grows = f"{where} more arrives than is served: the queue grows as long as the run lasts."
    if not over:
        return grows
    text = (
        f"{where} {'; '.join(limit_text(limit) for limit in over)}: {'this binds' if len(over) == 1 else 'these bind'}."
    )
    return f"{text} The queue grows there." if missed["growing"] else text


def limit_text(limit: Mapping[str, Any]) -> str:
    """A limit and its value, in words."""
    name = limit["limit"] if limit["cohort"] is None else f"{limit['limit']} in {limit['cohort']}"
    if limit["share"] is not None:
        return f"{name}: {limit['share']:.2%} meet it"
    if limit["value_ms"] is None:
        return f"{name}: no end in sight"
    return f"{name} is {LIMITED_MS.with_symbol(limit['value_ms'])}"


def _basis(figures: Mapping[str, Any]) -> str:
    probe = figures["at"] or figures["missed"] or figures["probes"][-1]
    behind = min(limit["requests"] for limit in probe["limits"])
    return (
        f"{figures['requests']:,} requests a simulation, {figures['simulations']} simulations. The first "
        f"{figures['warm_up_share']:.0%} of the requests (warm-up) and the last {figures['cool_down_share']:.0%} "
        f"are not judged; {behind:,} stand behind each figure."
    )


def _sureness(figures: Mapping[str, Any]) -> Iterator[str]:
    if len(figures["by_seed"]) > 1:
        values = ", ".join(f"{value:,.3g}" for value in figures["by_seed"])
        yield f"By seed: {values} (95 % interval of the mean: +-{figures['seed_half_width']:.1%})."
    error = figures["model_error"]
    if error is not None and figures["slow"] is not None and figures["fast"] is not None:
        yield (
            f"Model error: {figures['slow']:,.3g} if steps take {error['tpot']:.0%} longer than predicted and TTFT "
            f"{error['ttft']:.0%}, {figures['fast']:,.3g} if they are shorter by that ({error['basis']})."
        )
