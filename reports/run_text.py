"""The result of one run for the terminal: a compact table in the manner of `vllm bench serve`, and what limits it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from servecast.reports.table_formats import to_rich
from servecast.reports.tables import Column, Table
from servecast.reports.units import COUNT, TWO_DECIMALS

LATENCIES = (("ttft", "TTFT"), ("tpot", "TPOT"), ("itl", "ITL"), ("e2el", "E2EL"))
_STATISTICS = ("mean", "p50", "p90", "p95", "p99")
RESOURCES = {
    "weights_bandwidth": "reading weights",
    "kv_bandwidth": "reading the KV cache",
    "compute": "arithmetic",
    "interconnect": "the link between GPUs",
    "overhead": "kernel launches and element-wise kernels",
    "host": "the CPU",
    "host_link": "copies to and from host memory",
}
# From this share of all computed tokens on recomputation is said in capitals.
WASTEFUL_RATIO = 0.2

REASONS = {
    "over_max_model_len": "longer than max_model_len",
    "prompt_over_token_budget": "prompt over max_num_batched_tokens without chunked prefill",
    "over_kv_pool": "larger than the whole KV pool",
    "queue_full": "max_queue requests waited already",
    "slo": "predicted TTFT over the limit",
}


def render_run(summary: Mapping[str, Any], title: str) -> RenderableType:
    """Everything that the terminal shows of a run."""
    parts: list[RenderableType] = [Text(title, style="bold"), _totals(summary), to_rich(latency_table(summary))]
    if "cohorts" in summary:
        parts.append(to_rich(cohort_table(summary["cohorts"])))
    parts += [Text(line) for line in explain(summary)]
    if "cost" in summary:
        parts.append(Text(_money(summary["cost"], summary["energy"])))
    return Group(*parts)


def _totals(summary: Mapping[str, Any]) -> RichTable:
    table = RichTable.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    table.add_row("Successful requests", f"{summary['completed']:,}")
    for reason, count in summary["rejected"].items():
        table.add_row(f"Rejected: {REASONS.get(reason, reason)}", f"{count:,}")
    if summary["unfinished"]:
        table.add_row("Unfinished at the end", f"{summary['unfinished']:,}")
    table.add_row("Duration (s)", f"{summary['duration']:,.2f}")
    table.add_row("Total input tokens", f"{summary['total_input_tokens']:,}")
    table.add_row("Total output tokens", f"{summary['total_output_tokens']:,}")
    table.add_row("Request throughput (req/s)", f"{summary['request_throughput']:,.2f}")
    if summary["request_goodput"] is not None:
        table.add_row("Request goodput (req/s)", f"{summary['request_goodput']:,.2f}")
    table.add_row("Output token throughput (tok/s)", f"{summary['output_throughput']:,.1f}")
    table.add_row("Total token throughput (tok/s)", f"{summary['total_token_throughput']:,.1f}")
    table.add_row("Peak concurrent requests", f"{summary['max_concurrent_requests']:,}")
    return table


def latency_table(summary: Mapping[str, Any]) -> Table:
    """Statistics of the latencies, one row a metric."""
    rows: list[dict[str, Any]] = [
        {"metric": name, **{statistic: summary[f"{statistic}_{key}_ms"] for statistic in _STATISTICS}}
        for key, name in LATENCIES
    ]
    rows.append({"metric": "Queue time", **summary["queue_time"]})
    columns = [Column("metric", "ms"), *(Column(name, name, TWO_DECIMALS) for name in _STATISTICS)]
    return Table("latencies", "Latencies", columns, rows)


def cohort_table(cohorts: Mapping[str, Any]) -> Table:
    """Each class of requests by itself, times in ms."""
    columns = [
        Column("cohort", "cohort (ms)"),
        Column("completed", "completed", COUNT),
        Column("failed", "failed", COUNT),
    ]
    columns += [
        Column(f"{statistic}_{metric}_ms", f"{metric.upper()} {statistic}", TWO_DECIMALS)
        for metric, statistic in (("ttft", "p50"), ("ttft", "p99"), ("tpot", "p50"), ("tpot", "p99"), ("e2el", "p99"))
    ]
    return Table("cohorts", "Cohorts", columns, [{"cohort": name, **part} for name, part in cohorts.items()])


def explain(summary: Mapping[str, Any]) -> list[str]:
    """What limits the run, in sentences."""
    lines = [_load(summary), _busy(summary)] if summary["completed"] else ["No request was answered."]
    if summary["preemptions"]:
        lines.append(
            f"The KV pool was too small at times: {summary['preemptions']:,} preemptions of "
            f"{summary['requests_preempted']:,} requests, {summary['recompute_ratio']:.1%} of all tokens "
            "computed again."
        )
    if summary["thrash_events"]:
        first = summary["thrash_events"][0]
        lines.append(
            f"The replica thrashed from {first['time_s']:,.1f} s on ({first['ratio']:.0%} of the new tokens were "
            f"computed again); {summary['recompute_seconds']:,.1f} s went to recomputation. See scheduler.watermark."
        )
    if summary["recompute_ratio"] > WASTEFUL_RATIO:
        lines.append(
            f"WASTED WORK: {summary['recompute_ratio']:.0%} of all computed tokens had been computed before. A larger "
            "KV pool, a lower max_num_seqs or a watermark avoids that."
        )
    lines += _stalls(summary) + _admission(summary.get("admission"))
    if summary["prefix_hit_rate"]:
        lines.append(f"Prefix cache: {summary['prefix_hit_rate']:.1%} of the prompt tokens were found.")
    if summary["swap_fallbacks"]:
        lines.append(f"swap_space was full {summary['swap_fallbacks']:,} times; those KV blocks were computed again.")
    for verdict in summary["slo"] or []:
        value = "no value" if verdict["value_ms"] is None else f"{verdict['value_ms']:,.1f} ms"
        lines.append(f"SLO {verdict['limit']}: {'met' if verdict['met'] else 'MISSED'} ({value})")
    return lines


def _stalls(summary: Mapping[str, Any]) -> list[str]:
    """Requests that were preempted again and again without a new token: for the moment, or with no end in sight."""
    livelocked = summary["livelocked"]
    waited = [id for id in summary["stalled"] if id not in livelocked]
    lines = []
    if livelocked:
        unfinished = len(summary["livelocked_unfinished"])
        end = f"{unfinished:,} of them never finished" if unfinished else "they finished when fewer came"
        lines.append(
            f"LIVELOCK: {len(livelocked):,} requests were preempted over and over while newcomers were let in; {end}. "
            f"Ids {_some(livelocked)}."
        )
    if waited:
        lines.append(
            f"{len(waited):,} requests were preempted ten times or more in a row without a new token until there was "
            f"room for them. Ids {_some(waited)}."
        )
    return lines


def _admission(admission: Mapping[str, Any] | None) -> list[str]:
    """What admission control brings."""
    if admission is None:
        return []
    ruled, free = admission["with"], admission["without"]
    tails = " and ".join(
        "none" if part["p99_ttft_ms"] is None else f"{part['p99_ttft_ms']:,.1f} ms" for part in (ruled, free)
    )
    return [
        f"Admission control ({admission['rule']}) turned {admission['rejected']:,} away: goodput "
        f"{ruled['request_goodput']:,.2f} req/s with it, {free['request_goodput']:,.2f} without; TTFT p99 {tails}."
    ]


def _some(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids[:10])) + (", ..." if len(ids) > 10 else "")


def _money(cost: Mapping[str, Any], energy: Mapping[str, Any]) -> str:
    watts = f"GPUs draw about {energy['gpu_watts']:,.0f} W"
    if energy["joules_per_output_token"] is not None:
        watts += f", {energy['joules_per_output_token']:,.2g} J for each output token"
    price = cost["price"]
    if price is None:
        return f"Cost: no price of this GPU is known (give price: {{usd_per_gpu_hour: ...}}). {watts}."
    listed = f"${price['usd']:g} a GPU and hour, {price_origin(price)}"
    tokens = cost["usd_per_million_tokens"]
    if tokens["blended"] is None:
        return f"Cost: ${cost['usd_per_hour']:,.2f} an hour ({listed}). {watts}."
    split = ", ".join(f"{name} ${tokens[name]:,.3g}" for name in ("input", "output", "blended") if tokens[name])
    return f"Cost: ${cost['usd_per_hour']:,.2f} an hour ({listed}); a million tokens: {split}. {watts}."


def price_origin(price: Mapping[str, Any]) -> str:
    """Provider and date of a price, and whether it is stale."""
    if price["date"] is None:
        return str(price["provider"])
    return f"{price['provider']}, {price['date']}{', STALE' if price['stale'] else ''}"


def _load(summary: Mapping[str, Any]) -> str:
    usage = summary["kv_usage"]
    pool = f"KV pool {usage['mean']:.0%} full on average, {usage['max']:.0%} at most."
    return {
        "below": "Load: below saturation; requests are admitted at once. ",
        "at": "Load: at saturation; some requests wait for admission, but the queue does not keep growing. ",
        "above": "Load: ABOVE saturation; more arrives than is served, so latencies grow with the length of the run. ",
        None: "",
    }[summary["saturation"]] + pool


def _busy(summary: Mapping[str, Any]) -> str:
    shares = sorted(summary["bound_by"].items(), key=lambda item: -item[1])
    named = ", ".join(f"{RESOURCES[name]} {share:.0%}" for name, share in shares if share >= 0.005)
    return f"GPUs busy {summary['utilization']:.0%} of the time, bound by: {named}."
