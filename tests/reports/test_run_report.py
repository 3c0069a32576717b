"""The report of a run: its page, tables and figures."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from page_checks import check_narrow, check_numbers, check_print, check_sorting, opened
from servecast.commands.report import read_report, write_report
from servecast.hardware.errors import ConfigError
from servecast.reports.run_report import run_report
from servecast.reports.stored_run import read_run


@pytest.fixture(scope="module")
def page_file(run_folder: Path) -> Path:
    write_report(run_folder, None)
    return run_folder / "report" / "report.html"


def test_the_page_is_one_small_file_and_the_parts_lie_beside_it(page_file: Path) -> None:
    assert page_file.stat().st_size < 1e6
    tables = {file.name for file in (page_file.parent / "tables").iterdir()}
    assert {"latencies.csv", "latencies.md", "cohorts.csv", "memory.csv", "settings.csv", "defaults.csv"} <= tables
    assert {"prices.csv", "cost.csv", "kernel-residuals.csv", "limits.csv"} <= tables
    figures = {file.name for file in (page_file.parent / "figures").iterdir()}
    names = ("latency-cdf", "batch-over-time", "preemptions-over-time", "time-by-cause", "roofline")
    assert figures == {f"{name}.{ending}" for name in names for ending in ("svg", "png")}


def test_numbers_of_the_page_are_those_of_the_csv_files(run_folder: Path, page_file: Path) -> None:
    html = page_file.read_text()
    for table in read_report(run_folder).tables():
        check_numbers(html, table, page_file.parent / "tables" / f"{table.name}.csv")


def test_the_answer_is_that_of_the_summary(run_folder: Path) -> None:
    answer, summary = read_report(run_folder).answer, json.loads((run_folder / "summary.json").read_text())
    assert answer.good is all(verdict["met"] for verdict in summary["slo"]) is False
    assert f"{summary['p99_ttft_ms']:,.0f} ms" in answer.sentence
    assert [number.label for number in answer.numbers] == ["TTFT P99", "TPOT P95", "output throughput"]


def test_a_limit_within_the_error_of_the_model_is_left_open(run_folder: Path) -> None:
    run = read_run(run_folder)
    limit = "ttft:p99<=500ms"
    for percent, good in ((10.0, True), (50.0, None)):
        accuracy = {**run.summary["accuracy"], "ttft_pct": percent}
        verdicts = [{"limit": limit, "value_ms": 400.0, "met": True}]
        summary = {**run.summary, "slo": verdicts, "accuracy": accuracy}
        answer = run_report(replace(run, summary=summary)).answer
        assert answer.good is good
        assert ("lies within the error of the model" in answer.sentence) == (good is None)
    assert answer.numbers[0].note == f"267 to 600 ms, limit {limit}"


def test_what_users_wrote_is_escaped(page_file: Path) -> None:
    html = page_file.read_text()
    assert "&lt;b&gt;crowded&lt;/b&gt; &amp; &#34;odd&#34;" in html
    assert "<b>crowded" not in html
    assert "<i>title" not in html


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_in_a_browser_it_opens_from_disk_and_sorts(browser: Any, page_file: Path, scheme: str) -> None:
    with opened(browser, page_file, scheme=scheme) as page:
        check_sorting(page, "latencies", 2)
        check_sorting(page, "cohorts", 4)
        ink, paper = (page.evaluate(f"getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor"))
        assert (sum(rgb(ink)) > sum(rgb(paper))) == (scheme == "dark")


def rgb(colour: str) -> list[int]:
    return [int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]


def test_on_a_telephone_and_on_paper_it_can_be_read(browser: Any, page_file: Path) -> None:
    with opened(browser, page_file, width=375) as page:
        check_narrow(page)
        check_print(page)


def test_nothing_is_simulated(run_folder: Path, tmp_path: Path) -> None:
    program = (
        "import sys; from servecast.cli import app\n"
        "app(sys.argv[1:], standalone_mode=False)\n"
        "assert not {'simpy', 'servecast.model.simulation'} & set(sys.modules), 'simulated'\n"
    )
    words = [sys.executable, "-c", program, "report", str(run_folder), "-o", str(tmp_path / "page.html")]
    done = subprocess.run(words, capture_output=True, text=True, env=dict(os.environ), check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").exists()


def test_its_size_and_time_do_not_depend_on_the_number_of_requests(run_folder: Path, tmp_path: Path) -> None:
    # A million requests make a large requests.csv, and nothing else that is larger.
    for name in ("summary.json", "details.json", "series.csv", "distributions.csv", "scenario.yaml"):
        (tmp_path / name).write_text((run_folder / name).read_text())
    assert read_report(tmp_path).answer == read_report(run_folder).answer
    assert (run_folder / "series.csv").read_text().count("\n") <= 1001


def test_what_is_missing_or_broken_is_one_message(run_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere: no such folder"):
        read_report(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="holds no results"):
        read_report(tmp_path)
    (tmp_path / "summary.json").write_text("{]")
    with pytest.raises(ConfigError, match=r"summary.json:1: broken JSON"):
        read_report(tmp_path)
    (tmp_path / "summary.json").write_text((run_folder / "summary.json").read_text())
    with pytest.raises(ConfigError, match=r"details.json: no such file. Written by servecast run --out"):
        read_report(tmp_path)
    (tmp_path / "summary.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"summary.json: has no 'completed'"):
        read_report(tmp_path)
    shutil.copytree(run_folder, tmp_path / "older")
    summary = json.loads((run_folder / "summary.json").read_text())
    del summary["kv_usage"]
    (tmp_path / "older" / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(ConfigError, match=r"older: its results have no 'kv_usage'. Files of an older version"):
        write_report(tmp_path / "older", None)
    with pytest.raises(ConfigError, match=r"--output: no such folder"):
        write_report(run_folder, tmp_path / "nowhere" / "page.html")
