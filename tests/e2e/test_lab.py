"""`servecast lab`: the list, a page, its files, and wrong names."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

Servecast = Callable[..., subprocess.CompletedProcess[str]]


def test_without_a_name_it_lists_the_experiments(servecast: Servecast) -> None:
    done = servecast("lab")
    assert done.returncode == 0
    for name in ("starvation", "policies", "thrashing", "preemption", "admission", "budget", "prefix", "chunking"):
        assert name in done.stdout


def test_a_page_has_finding_table_and_what_to_look_for(servecast: Servecast) -> None:
    done = servecast("lab", "starvation")
    assert done.stderr == ""
    for words in ("46 of 60 requests are stranded behind 5", "TTFT p99 (ms)", "What to look for"):
        assert words in done.stdout


def test_out_writes_points_that_can_be_run_again(servecast: Servecast, tmp_path: Path) -> None:
    page = json.loads(servecast("lab", "starvation", "--json", "--out", tmp_path).stdout)
    for name in ("table.csv", "figure.svg", "figure.png"):
        assert (tmp_path / name).stat().st_size > 0
    with (tmp_path / "table.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(page["table"]) == 7
    scenarios = sorted((tmp_path / "scenarios").iterdir())
    assert len(scenarios) == 7
    again = servecast("run", tmp_path / "scenarios" / "whole-prompts_what-cannot-run-waits.yaml", "--json")
    assert json.loads(again.stdout)["unfinished"] == 51


def test_a_written_experiment_can_be_moved(servecast: Servecast, tmp_path: Path) -> None:
    servecast("lab", "preemption", "--out", tmp_path / "here")
    (tmp_path / "here").rename(tmp_path / "there")
    scenario = tmp_path / "there" / "scenarios" / "preemption_context-512_pcie-3_mode-swap.yaml"
    assert "gpu: gpus/pcie-3/h100-sxm.yaml" in scenario.read_text()
    assert servecast("run", scenario, "--json").returncode == 0


def test_an_unknown_name_ends_with_a_suggestion(servecast: Servecast) -> None:
    done = servecast("lab", "thrashin")
    assert done.returncode == 2
    assert "Did you mean 'thrashing'" in done.stderr
