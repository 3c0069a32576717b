"""Two runs side by side."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from servecast.commands.diff import read_diff, show_diff
from servecast.hardware.errors import ConfigError
from servecast.reports.diff import settings_diff

Stored = Callable[..., Path]


@pytest.fixture(scope="module")
def gpus(stored_run: Stored) -> tuple[Path, Path]:
    """The same traffic on two GPUs."""
    h100 = stored_run("h100")
    return h100, stored_run("a100", "gpu=a100-80gb-sxm")


def test_the_setting_and_its_effect_are_found(gpus: tuple[Path, Path]) -> None:
    diff = read_diff(*gpus)
    assert diff.settings.rows == [{"key": "gpu", "a": "h100-sxm", "b": "a100-80gb-sxm"}]
    figures = {row["figure"]: row for row in diff.figures.rows}
    summaries = [json.loads((folder / "summary.json").read_text()) for folder in gpus]
    tpot = figures["TPOT p50 (ms)"]
    expected = (summaries[1]["p50_tpot_ms"] / summaries[0]["p50_tpot_ms"] - 1) * 100
    assert tpot["change"] == pytest.approx(expected)
    assert tpot["moved"] is True
    assert any("same requests" in note for note in diff.notes)


def test_a_run_and_itself_are_alike(gpus: tuple[Path, Path]) -> None:
    diff = read_diff(gpus[0], gpus[0])
    assert diff.settings.rows == []
    assert {row["moved"] for row in diff.figures.rows} <= {False, None}
    assert {row["change"] for row in diff.figures.rows} == {0.0}


def test_other_traffic_is_not_paired(gpus: tuple[Path, Path], stored_run: Stored) -> None:
    diff = read_diff(gpus[0], stored_run("other", "seed=7"))
    assert not any("same requests" in note for note in diff.notes)


def test_settings_that_only_one_side_has() -> None:
    table = settings_diff({"cohorts": None, "seed": 1}, {"cohorts": {"by": "tenant"}, "seed": 1})
    assert [(row["key"], row["a"], row["b"]) for row in table.rows] == [
        ("cohorts", "null", "-"),
        ("cohorts.by", "-", "tenant"),
    ]


def test_it_prints_tables_or_json(gpus: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    show_diff(*gpus, as_json=False)
    assert "a100-80gb-sxm" in capsys.readouterr().out
    show_diff(*gpus, as_json=True)
    assert set(json.loads(capsys.readouterr().out)) == {"settings", "figures", "notes"}


def test_a_table_of_requests_that_was_cut_is_refused(gpus: tuple[Path, Path], tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    shutil.copytree(gpus[1], cut)
    lines = (cut / "requests.csv").read_text().splitlines()
    (cut / "requests.csv").write_text("\n".join(lines[:61]) + "\n")
    with pytest.raises(ConfigError, match=r"requests.csv: has 60 rows, but summary.json counts 120 requests"):
        read_diff(gpus[0], cut)


def test_a_folder_without_results_is_told_as_by_report(gpus: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no results: no summary.json, comparison.json or results.sqlite"):
        read_diff(gpus[0], tmp_path)
