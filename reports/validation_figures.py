"""Parity plots: predicted over measured, a point a run. Matplotlib and seaborn are slow to import, so only here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servecast.reports.validation_tables import FIGURES

if TYPE_CHECKING:
    import pandas as pd

# The grey band around the line where predicted is measured.
_BAND = 0.1
# More points are a picture inside the drawing, which would be a megabyte otherwise.
_MOST_DRAWN = 200


def draw_parity(rows: pd.DataFrame, figures: Sequence[str], file: Path) -> None:
    """One panel a figure, both axes logarithmic; colours tell GPUs, markers engines. rows: of `rows_frame`. The ending
    of `file` (.svg, .png) is the format.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    # The same numbers give the same file.
    mpl.rcParams["svg.hashsalt"] = "servecast"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(figures), figsize=(4.6 * len(figures), 4.4), squeeze=False)
    for number, (axis, name) in enumerate(zip(axes[0], figures, strict=True)):
        _panel(rows, name, axis, legend=number == len(figures) - 1)
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None, dpi=110)
    plt.close(figure)


def _panel(rows: pd.DataFrame, name: str, axis: Any, *, legend: bool) -> None:
    import numpy as np
    import seaborn as sns

    points = rows[rows[f"error_{name}"].notna()]
    measured, predicted = f"measured_{name}", f"predicted_{name}"
    limits = points[[measured, predicted]].to_numpy(dtype=float)
    line = np.array([limits.min() / 1.3, limits.max() * 1.3])
    axis.fill_between(line, line * (1 - _BAND), line * (1 + _BAND), color="0.9")
    axis.plot(line, line, color="0.5", linewidth=1)
    sns.scatterplot(
        points,
        x=measured,
        y=predicted,
        hue="gpu",
        style="family",
        hue_order=sorted(rows["gpu"].unique()),
        ax=axis,
        s=22,
        alpha=0.7,
        legend="brief" if legend else False,
        rasterized=len(points) > _MOST_DRAWN,
    )
    axis.set(xscale="log", yscale="log", xlim=line, ylim=line, title=FIGURES[name])
    unit = "tokens/s" if name == "throughput" else "requests/s" if name == "requests" else "ms"
    axis.set_xlabel(f"measured ({unit})")
    axis.set_ylabel(f"predicted ({unit})")
    if legend:
        sns.move_legend(axis, "center left", bbox_to_anchor=(1, 0.5), frameon=False, title=None)
