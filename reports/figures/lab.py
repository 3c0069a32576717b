"""Figures of lab experiments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servecast.reports.figures.style import Figure, draw, log_ticks, thousands
from servecast.sweeps.lab.rows import select
from servecast.sweeps.lab.runner import LabResult


def draw_lab(result: LabResult, file: Path) -> None:
    """One panel beside the other; the ending of `file` (.svg, .png) is the format."""
    panels = result.experiment.figure

    def fill(canvas: Any) -> None:
        for axis, panel in zip(canvas.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            _panel(result, panel, axis)
        canvas.suptitle(result.experiment.title)

    title = result.experiment.title
    drawn = draw(Figure("figure", title, title, fill, height_in=4.0, width_in=5.5 * len(panels)))
    if file.suffix == ".svg":
        file.write_text(drawn.svg, encoding="utf-8")
    else:
        file.write_bytes(drawn.png)


def _panel(result: LabResult, panel: Mapping[str, Any], axis: Any) -> None:
    import pandas as pd
    import seaborn as sns

    frame = pd.DataFrame(select(result.rows, part=panel["part"]))
    x, y, hue = panel["x"], panel["y"], panel.get("hue")
    if hue is None:
        frame, y, hue = frame.melt(id_vars=[x], value_vars=y, var_name="figure"), "value", "figure"
    else:
        y = y[0]
        frame[hue] = frame[hue].astype(str)
    palette = sns.color_palette(n_colors=frame[hue].nunique())
    if panel["kind"] == "bar":
        sns.barplot(frame, x=x, y=y, hue=hue, palette=palette, ax=axis, errorbar=None)
    else:
        sns.lineplot(frame, x=x, y=y, hue=hue, palette=palette, ax=axis, marker="o", errorbar=None)
    sns.move_legend(axis, "upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, title=None)
    if panel.get("log_x"):
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    if panel.get("log_y"):
        axis.set_yscale("log")
        log_ticks(axis.yaxis)
    else:
        thousands(axis.yaxis)
    axis.set_ylabel(panel.get("y_label", y))
    axis.set_title(panel["part"])
