"""Figures of many points that differ in load and hardware: latency, throughput and cost; heat maps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from servecast.reports.figures.style import LIMIT, Figure, log_ticks, thousands

# Heat maps: cells that are narrower have no room for a number; values that differ more get colours by their logarithm.
_MOST_LABELLED_COLUMNS = 8
_WIDE_RANGE = 20
_MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")


def latency_vs_load(panels: Mapping[str, tuple[pd.DataFrame, float | None]], load_label: str) -> Figure:
    """panels: title -> (frame with series, load, value_ms, low_ms, high_ms; limit in ms or None)."""

    def fill(canvas: Any) -> None:
        axes = canvas.subplots(len(panels), 1, squeeze=False, sharex=True)[:, 0]
        for axis, (title, (frame, limit_ms)) in zip(axes, panels.items(), strict=True):
            for marker, colour, (name, part) in series_of(frame):
                part = part.sort_values("load")
                axis.plot(part["load"], part["value_ms"], marker=marker, markersize=4.5, color=colour, label=name)
                axis.fill_between(part["load"], part["low_ms"], part["high_ms"], color=colour, alpha=0.18, linewidth=0)
            if limit_ms is not None:
                axis.axhline(limit_ms, color=LIMIT, linestyle="--", linewidth=1.4, label="limit")
            axis.set(title=title, ylabel="ms", yscale="log")
            log_ticks(axis.yaxis)
            axis.set_xlim(left=0)
        axes[-1].set_xlabel(load_label)
        _legend_below(canvas, axes[0])

    return Figure(
        "latency-vs-load",
        "Latency against load",
        "Each point is a simulation; the band is the error to expect of it (seeds and model). Dashed: the limit. Where "
        "a curve turns upward, more arrives than is served.",
        fill,
        height_in=1.1 + 2.5 * len(panels),
    )


def throughput_per_gpu(frame: pd.DataFrame) -> Figure:
    """frame: series, tokens_per_s_per_user, tokens_per_s_per_gpu, in order of the load within a series."""

    def fill(canvas: Any) -> None:
        axis = canvas.subplots()
        for marker, colour, (name, part) in series_of(frame):
            points = (part["tokens_per_s_per_user"], part["tokens_per_s_per_gpu"])
            axis.plot(*points, marker=marker, markersize=4.5, color=colour, label=name)
        best = _pareto(frame)
        axis.plot(
            best["tokens_per_s_per_user"],
            best["tokens_per_s_per_gpu"],
            color="gray",
            linewidth=6,
            alpha=0.25,
            label="best at that speed",
            zorder=1,
        )
        axis.set(xlabel="output tokens/s per user", ylabel="output tokens/s per GPU")
        axis.set_xlim(left=0)
        axis.set_ylim(bottom=0)
        thousands(axis.yaxis)
        _legend_below(canvas, axis)

    return Figure(
        "throughput-per-gpu",
        "Throughput per GPU against speed for each user",
        "To the right each user is served faster, upward each GPU serves more. The grey line joins the points that no "
        "other beats in both.",
        fill,
        height_in=4.4,
    )


def _pareto(frame: pd.DataFrame) -> pd.DataFrame:
    """Points that no other beats in both, from the fastest for a user to the slowest."""
    ordered = frame.sort_values(["tokens_per_s_per_user", "tokens_per_s_per_gpu"], ascending=False)
    best = ordered["tokens_per_s_per_gpu"].cummax()
    return ordered[(ordered["tokens_per_s_per_gpu"] >= best) & ~best.duplicated()]


def cost_vs_load(frame: pd.DataFrame, load_label: str, cost_label: str) -> Figure:
    """frame: series, load, cost, and `meets` (whether all limits are met)."""

    def fill(canvas: Any) -> None:
        axis = canvas.subplots()
        for marker, colour, (name, part) in series_of(frame):
            part = part.sort_values("load")
            axis.plot(part["load"], part["cost"], color=colour, label=name, marker=marker, markersize=4.5)
            missed = part[~part["meets"].astype(bool)]
            axis.plot(missed["load"], missed["cost"], "x", color=LIMIT, markersize=9, markeredgewidth=1.8, zorder=3)
        axis.set(xlabel=load_label, ylabel=cost_label, yscale="log")
        log_ticks(axis.yaxis)
        axis.set_xlim(left=0)
        _legend_below(canvas, axis, crosses=not frame["meets"].all())

    return Figure(
        "cost-vs-load",
        "Cost against load",
        "What it costs at each load, by the prices of this report. Red crosses: a limit is missed, so that the point "
        "is no offer.",
        fill,
        height_in=4.2,
    )


def heat_map(frame: pd.DataFrame, x: str, y: str, value: str, label: str) -> Figure:
    """frame: one row for each pair of `x` and `y`. label: of the values, with their unit."""

    def fill(canvas: Any) -> None:
        import seaborn as sns
        from matplotlib.colors import LogNorm

        axis = canvas.subplots()
        table = frame.pivot_table(index=y, columns=x, values=value, sort=True, dropna=False)
        least, most = float(frame[value].min()), float(frame[value].max())
        sns.heatmap(
            table,
            annot=table.map(_short) if table.shape[1] <= _MOST_LABELLED_COLUMNS else None,
            annot_kws={"fontsize": 10},
            fmt="",
            cmap="cividis_r",
            norm=LogNorm() if least > 0 and most / least > _WIDE_RANGE else None,
            cbar_kws={"label": label},
            ax=axis,
        )
        thousands(canvas.axes[-1].yaxis)
        axis.invert_yaxis()
        axis.set(xlabel=x, ylabel=y)
        axis.tick_params(axis="both", rotation=0)

    caption = f"Each cell is a point of the sweep: {label}."
    return Figure(f"heat-map-{_slug(value)}", label, caption, fill, height_in=4.2)


def _short(number: float) -> str:
    """Three digits that fit a cell: 0.0123, 12.3, 123, 1,234, 12.3k."""
    if pd.isna(number):
        return "-"
    if abs(number) >= 10_000:
        return f"{number / 1000:,.3g}k" if abs(number) < 999_500 else f"{number / 1e6:,.3g}M"
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def _slug(text: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in text.lower())


def series_of(frame: pd.DataFrame) -> Iterator[tuple[str, Any, tuple[str, pd.DataFrame]]]:
    """Marker, colour, and name with rows of each series, in order of appearance."""
    import seaborn as sns

    names: Sequence[str] = list(dict.fromkeys(frame["series"]))
    for i, (colour, name) in enumerate(zip(sns.color_palette(n_colors=len(names)), names, strict=True)):
        yield _MARKERS[i % len(_MARKERS)], colour, (str(name), frame[frame["series"] == name])


def _legend_below(canvas: Any, axis: Any, *, crosses: bool = False) -> None:
    from matplotlib.lines import Line2D

    handles, labels = axis.get_legend_handles_labels()
    if crosses:
        handles.append(Line2D([], [], linestyle="", marker="x", color=LIMIT, markersize=9, markeredgewidth=1.8))
        labels.append("misses a limit")
    canvas.legend(handles, labels, loc="outside lower center", ncols=3)
