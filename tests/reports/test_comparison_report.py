"""The report of a shipped comparison, and two comparisons side by side."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from page_checks import check_narrow, check_numbers, check_print, check_sorting, opened
from servecast.commands.compare import compare_file
from servecast.commands.diff import read_diff
from servecast.commands.report import read_report, write_report
from servecast.hardware.errors import ConfigError
from servecast.sweeps.backends import Backend

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `servecast compare` stores of the demo."""
    folder = tmp_path_factory.mktemp("comparison") / "out"
    compare_file(ROOT / "sweeps" / "compare-demo.yaml", Backend(), out=folder, resume=False, as_json=True)
    return folder


@pytest.fixture(scope="module")
def page_file(folder: Path) -> Path:
    start = time.process_time()
    write_report(folder, None)
    assert time.process_time() - start < 10
    return folder / "report" / "report.html"


def test_it_is_small_and_has_the_figures_that_a_buyer_wants(page_file: Path) -> None:
    assert page_file.stat().st_size < 5e6
    names = {file.stem for file in (page_file.parent / "figures").glob("*.png")}
    assert {"cost-ranking", "cost-over-load", "latency-vs-load", "throughput-per-gpu", "time-by-cause"} <= names
    tables = {file.stem for file in (page_file.parent / "tables").glob("*.csv")}
    assert {"ranking", "costs", "use", "memory", "latencies", "accuracy", "prices", "settings"} <= tables


def test_the_answer_is_the_recommendation_with_its_range(folder: Path) -> None:
    answer, figures = read_report(folder).answer, json.loads((folder / "comparison.json").read_text())
    best = figures["candidates"][0]
    assert answer.sentence == figures["recommendation"]
    assert best["gpus_text"] in answer.interval
    assert answer.numbers[0].value == f"${best['usd_per_hour']:,.2f}"
    assert [number.value for number in answer.numbers[1:2]] == [str(best["gpus"])]


def test_numbers_of_the_page_are_those_of_the_csv_files(folder: Path, page_file: Path) -> None:
    html = page_file.read_text()
    for table in read_report(folder).tables():
        check_numbers(html, table, page_file.parent / "tables" / f"{table.name}.csv")


def test_in_a_browser_it_opens_from_disk_and_sorts(browser: Any, page_file: Path) -> None:
    with opened(browser, page_file) as page:
        check_sorting(page, "ranking", 6)
    with opened(browser, page_file, width=375, scheme="dark") as page:
        check_narrow(page)
        check_print(page)


def test_two_comparisons_are_held_against_each_other(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    figures = json.loads((other / "comparison.json").read_text())
    best = figures["candidates"][0]
    best |= {key: best[key] * 9 for key in ("usd_per_hour", "usd_per_hour_low", "usd_per_hour_high")}
    (other / "comparison.json").write_text(json.dumps(figures))
    rows = [row for row in read_diff(folder, other).figures.rows if row["candidate"] == best["label"]]
    moved = {row["figure"]: row["moved"] for row in rows}
    assert moved["cost ($/h)"] is True
    assert moved["GPUs"] is False


def test_an_unfinished_comparison_says_how_to_go_on(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "results.sqlite", tmp_path)
    words = "the comparison is unfinished: run it again with --resume"
    with pytest.raises(ConfigError, match=words):
        read_report(tmp_path)
    with pytest.raises(ConfigError, match=words):
        read_diff(folder, tmp_path)
    with sqlite3.connect(tmp_path / "results.sqlite") as database:
        database.execute("DELETE FROM outcomes")  # stopped before the first candidate was finished
    with pytest.raises(ConfigError, match=words):
        read_report(tmp_path)
