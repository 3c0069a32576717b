"""Figures of lab experiments. Matplotlib and seaborn are slow to import, so only here, and only when one is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servecast.sweeps.lab.rows import select
from servecast.sweeps.lab.runner import LabResult


def draw_lab(result: LabResult, file: Path) -> None:
    """One panel beside the other; the ending of `file` (.svg, .png) is the format."""
    import matplotlib as mpl

    mpl.use("Agg")
    # The same numbers give the same file.
    mpl.rcParams["svg.hashsalt"] = "servecast"
    from matplotlib import pyplot as plt

    panels = result.experiment.figure
    figure, axes = plt.subplots(1, len(panels), figsize=(5.5 * len(panels), 4), squeeze=False)
    for axis, panel in zip(axes[0], panels, strict=True):
        _panel(result, panel, axis)
    figure.suptitle(result.experiment.title)
    figure.tight_layout()
    metadata = {"Date": None} if file.suffix == ".svg" else None
    figure.savefig(file, metadata=metadata)
    plt.close(figure)


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
    if panel["kind"] == "bar":
        sns.barplot(frame, x=x, y=y, hue=hue, ax=axis, errorbar=None)
    else:
        sns.lineplot(frame, x=x, y=y, hue=hue, ax=axis, marker="o", errorbar=None)
    if panel.get("log_x"):
        axis.set_xscale("log", base=2)
    if panel.get("log_y"):
        axis.set_yscale("log")
    axis.set_ylabel(panel.get("y_label", y))
    axis.set_title(panel["part"])
