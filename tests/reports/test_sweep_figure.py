"""The figures of a sweep: which are drawn, and of what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from servecast.hardware.errors import ConfigError
from servecast.reports.figures.style import draw
from servecast.reports.figures.sweep import sweep_figures
from servecast.sweeps.sweep import SweepResult
from servecast.sweeps.sweep_file import load_sweep


def result(folder: Path, axes: str, rows: list[dict[str, Any]], labels: list[str], more: str = "") -> SweepResult:
    file = folder / "sweep.yaml"
    file.write_text(f"scenario: {{model: llama-3.1-8b}}\naxes: {axes}\n{more}\n")
    figures = ["p99_ttft_ms", "saturation"]
    filled = [{"saturation": "below", "status": "ok", "message": None, **row} for row in rows]
    return SweepResult(load_sweep(file), filled, labels, figures)


def curves(folder: Path, more: str = "") -> SweepResult:
    rows = [
        {"gpu": gpu, "request_rate": rate, "p99_ttft_ms": base * rate if rate < 3 else None}
        for gpu, base in (("l40s", 30.0), ("h100-sxm", 10.0))
        for rate in (1, 2, 3)
    ]
    axes = "{gpu: [l40s, h100-sxm], workload.arrivals.request_rate: [1, 2, 3]}"
    return result(folder, axes, rows, ["gpu", "request_rate"], more)


def grid(folder: Path, more: str = "") -> SweepResult:
    rows = [
        {"seed": seed, "max_num_seqs": seqs, "p99_ttft_ms": 1.0 * seed * seqs} for seed in (1, 2) for seqs in (8, 9)
    ]
    axes = "{seed: [1, 2], scheduler.max_num_seqs: [8, 9]}"
    return result(folder, axes, rows, ["seed", "max_num_seqs"], more)


def test_curves_for_each_of_the_other_axes(tmp_path: Path) -> None:
    (figure,) = sweep_figures(curves(tmp_path))
    svg = draw(figure).svg
    for words in ("l40s", "h100-sxm", "request_rate", "p99_ttft_ms"):
        assert words in svg


def test_two_axes_of_numbers_are_a_heat_map(tmp_path: Path) -> None:
    (figure,) = sweep_figures(grid(tmp_path))
    assert figure.name == "heat-map-p99-ttft-ms"
    assert "18" in draw(figure).svg


def test_the_kind_may_be_chosen(tmp_path: Path) -> None:
    (figure,) = sweep_figures(grid(tmp_path, "figure: {kind: lines, x: seed, log_x: true, log_y: true}"))
    svg = draw(figure).svg
    assert "max_num_seqs 8" in svg


def test_the_same_sweep_gives_the_same_file(tmp_path: Path) -> None:
    first, second = (draw(sweep_figures(curves(tmp_path))[0]) for _ in range(2))
    assert (first.svg, first.png) == (second.svg, second.png)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("figure: {y: saturation}", r"sweep.yaml:3: figure: y: 'saturation' holds words, which cannot be drawn"),
        ("figure: {kind: heat_map}", r"figure: kind: heat_map is for two axes, not for 1"),
    ],
)
def test_a_figure_that_cannot_be_drawn(tmp_path: Path, more: str, words: str) -> None:
    found = result(tmp_path, "{seed: [1]}", [{"seed": 1, "p99_ttft_ms": 3.0}], ["seed"], more)
    with pytest.raises(ConfigError, match=words):
        sweep_figures(found)


def test_without_numbers_there_is_no_figure(tmp_path: Path) -> None:
    found = result(tmp_path, "{seed: [1]}", [{"seed": 1, "p99_ttft_ms": None}], ["seed"], "figure: {y: p99_ttft_ms}")
    assert sweep_figures(found) == []
