"""Sweeps end to end, in this process: the table, its intervals, and figures that do not exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from servecast.api import summary_of
from servecast.hardware.errors import ConfigError, DoesNotFitError
from servecast.sweeps.backends import Backend
from servecast.sweeps.store import open_store
from servecast.sweeps.sweep import SweepResult, run_sweep
from servecast.sweeps.sweep_file import load_sweep

WriteSweep = Callable[[str], Path]
Work = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def by_seed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A summary that is easy to foresee."""
    if settings["scheduler"]["max_num_seqs"] == 3:
        raise DoesNotFitError("three do not fit")
    seed = float(settings["seed"])
    state = "below" if seed < 2 else "at"
    return {"p99_ttft_ms": seed, "kv_usage": {"mean": seed / 2}, "rejected": {"a": 1, "b": 2}, "saturation": state}


def swept(file: Path, folder: Path, work: Work = by_seed) -> SweepResult:
    with open_store(folder, resume=True) as store:
        return run_sweep(load_sweep(file), store, work, backend=Backend(jobs=1))


METRICS = "metrics: [p99_ttft_ms, kv_usage/mean, rejected, saturation]\n"


def test_a_row_a_point(write_sweep: WriteSweep, tmp_path: Path) -> None:
    result = swept(write_sweep(METRICS + "axes: {seed: [1, 2]}\n"), tmp_path / "out")
    assert result.labels == ["seed"]
    assert result.figures == ["p99_ttft_ms", "kv_usage_mean", "rejected", "saturation"]
    assert list(result.rows[1].values()) == [2, 2.0, 1.0, 3, "at", "ok", None]


def test_failures_are_rows_with_their_message(write_sweep: WriteSweep, tmp_path: Path) -> None:
    result = swept(write_sweep(METRICS + "axes: {scheduler.max_num_seqs: [2, 3]}\n"), tmp_path / "out")
    assert [row["status"] for row in result.rows] == ["ok", "failed"]
    assert result.failed[0]["message"] == "three do not fit"
    assert result.failed[0]["p99_ttft_ms"] is None
    assert list(result.rows[0]) == list(result.rows[1])


def test_replicates_give_means_and_intervals(write_sweep: WriteSweep, tmp_path: Path) -> None:
    result = swept(write_sweep(METRICS + "replicates: 3\naxes: {scheduler.max_num_seqs: [2, 3]}\n"), tmp_path / "out")
    row = result.rows[0]
    # 0, 1, 2: mean 1, standard error 1/sqrt(3), t = 4.303 for 2 degrees of freedom
    assert row["p99_ttft_ms"] == 1
    assert row["p99_ttft_ms_low"] == pytest.approx(1 - 4.3027 / 3**0.5, abs=1e-4)
    assert row["p99_ttft_ms_high"] == pytest.approx(1 + 4.3027 / 3**0.5, abs=1e-4)
    assert row["saturation"] == "2 x below, 1 x at"
    assert result.rows[1]["p99_ttft_ms_low"] is None


def test_columns_may_be_named_and_derived(write_sweep: WriteSweep, tmp_path: Path) -> None:
    text = "metrics: {ttft: p99_ttft_ms}\nderive: {both: ttft + kv_usage.mean, per_seq: both / max_num_seqs}\n"
    result = swept(write_sweep(text + "axes: {seed: [4], scheduler.max_num_seqs: [2]}\n"), tmp_path / "out")
    assert [result.rows[0][name] for name in result.figures] == [4, 6, 3]


def test_changed_columns_need_no_new_simulation(write_sweep: WriteSweep, tmp_path: Path) -> None:
    def refuse(_settings: Mapping[str, Any]) -> dict[str, Any]:
        raise AssertionError

    swept(write_sweep(METRICS + "axes: {seed: [1, 2]}\n"), tmp_path / "out")
    result = swept(write_sweep("metrics: saturation\naxes: {seed: [1, 2]}\n"), tmp_path / "out", refuse)
    assert [row["saturation"] for row in result.rows] == ["below", "at"]


def test_a_changed_scenario_is_not_answered_from_old_results(write_sweep: WriteSweep, tmp_path: Path) -> None:
    text = "metrics: output_throughput\naxes: {workload.arrivals.request_rate: [2, 4]}\n"
    before = swept(write_sweep(text), tmp_path / "out", summary_of)
    small = tmp_path / "small.yaml"
    small.write_text(small.read_text().replace("h100-sxm", "l40s"))
    after = swept(tmp_path / "sweep.yaml", tmp_path / "out", summary_of)
    fresh = swept(tmp_path / "sweep.yaml", tmp_path / "other", summary_of)
    assert after.rows == fresh.rows
    assert after.rows != before.rows


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("metrics: p99_tft_ms\n", r"metrics: 'p99_tft_ms' is no figure of a summary. Did you mean 'p99_ttft_ms'"),
        ("metrics: kv_usage.mean\n", r"Did you mean 'kv_usage/mean'"),
        ("metrics: kv_usage/mean/x\n", r"'kv_usage/mean/x' is no figure"),
        ("metrics: kv_usage\n", r"'kv_usage' is no figure"),
        (METRICS + "derive: {a: p99_tft_ms * 2}\n", r"derive: unknown name 'p99_tft_ms' .* Did you mean 'p99_ttft_ms'"),
        (
            METRICS + "figure: {y: p99_tft_ms}\n",
            r"figure: y: there is no column 'p99_tft_ms'. Did you mean 'p99_ttft_ms'",
        ),
        (METRICS + "figure: {x: seeds}\n", r"figure: x: there is no column 'seeds'. Did you mean 'seed'"),
        (METRICS + "derive: {seed: '1'}\n", r"axes: two columns would be called 'seed'"),
        ("metrics: {status: saturation}\n", r"metrics: two columns would be called 'status'"),
        (METRICS + "derive: {a: saturation * 2}\n", r"derive: 'saturation \* 2' has no value for saturation = 'below'"),
    ],
)
def test_a_figure_that_does_not_exist(write_sweep: WriteSweep, tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        swept(write_sweep(text + "axes: {seed: [1]}\n"), tmp_path / "out")
