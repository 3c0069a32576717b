"""`servecast compare`: what it prints and writes, its exit codes, and that it goes on where it was stopped."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Servecast = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def comparison(tmp_path: Path) -> Path:
    """Two GPUs, short requests, no questions of sensitivity: a few seconds."""
    file = tmp_path / "two.yaml"
    file.write_text(
        """model: llama-3.1-8b
replica: {max_model_len: 4096}
workload:
  arrivals: {process: poisson, request_rate: 100}
  lengths: {prompt: {distribution: fixed, value: 200}, output: {distribution: fixed, value: 20}}
slo: ttft:p90<=300ms tpot:p90<=40ms
candidates:
  - {gpu: [h100-sxm, l40s], tensor_parallel_size: 1}
  - {gpu: t4, tensor_parallel_size: 1}
search: {seeds: 1, sensitivity: false, precision: 0.05}
prices: {l40s: {on_demand: 1.0, source: an offer}, a10: {on_demand: 1.0}}
"""
    )
    return file


def test_it_ranks_writes_and_resumes(servecast: Servecast, comparison: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = servecast("compare", comparison, "--out", out, "--jobs", 1)
    assert done.returncode == 0, done.stderr
    for words in (
        "Simulated with",
        "Ranking",
        "h100-sxm TP1",
        "does not fit",
        "an offer",
        "STALE",
        "prices has a10, which is no candidate",
    ):
        assert words in done.stdout
    figures = json.loads((out / "comparison.json").read_text())
    first, second, lost = figures["candidates"]
    assert [row["rank"] for row in (first, second, lost)] == [1, 2, None]
    assert first["usd_per_hour"] <= second["usd_per_hour"]
    assert first["fleet"]["at"]["met"]
    assert {probe["met"] for probe in first["search"]["probes"]} == {True, False}
    with (out / "comparison.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["cost ($/h)"]) for row in rows] == pytest.approx([first["usd_per_hour"], second["usd_per_hour"]])
    assert "# two" in (out / "comparison.md").read_text()
    again = servecast("compare", comparison, "--out", out, "--resume", "--json", "--jobs", 1)
    resumed = json.loads(again.stdout)
    assert {**resumed, "provenance": None} == {**figures, "provenance": None}


def test_a_folder_with_results_is_not_overwritten(servecast: Servecast, comparison: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("notes")
    done = servecast("compare", comparison, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "is not empty: it holds mine.txt" in done.stderr


def test_nobody_carries_it_is_exit_code_1(servecast: Servecast, comparison: Path) -> None:
    comparison.write_text(comparison.read_text().replace("ttft:p90<=300ms", "ttft:p90<=1ms"))
    done = servecast("compare", comparison, "--jobs", 1)
    assert done.returncode == 1
    assert "No candidate carries this load within the limits." in done.stdout
    assert "even when requests hardly meet" in done.stdout


def test_a_wrong_key_is_exit_code_2(servecast: Servecast, comparison: Path) -> None:
    comparison.write_text(comparison.read_text() + "gpu: h100\n")
    done = servecast("compare", comparison)
    assert done.returncode == 2
    assert "two.yaml:12: gpu: unknown key. Did you mean 'gpus'" in done.stderr
