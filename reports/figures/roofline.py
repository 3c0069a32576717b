"""The roofline of each GPU, and where its prefill and decode steps lie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from servecast.reports.figures.style import Figure, log_ticks

_MARKERS = {"prefill": "s", "decode": "o"}


def roofline(points: Mapping[str, Mapping[str, Any]]) -> Figure:
    """points: name of a run or candidate -> `summary["roofline"]`."""

    def fill(canvas: Any) -> None:
        import numpy as np
        import seaborn as sns

        axis = canvas.subplots()
        intensities = [
            point[phase]["flop_per_byte"] for point in points.values() for phase in _MARKERS if point[phase] is not None
        ]
        ridges = [point["peak_tflops"] * 1e3 / point["memory_gb_per_s"] for point in points.values()]
        span = np.geomspace(min([*intensities, *ridges]) / 2, max([*intensities, *ridges]) * 2.5, 200)
        for colour, (name, point) in zip(sns.color_palette(n_colors=len(points)), points.items(), strict=True):
            roof = np.minimum(point["peak_tflops"], span * point["memory_gb_per_s"] / 1e3)
            axis.plot(span, roof, color=colour, label=name)
            for phase, marker in _MARKERS.items():
                if point[phase] is not None:
                    at = (point[phase]["flop_per_byte"], point[phase]["tflops"])
                    axis.plot(*at, marker, color=colour, markersize=7, markeredgecolor="white", markeredgewidth=0.8)
        _finish(axis, canvas)

    return Figure(
        "roofline",
        "Roofline and operating points",
        "Lines: what the datasheet of each GPU allows, by operations per byte that is read from memory. Circles: "
        "decode steps; squares: steps with prompt tokens; averages over the run, per GPU. On the slope memory limits, "
        "on the flat part arithmetic; the distance below the line is what kernels, launches, links and the host cost.",
        fill,
        height_in=4.0,
    )


def _finish(axis: Any, canvas: Any) -> None:
    from matplotlib.lines import Line2D

    axis.set(xscale="log", yscale="log", xlabel="FLOP per byte of memory traffic", ylabel="TFLOP/s per GPU")
    log_ticks(axis.xaxis)
    log_ticks(axis.yaxis)
    handles, labels = axis.get_legend_handles_labels()
    for phase, marker in _MARKERS.items():
        handles.append(Line2D([], [], linestyle="", marker=marker, color="gray"))
        labels.append(phase)
    canvas.legend(handles, labels, loc="outside lower center", ncols=3)
