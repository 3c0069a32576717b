"""Predicted against measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from servecast.reports.figures.style import Figure, log_ticks

_BAND = 0.10


def parity(panels: Mapping[str, pd.DataFrame], unit: str) -> Figure:
    """panels: title -> frame with measured, predicted (both in `unit`) and group (of hardware and engine, say)."""

    def fill(canvas: Any) -> None:
        import seaborn as sns

        groups = list(dict.fromkeys(group for frame in panels.values() for group in frame["group"]))
        colours = dict(zip(groups, sns.color_palette(n_colors=len(groups)), strict=True))
        axes = canvas.subplots(1, len(panels), squeeze=False)[0]
        for axis, (title, frame) in zip(axes, panels.items(), strict=True):
            ends = _ends(frame)
            band = [[end * (1 + sign * _BAND) for end in ends] for sign in (-1, 1)]
            axis.fill_between(ends, *band, color="gray", alpha=0.2, linewidth=0)
            axis.plot(ends, ends, color="gray", linewidth=1)
            for group, part in frame.groupby("group", sort=False):
                axis.plot(part["measured"], part["predicted"], "o", markersize=4, alpha=0.7, color=colours[group])
            axis.set(title=title, xlabel=f"measured ({unit})", ylabel=f"predicted ({unit})", xscale="log", yscale="log")
            axis.set(xlim=ends, ylim=ends)
            for side in (axis.xaxis, axis.yaxis):
                log_ticks(side)
        _legend(canvas, colours)

    return Figure(
        "parity",
        "Predicted against measured",
        "Each point is a measured run; on the line the prediction is right, in the grey band within 10 %.",
        fill,
        height_in=4.0,
        width_in=4.2 * len(panels),
    )


def _ends(frame: pd.DataFrame) -> list[float]:
    """Of both axes, so that the line of equal values is a diagonal."""
    values = frame[["measured", "predicted"]].to_numpy(dtype=np.float64)
    return [float(np.nanmin(values)) / 1.2, float(np.nanmax(values)) * 1.2]


def _legend(canvas: Any, colours: Mapping[str, Any]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], linestyle="", marker="o", color=colour) for colour in colours.values()]
    canvas.legend(handles, list(colours), loc="outside lower center", ncols=3)
