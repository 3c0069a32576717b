"""Makes docs/gallery.md and the pictures in docs/gallery/ from shipped examples, by the commands that it prints.

python docs/make_gallery.py
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from servecast.commands.report import read_report

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "gallery"
HEAD = """# Gallery

Every picture is what `servecast report` draws for a shipped example; `python docs/make_gallery.py` makes them anew. The
commands are those that made them.
"""


@dataclass(frozen=True)
class Example:
    """command: words behind `servecast`, without --out. figures: names of the report's figures to show."""

    name: str
    title: str
    text: str
    command: str
    figures: Sequence[str]


EXAMPLES = (
    Example(
        "quickstart",
        "One run, by length of the prompt",
        "Llama-3.1-8B on an A100, with a little more traffic than it can serve within the limits.",
        "run configs/quickstart.yaml --set gpu=a100-80gb-sxm --set 'cohorts={by: prompt_tokens, edges: [500, 2000]}'",
        ("latency-cdf", "batch-over-time", "roofline"),
    ),
    Example(
        "preemption",
        "A KV pool that is too small",
        "A pool of 1,200 blocks: requests are preempted, and what they had computed is computed again.",
        "run configs/preemption-swap.yaml --set scheduler.preemption=recompute",
        ("preemptions-over-time", "time-by-cause"),
    ),
    Example(
        "rates",
        "A100 against H100, over the load",
        "Three seeds a point. The report's first sentence says which carries the most within the limits.",
        "sweep sweeps/rate-a100-h100.yaml",
        ("latency-vs-load", "throughput-per-gpu", "cost-vs-load"),
    ),
    Example(
        "budget",
        "Token budget and KV pool",
        "Two axes of numbers become heat maps.",
        "sweep sweeps/token-budget-x-kv-pool.yaml",
        ("heat-map-ttft-p99", "heat-map-output"),
    ),
    Example(
        "comparison",
        "Which GPU to buy",
        "What `make demo` shows, as a report.",
        "compare sweeps/compare-demo.yaml",
        ("cost-ranking", "cost-over-load", "time-by-cause", "roofline"),
    ),
)


def main() -> None:
    """Make all pictures and the page."""
    shutil.rmtree(PICTURES, ignore_errors=True)
    PICTURES.mkdir()
    parts = [HEAD, *map(make, EXAMPLES)]
    (ROOT / "docs" / "gallery.md").write_text("\n".join(parts), encoding="utf-8")


def make(example: Example) -> str:
    """Run the example, keep the figures that are shown, and return its part of the page."""
    folder = f"out/{example.name}"
    lines = [f"servecast {example.command} --out {folder}", f"servecast report {folder}"]
    with tempfile.TemporaryDirectory() as scratch:
        for line in lines:
            words = [word.replace(folder, f"{scratch}/{example.name}") for word in shlex.split(line)[1:]]
            subprocess.run([sys.executable, "-m", "servecast", *words], cwd=ROOT, check=True)
        report = Path(scratch) / example.name / "report"
        captions = {figure.name: f"{figure.title}. {figure.caption}" for figure in read_report(report.parent).figures()}
        pictures = [_picture(example, report, name, captions[name]) for name in example.figures]
    command = "\n".join(lines)
    return f"## {example.title}\n\n{example.text}\n\n```\n{command}\n```\n\n{''.join(pictures)}"


def _picture(example: Example, report: Path, name: str, caption: str) -> str:
    file = PICTURES / f"{example.name}-{name}.svg"
    shutil.copy(report / "figures" / f"{name}.svg", file)
    return f"![{name}](gallery/{file.name})\n\n{caption}\n\n"


if __name__ == "__main__":
    main()
