"""Figures of one run, from the files of its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from servecast.model.slo import SloLimit
from servecast.reports.figures.style import LIMIT, Figure, log_ticks, thousands
from servecast.reports.run_text import RESOURCES

# Points of a line over time; more only make it look like noise.
_MOST_POINTS = 250
# Metric -> title, unit, how many ms that is.
_METRICS = {"ttft": ("TTFT", "ms", 1), "tpot": ("TPOT", "ms", 1), "itl": ("ITL", "ms", 1), "e2el": ("E2EL", "s", 1000)}


def latency_cdfs(distributions: pd.DataFrame, limits: Sequence[SloLimit]) -> Figure:
    """distributions: as distributions.csv has them. limits: of the SLO; those of a mean cannot be drawn."""

    def fill(canvas: Any) -> None:
        for axis, metric in zip(canvas.subplots(2, 2).flat, _METRICS, strict=True):
            title, unit, in_ms = _METRICS[metric]
            _cdf(axis, distributions[distributions["metric"] == metric], in_ms)
            axis.set(title=title, xlabel=unit)
            for limit in limits:
                if limit.metric == metric and limit.statistic != "mean":
                    percentile = 100.0 if limit.percentile is None else limit.percentile
                    _limit(axis, limit.limit_s * 1e3 / in_ms, percentile)
        handles, labels = canvas.axes[0].get_legend_handles_labels()
        if len(labels) > 1:
            canvas.legend(handles, labels, loc="outside lower center", ncols=3)

    return Figure(
        "latency-cdf",
        "Latency distributions",
        "Share of requests (of gaps between tokens for ITL) that took at most so long. Dashed: a limit; the dot marks "
        "the share that has to be within it: a curve that passes below or to the right of the dot misses it.",
        fill,
        height_in=5.2,
    )


def _cdf(axis: Any, frame: pd.DataFrame, in_ms: int) -> None:
    for cohort, part in frame.groupby("cohort", sort=False):
        known = part.dropna()
        axis.plot(known["value_ms"] / in_ms, known["percentile"] / 100, label=str(cohort))
    axis.set_ylim(0, 1.02)
    axis.yaxis.set_major_formatter(_percent())
    positive = frame["value_ms"] > 0
    if positive.any() and frame["value_ms"].max() > 20 * frame.loc[positive, "value_ms"].min():
        axis.set_xscale("log")
        log_ticks(axis.xaxis)


def _limit(axis: Any, limit: float, percentile: float) -> None:
    axis.axvline(limit, color=LIMIT, linestyle="--", linewidth=1.2)
    axis.plot([limit], [percentile / 100], marker="o", color=LIMIT, markersize=5)


def _percent() -> Any:
    from matplotlib.ticker import PercentFormatter

    return PercentFormatter(1.0, decimals=0)


def batch_over_time(series: pd.DataFrame) -> Figure:
    def fill(canvas: Any) -> None:
        frame = _coarser(series)
        tokens, queue, pool, share = canvas.subplots(4, 1, sharex=True)
        time = frame["time_s"]
        tokens.stackplot(
            time,
            frame["decode_tokens_per_s"],
            frame["prefill_tokens_per_s"],
            labels=["decode", "prefill"],
            alpha=0.85,
            linewidth=0,
        )
        tokens.set(title="Tokens computed", ylabel="tokens/s")
        queue.plot(time, frame["running"], label="running")
        queue.plot(time, frame["waiting"], label="waiting")
        queue.set(title="Requests", ylabel="requests")
        pool.fill_between(time, 0, frame["kv_usage_max"], alpha=0.3, label="most", linewidth=0)
        pool.plot(time, frame["kv_usage"], label="mean")
        pool.set(title="KV pool in use", ylim=(0, 1.05))
        busy = frame["decode_step_share"] + frame["prefill_step_share"]
        parts = (frame["decode_step_share"], frame["prefill_step_share"], (1 - busy).clip(lower=0))
        share.stackplot(time, *parts, labels=["decode only", "with prefill", "idle"], alpha=0.85, linewidth=0)
        share.set(title="Time of the GPUs, by kind of step", xlabel="time (s)", ylim=(0, 1))
        for axis in (pool, share):
            axis.yaxis.set_major_formatter(_percent())
        thousands(tokens.yaxis)
        for axis in (tokens, queue, pool, share):
            axis.set_ylim(bottom=0)
            axis.margins(x=0)
            axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))

    return Figure(
        "batch-over-time",
        "What ran when",
        "Tokens that steps computed, requests that ran and waited, the KV pool, and what kind of step the time went "
        "to, over the run. Means over bins of time.",
        fill,
        height_in=6.6,
    )


def preemptions_over_time(series: pd.DataFrame) -> Figure:
    def fill(canvas: Any) -> None:
        frame = _coarser(series)
        above, below = canvas.subplots(2, 1, sharex=True)
        above.bar(frame["time_s"], frame["preemptions"], width=_width(frame), align="edge")
        above.set(title="Preemptions", ylabel=f"in {_width(frame):.3g} s")
        below.plot(frame["time_s"], frame["recompute_ratio"])
        below.axhline(0.20, color=LIMIT, linestyle="--", linewidth=1.2, label="thrashing")
        below.set(title="Recomputed over new tokens, last 500 steps", xlabel="time (s)")
        below.yaxis.set_major_formatter(_percent())
        below.legend(loc="upper right")
        for axis in (above, below):
            axis.set_ylim(bottom=0)
            axis.margins(x=0)

    return Figure(
        "preemptions-over-time",
        "Preemptions",
        "How often a request lost its KV blocks, and how many tokens were computed a second time for it. Above the "
        "dashed line a fifth of the output's work is done twice.",
        fill,
        height_in=4.2,
    )


def _width(frame: pd.DataFrame) -> float:
    return float(frame["width_s"].iloc[0])


def _coarser(series: pd.DataFrame) -> pd.DataFrame:
    """At most _MOST_POINTS rows: means of bins that lie side by side; of counts the sum, of `_max` the most."""
    factor = -(-len(series) // _MOST_POINTS)
    how: dict[str, Any] = dict.fromkeys(series.columns, "mean")
    how |= {"time_s": "first", "width_s": "sum", "preemptions": "sum"}
    how |= {name: "max" for name in series.columns if name.endswith("_max")}
    return series.groupby(series.index // factor).agg(how)


def time_by_cause(shares: Mapping[str, Mapping[str, float]]) -> Figure:
    """shares: name of a run or candidate -> `summary["bound_by"]`."""

    def fill(canvas: Any) -> None:
        axis = canvas.subplots()
        left = pd.Series(0.0, index=list(shares))
        for cause, words in RESOURCES.items():
            part = pd.Series({name: bound_by.get(cause, 0.0) for name, bound_by in shares.items()})
            if part.max() >= 0.005:
                axis.barh(part.index, part, left=left, label=words)
                left += part
        axis.invert_yaxis()
        axis.set(xlim=(0, 1), xlabel="share of the time of steps")
        axis.xaxis.set_major_formatter(_percent())
        axis.grid(visible=False, axis="y")
        canvas.legend(loc="outside lower center", ncols=2)

    return Figure(
        "time-by-cause",
        "Where the time of a step goes",
        "Time of all steps, by what limited it.",
        fill,
        height_in=1.9 + 0.32 * len(shares),
    )
