"""The style of all figures, and how one becomes SVG and PNG."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Ink and grid have colours of their own, so that a page can put others in their place (dark mode).
INK, GRID = "#24292f", "#d0d7de"
PAPER = "#ffffff"
# Seaborn's "colorblind" palette; limits are drawn in a colour that no line has.
PALETTE = "colorblind"
LIMIT = "#b3261e"
WIDTH_IN = 6.0
_PNG_DPI = 150


@dataclass(frozen=True)
class Figure:
    """name: for files. caption: what is drawn and what to look for. draw: fills an empty Matplotlib figure."""

    name: str
    title: str
    caption: str
    draw: Callable[[Any], None]
    height_in: float = 3.6
    width_in: float = WIDTH_IN


@dataclass(frozen=True)
class DrawnFigure:
    """svg: text of a file, with a white background. png: of the same."""

    figure: Figure
    svg: str
    png: bytes

    @property
    def inline_svg(self) -> str:
        """For a page: ids of its own; ink and grid in the page's colours, no background."""
        svg = self.svg[self.svg.index("<svg") :]
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
        for pattern in (r'\bid="', r'href="#', r"url\(#"):
            svg = re.sub(f"({pattern})", rf"\1{self.figure.name}-", svg)
        svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
        svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
        for colour, variable in ((INK, "ink"), (GRID, "grid"), (PAPER, "paper")):
            svg = svg.replace(colour, f"var(--{variable})")
        return svg


@contextmanager
def servecast_style() -> Iterator[None]:
    """Matplotlib as all figures have it."""
    import matplotlib as mpl
    import seaborn as sns

    mpl.use("Agg")
    settings: Any = {
        "axes.edgecolor": GRID,
        "axes.labelcolor": INK,
        "axes.labelsize": 11,
        "axes.titlecolor": INK,
        "axes.titlesize": 11.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "figure.facecolor": PAPER,
        "axes.facecolor": PAPER,
        "font.size": 11,
        "grid.color": GRID,
        "grid.linewidth": 0.6,
        "legend.fontsize": 10,
        "legend.frameon": False,
        "lines.linewidth": 1.6,
        "patch.linewidth": 0,
        "svg.fonttype": "none",  # text stays text: it can be searched, and the file is small
        "svg.hashsalt": "servecast",  # the same numbers give the same file
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "xtick.labelsize": 10,
        "ytick.labelsize": 10,
    }
    with sns.axes_style("whitegrid"), sns.color_palette(PALETTE), mpl.rc_context(settings):
        yield


def draw(figure: Figure) -> DrawnFigure:
    """`figure` as SVG and PNG."""
    with servecast_style():
        from matplotlib.figure import Figure as Canvas

        canvas = Canvas(figsize=(figure.width_in, figure.height_in), layout="constrained")
        figure.draw(canvas)
        for axis in canvas.axes:
            axis.spines[["top", "right"]].set_visible(False)
        svg, png = io.StringIO(), io.BytesIO()
        canvas.savefig(svg, format="svg", metadata={"Date": None})
        canvas.savefig(png, format="png", dpi=_PNG_DPI)
    return DrawnFigure(figure, _smaller(svg.getvalue()), png.getvalue())


def _smaller(svg: str) -> str:
    """Without the digits of paths that nobody can see."""
    return re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), svg)


def thousands(axis: Any) -> None:
    """Ticks of a linear `axis` that say 2,000."""
    axis.set_major_formatter(lambda value, _: f"{value:,.10g}")


def log_ticks(axis: Any) -> None:
    """Ticks of a logarithmic `axis` (x or y of a plot) that say 500 and 2,000, as far apart as its data asks."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_data_interval()
    decades = math.log10(high / low) if low > 0 else 9.0
    subs = (1.0, 2.0, 5.0) if decades < 1.6 else (1.0, 3.0) if decades < 2.6 else (1.0,)
    axis.set_major_locator(LogLocator(subs=subs, numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axis.set_minor_formatter(NullFormatter())


def save(drawn: DrawnFigure, folder: Path) -> None:
    """`<name>.svg` and `<name>.png`."""
    (folder / f"{drawn.figure.name}.svg").write_text(drawn.svg, encoding="utf-8")
    (folder / f"{drawn.figure.name}.png").write_bytes(drawn.png)
