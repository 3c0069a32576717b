"""The report of one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from servecast.reports.accuracy_text import accuracy_section, band_sentence, band_share, within_band
from servecast.reports.figures.roofline import roofline
from servecast.reports.figures.run import batch_over_time, latency_cdfs, preemptions_over_time, time_by_cause
from servecast.reports.price_text import price_section
from servecast.reports.report import Answer, KeyNumber, Report, Section
from servecast.reports.run_text import cohort_table, explain, latency_table
from servecast.reports.settings import settings_tables
from servecast.reports.stored_run import StoredRun
from servecast.reports.tables import Column, Table
from servecast.reports.units import COUNT, GIB, MS, REQUESTS_PER_S, SECONDS, SHARE, TOKENS_PER_S, Unit

_TOTALS: Mapping[str, tuple[str, Unit]] = {
    "completed": ("requests answered", COUNT),
    "failed": ("requests not answered", COUNT),
    "duration": ("duration", SECONDS),
    "total_input_tokens": ("input tokens", COUNT),
    "total_output_tokens": ("output tokens", COUNT),
    "request_throughput": ("request throughput", REQUESTS_PER_S),
    "request_goodput": ("request goodput", REQUESTS_PER_S),
    "goodput_share": ("requests within all limits", SHARE),
    "output_throughput": ("output throughput", TOKENS_PER_S),
    "total_token_throughput": ("input and output throughput", TOKENS_PER_S),
    "max_concurrent_requests": ("most requests at once", COUNT),
    "utilization": ("time in which a step runs", SHARE),
    "preemptions": ("preemptions", COUNT),
    "recompute_ratio": ("tokens computed again", SHARE),
    "prefix_hit_rate": ("prompt tokens found in the prefix cache", SHARE),
}
_MEMORY = {
    "total_gib": "total, as the engine sees it",
    "requested_gib": "requested (gpu_memory_utilization)",
    "weights_gib": "weights",
    "activation_gib": "activation (peak)",
    "non_torch_gib": "non-torch",
    "kv_gib": "KV cache",
    "cuda_graph_gib": "CUDA graphs (rough)",
}


def run_report(run: StoredRun) -> Report:
    """Everything that can be said of `run` from its files."""
    summary = run.summary
    asked, defaults = settings_tables(run.scenario, run.details["defaulted_keys"])
    sections = [
        Section("What was asked", tables=[asked], folded=[defaults]),
        Section("Figures of the run", tables=[*_verdicts(summary), _totals(summary)]),
        _limits(summary),
        _latencies(run),
        Section("Over time", figures=list(_over_time(run))),
        _memory(run.details["memory"]),
        accuracy_section(summary["accuracy"]),
        *price_section(summary),
        _provenance(run),
    ]
    return Report(run.scenario["name"], str(run.details["title"]), _answer(run), sections)


def _answer(run: StoredRun) -> Answer:
    summary, verdicts = run.summary, run.summary["slo"] or []
    missed = [verdict for verdict in verdicts if not verdict["met"]]
    load = REQUESTS_PER_S.with_symbol(summary["request_throughput"])
    if not verdicts:
        sentence = f"{load} were answered; the scenario sets no limits to hold them against."
    elif missed:
        listed = " and ".join(f"{item['limit']} ({MS.with_symbol(item['value_ms'])})" for item in missed)
        sentence = f"The limits are missed at {load}: {listed}."
    else:
        sentence = f"All limits are met at {load}."
    unsure = _within_the_error(run)
    if unsure:
        sentence += f" The limit lies within the error of the model for {' and '.join(unsure)}."
    if summary["saturation"] == "above":
        sentence += " More arrives than is served: waits grow with the length of the run."
    seed = summary["provenance"]["seed"]
    interval = (
        f"One simulation (seed {seed}), so there is no interval between seeds. {band_sentence(summary['accuracy'])}"
    )
    good = not missed if verdicts and not unsure else None
    return Answer(sentence, interval, list(_key_numbers(summary)), good)


def _key_numbers(summary: Mapping[str, Any]) -> Iterator[KeyNumber]:
    verdicts = summary["slo"] or []
    for verdict in verdicts[:2]:
        limit = str(verdict["limit"])
        interval = _interval(summary, limit.split(":")[0], verdict["value_ms"])
        name = limit.split("<=")[0].replace(":", " ").upper()
        yield KeyNumber(MS.with_symbol(verdict["value_ms"]), name, f"{interval}limit {limit}")
    if not verdicts:
        yield KeyNumber(MS.with_symbol(summary["p99_ttft_ms"]), "TTFT P99")
    if len(verdicts) < 2:
        yield KeyNumber(MS.with_symbol(summary["p99_tpot_ms"]), "TPOT P99")
    completed = f"{summary['completed']:,} of {summary['completed'] + summary['failed']:,} requests answered"
    yield KeyNumber(TOKENS_PER_S.with_symbol(summary["output_throughput"]), "output throughput", completed)


def _within_the_error(run: StoredRun) -> list[str]:
    """Limits that the error of the model leaves open."""
    limits_ms = {str(limit): limit.limit_s * 1e3 for limit in run.limits}
    found = []
    for verdict in run.summary["slo"] or ():
        share = band_share(run.summary["accuracy"], str(verdict["limit"]).split(":")[0])
        if share is not None and verdict["value_ms"] is not None:
            low, high = within_band(verdict["value_ms"], share)
            if low <= limits_ms.get(verdict["limit"], 0.0) < high:
                found.append(str(verdict["limit"]))
    return found


def _interval(summary: Mapping[str, Any], metric: str, value_ms: float | None) -> str:
    """What may be measured, by the error of the model: "100 to 140 ms, ", or nothing where none is known."""
    share = band_share(summary["accuracy"], metric)
    if share is None or value_ms is None:
        return ""
    low, high = within_band(value_ms, share)
    return f"{MS.text(low)} to {MS.with_symbol(high)}, "


def _totals(summary: Mapping[str, Any]) -> Table:
    # Each row has a unit of its own, so the values are texts; summary.json has the exact ones.
    rows = [
        {"figure": f"{name} ({unit.symbol})" if unit.symbol else name, "value": unit.text(summary[key])}
        for key, (name, unit) in _TOTALS.items()
        if summary.get(key) is not None
    ]
    rows += [{"figure": f"rejected: {reason}", "value": f"{count:,}"} for reason, count in summary["rejected"].items()]
    return Table("totals", "Totals", (Column("figure", "figure"), Column("value", "value")), rows)


def _verdicts(summary: Mapping[str, Any]) -> Iterator[Table]:
    if summary["slo"]:
        columns = (Column("limit", "limit"), Column("value_ms", "found", MS), Column("met", "met"))
        yield Table("limits", "Limits", columns, summary["slo"])


def _limits(summary: Mapping[str, Any]) -> Section:
    figures = [time_by_cause({"this run": summary["bound_by"]})]
    if summary["roofline"] is not None:
        figures.append(roofline({str(summary["accuracy"]["gpu"]): summary["roofline"]}))
    return Section("What limits it", points=explain(summary), figures=figures)


def _latencies(run: StoredRun) -> Section:
    tables = [latency_table(run.summary)]
    if "cohorts" in run.summary:
        tables.append(cohort_table(run.summary["cohorts"]))
    return Section("Latency", tables=tables, figures=[latency_cdfs(run.distributions, run.limits)])


def _over_time(run: StoredRun) -> Iterator[Any]:
    yield batch_over_time(run.series)
    if run.summary["preemptions"]:
        yield preemptions_over_time(run.series)


def _memory(plan: Mapping[str, Any]) -> Section:
    rows = [{"part": name, "gib": plan[key]} for key, name in _MEMORY.items()]
    table = Table("memory", "Memory of each GPU", (Column("part", "part"), Column("gib", "size", GIB)), rows)
    sentence = (
        f"The pool holds {plan['kv_pool_tokens']:,} tokens in {plan['kv_pool_blocks']:,} blocks of "
        f"{plan['block_size']}: {plan['max_concurrency']:,.1f} sequences of {plan['max_model_len']:,} tokens at once."
    )
    return Section("Memory", [sentence], tables=[table])


def _provenance(run: StoredRun) -> Section:
    provenance = run.summary["provenance"]
    points = [
        f"servecast {provenance['version']}, seed {provenance['seed']}",
        f"To repeat it: servecast run {run.folder}/scenario.yaml (the file is below)",
        *provenance["notes"],
    ]
    return Section("Provenance", points=points, code=run.scenario_yaml)
