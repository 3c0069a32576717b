"""The report of a sweep, and two sweeps side by side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from page_checks import check_narrow, check_numbers, check_print, check_sorting, opened
from servecast.commands.diff import read_diff
from servecast.commands.report import read_report, write_report
from servecast.hardware.errors import ConfigError
from servecast.reports.stored_sweep import read_sweep
from servecast.reports.sweep_points import SweepPoints
from servecast.sweeps.intervals import mean_interval


@pytest.fixture(scope="module")
def page_file(sweep_folder: Path) -> Path:
    write_report(sweep_folder, None)
    return sweep_folder / "report" / "report.html"


def test_replicates_become_one_point_with_an_interval(sweep_folder: Path) -> None:
    sweep = read_sweep(sweep_folder)
    assert (len(sweep.points), len(sweep.done), sweep.replicates, sweep.unfinished) == (9, 6, 2, 0)
    point = sweep.done[0]
    values = [summary["p99_ttft_ms"] for summary in point.summaries]
    found, expected = point.estimate(values, None), mean_interval(values)
    assert found is not None
    assert expected is not None
    assert found.high is not None
    assert found.value == pytest.approx(expected[0])
    assert found.high / found.value - 1 == pytest.approx(1 - expected[1] / expected[0])


def test_the_best_of_each_series_is_its_highest_load_within_the_limits(
    sweep_folder: Path,
) -> None:
    points = SweepPoints(read_sweep(sweep_folder).done)
    assert points.load_label == "request_rate"
    best = points.best()
    assert best is not None
    assert points.series(best) == "h100-sxm"
    within = [point.load for point in points.points if point.meets_limits and point.labels["gpu"] == "h100-sxm"]
    assert best.load == max(load for load in within if load is not None)
    assert {name.split(" at ")[0] for name in points.best_by_series()} == {"h100-sxm", "l40s"}


def test_the_answer_names_it_with_its_interval(sweep_folder: Path) -> None:
    answer = read_report(sweep_folder).answer
    assert answer.good
    assert answer.sentence.startswith("h100-sxm carries the most: ")
    assert "Means of 2 seeds" in answer.interval
    assert [number.label for number in answer.numbers] == ["output throughput", "TTFT p99", "TPOT p95"]


def test_points_that_failed_are_listed_with_their_message(page_file: Path) -> None:
    text = (page_file.parent / "tables" / "failed.csv").read_text()
    assert text.count("does not fit 1 x t4") == 3


def test_its_figures_are_curves_over_the_load(page_file: Path) -> None:
    names = {file.stem for file in (page_file.parent / "figures").glob("*.svg")}
    assert {"latency-vs-load", "throughput-per-gpu", "time-by-cause", "roofline"} <= names


def test_numbers_of_the_page_are_those_of_the_csv_files(sweep_folder: Path, page_file: Path) -> None:
    html = page_file.read_text()
    for table in read_report(sweep_folder).tables():
        check_numbers(html, table, page_file.parent / "tables" / f"{table.name}.csv")


def test_in_a_browser_it_sorts_and_fits_telephones_and_paper(browser: Any, page_file: Path) -> None:
    with opened(browser, page_file) as page:
        check_sorting(page, "points", 5)
    with opened(browser, page_file, width=375) as page:
        check_narrow(page)
        check_print(page)


def test_two_sweeps_are_compared_point_by_point(sweep_folder: Path, stored_sweep: Callable[..., Path]) -> None:
    other = stored_sweep("small", scheduler={"max_num_batched_tokens": 256})
    diff = read_diff(sweep_folder, other)
    assert diff.settings.rows == [{"key": "scheduler.max_num_batched_tokens", "a": "8192", "b": "256"}]
    assert diff.notes[0] == "6 points are in both, 0 in A alone, 0 in B alone."
    ttft = [row for row in diff.figures.rows if row["figure"] == "TTFT p99 (ms)"]
    assert len(ttft) == 6
    assert all(row["change"] > 0 for row in ttft)
    assert all(row["interval"] for row in ttft)


def test_kinds_are_not_mixed_and_an_empty_store_is_said(sweep_folder: Path, run_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is the folder of a sweep, but"):
        read_diff(run_folder, sweep_folder)
    (tmp_path / "results.sqlite").write_text("no database")
    with pytest.raises(ConfigError, match=r"results.sqlite: cannot be read"):
        read_report(tmp_path)
