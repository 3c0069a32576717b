"""The figures that a sweep file asks for: curves along an axis, or a heat map over two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from servecast.hardware.errors import ConfigError
from servecast.reports.figures.load import heat_map, series_of
from servecast.reports.figures.style import Figure, log_ticks, thousands
from servecast.reports.sweep_table import sweep_frame
from servecast.sweeps.sweep import SweepResult

# Of the names in one row of the legend.
_LEGEND_CHARACTERS = 60


def sweep_figures(result: SweepResult) -> list[Figure]:
    """As the `figure` of the sweep file says; none if there is no number to draw. Raises ConfigError for words."""
    asked, frame = result.sweep.section.figure, sweep_frame(result)
    ys = [name for name in asked.y or result.figures if _drawable(result, frame, name, asked.y)]
    ys = ys if asked.y else ys[:1]
    axes = [name for name in result.labels if pd.api.types.is_numeric_dtype(frame[name])]
    x = asked.x or (axes or list(result.labels))[-1]
    if asked.kind == "heat_map" or (asked.kind is None and axes == list(result.labels) and len(axes) == 2):
        if len(result.labels) != 2:
            raise _wrong(result, f"kind: heat_map is for two axes, not for {len(result.labels)}")
        y = next(name for name in result.labels if name != x)
        return [heat_map(frame, x, y, value, value) for value in ys]
    return [_curves(result, frame, x, ys)] if ys else []


def _drawable(result: SweepResult, frame: pd.DataFrame, name: str, asked: Sequence[str]) -> bool:
    """Whether the column holds numbers; one that holds nothing, as every point failed, is left out."""
    if any(isinstance(value, str) for value in frame[name]):
        if name in asked:
            raise _wrong(result, f"y: {name!r} holds words, which cannot be drawn")
        return False
    return bool(frame[name].notna().any())


def _wrong(result: SweepResult, problem: str) -> ConfigError:
    return result.sweep.error("figure", ConfigError(problem))


def _curves(result: SweepResult, frame: pd.DataFrame, x: str, ys: Sequence[str]) -> Figure:
    asked = result.sweep.section.figure
    others = [name for name in result.labels if name != x]
    words = [[f"{name} {value}" if _is_number(value) else str(value) for value in frame[name]] for name in others]
    frame = frame.assign(series=[", ".join(row) for row in zip(*words, strict=True)] if others else "")

    def fill(canvas: Any) -> None:
        panels = canvas.subplots(len(ys), 1, squeeze=False, sharex=True)[:, 0]
        for axis, y in zip(panels, ys, strict=True):
            for marker, colour, (name, part) in series_of(frame.dropna(subset=list(ys), how="all")):
                axis.plot(part[x], part[y], marker=marker, markersize=4.5, color=colour, label=name)
                if f"{y}_low" in part:
                    axis.fill_between(
                        part[x], part[f"{y}_low"], part[f"{y}_high"], color=colour, alpha=0.18, linewidth=0
                    )
            axis.set(title=y, yscale="log" if asked.log_y else "linear")
            (log_ticks if asked.log_y else thousands)(axis.yaxis)
        panels[-1].set(xlabel=x, xscale="log" if asked.log_x else "linear")
        if pd.api.types.is_numeric_dtype(frame[x]):
            (log_ticks if asked.log_x else thousands)(panels[-1].xaxis)
        if others:
            handles, labels = panels[0].get_legend_handles_labels()
            columns = max(1, _LEGEND_CHARACTERS // max(map(len, labels)))
            canvas.legend(handles, labels, loc="outside lower center", ncols=min(columns, 3))

    bands = " Bands: 95 % interval of the mean." if result.sweep.section.replicates > 1 else ""
    caption = f"Each point is a point of the sweep.{bands}"
    return Figure("curves", result.sweep.name, caption, fill, height_in=1.1 + 2.5 * len(ys))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
