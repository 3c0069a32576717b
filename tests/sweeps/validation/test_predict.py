"""Runs that the simulator itself made are predicted without error; ones that cannot be are listed with the reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from servecast.configs.build import build_simulation
from servecast.configs.load import scenario_from
from servecast.configs.measured import MeasuredRun
from servecast.model.lengths import EmpiricalLengths
from servecast.model.metrics import summarise
from servecast.model.simulation import run_simulation
from servecast.sweeps.validation.errors import error_table, gpu_ratios, left_out, read_rows, rows_frame, worst_rows
from servecast.sweeps.validation.predict import COMPARED, predict

SETTINGS: dict[str, Any] = {
    "model": "llama-3.1-8b",
    "gpu": "h100-sxm",
    "engine": "vllm-0.19",
    "replica": {"max_model_len": 4096},
    "workload": {
        "num_requests": 8,
        "arrivals": {"process": "closed_loop", "concurrency": 2},
        "lengths": {
            "prompt": {"distribution": "fixed", "value": 500},
            "output": {"distribution": "fixed", "value": 20},
        },
    },
}


def simulated(**changes: Any) -> dict[str, Any]:
    return summarise(run_simulation(build_simulation(scenario_from(SETTINGS | changes))))


def measured(factor: float = 1.0, **changes: Any) -> MeasuredRun:
    """A run whose measured figures are `factor` times what the simulation says."""
    summary = simulated()
    figures = {"tpot": summary["mean_tpot_ms"] * factor, "ttft": summary["mean_ttft_ms"] * factor}
    return replace(MeasuredRun("here:1", SETTINGS, figures), **changes)


def test_errors_are_relative_to_what_was_measured() -> None:
    rows = rows_frame(predict([measured(1.0), measured(1.25), measured(0.8)]))
    assert rows["error_tpot"].tolist() == pytest.approx([0, -20, 25])
    table = error_table(rows, ("gpu", "engine", "model"), ["tpot"])
    (group,) = table.to_dict("records")
    assert (group["gpu"], group["engine"], group["model"], group["n"]) == ("h100-sxm", "vllm-0.19", "llama-3.1-8b", 3)
    assert (group["median"], group["bias"], group["worst"]) == pytest.approx((20, 0, 25))
    assert worst_rows(rows, ["tpot", "ttft"], 1)["error_tpot"].tolist() == pytest.approx([25])


def test_rows_that_a_fit_has_seen_are_a_group_of_their_own() -> None:
    rows = rows_frame(predict([measured(), measured(fitted={"ttft": "server time"})]))
    table = error_table(rows, ("gpu",), ["tpot", "ttft"])
    counts = {(row["figure"], row["rows"]): row["n"] for row in table.to_dict("records")}
    assert counts == {("tpot", "test"): 2, ("ttft", "test"): 1, ("ttft", "fit"): 1}


def test_figures_that_are_left_out_have_no_error() -> None:
    rows = rows_frame(predict([measured(left_out={"ttft": "a broken client"})]))
    assert rows["error_ttft"].isna().all()
    assert rows["error_tpot"].notna().all()
    assert left_out(rows) == [("ttft: a broken client", 1)]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"model": "llama-9"}, "unknown model 'llama-9'"),
        ({"model": "llama-3.1-70b"}, "GiB"),
        ({"replica": {"max_model_len": 100}}, "8 of 8 requests fail in the simulation: over_max_model_len (8)"),
    ],
)
def test_a_run_that_cannot_be_simulated_is_listed_with_the_reason(settings: dict[str, Any], problem: str) -> None:
    rows = rows_frame(predict([measured(settings=SETTINGS | settings), measured()]))
    assert problem in rows["problem"].iloc[0]
    assert error_table(rows, ("gpu",), ["tpot"])["n"].tolist() == [1]
    assert left_out(rows)[0][1] == 1


def test_the_lengths_of_a_run_replace_those_of_its_settings() -> None:
    lengths = EmpiricalLengths(np.full(8, 2000), np.full(8, 20))
    long, short = predict([measured(lengths=lengths), measured()])
    assert long.figures["predicted"]["ttft"] > 2 * short.figures["predicted"]["ttft"]


def test_the_roofline_is_a_lower_bound() -> None:
    (prediction,) = predict([measured()], COMPARED)
    figures = prediction.figures
    # 16 GB of weights at 3,350 GB/s take 4.5 ms.
    assert 4.4 < figures["roofline"]["tpot"] < figures["predicted"]["tpot"]
    assert figures["roofline"]["ttft"] < figures["predicted"]["ttft"]
    assert figures["unmeasured"]["tpot"] == pytest.approx(figures["predicted"]["tpot"], rel=0.2)
    assert figures["unmeasured"]["tpot"] != figures["predicted"]["tpot"]


def test_two_processes_predict_what_one_does() -> None:
    runs = [measured(), measured(2.0)]
    assert [p.figures for p in predict(runs, jobs=2)] == [p.figures for p in predict(runs, jobs=1)]


def test_progress_counts_the_runs() -> None:
    seen: list[tuple[int, int]] = []
    predict([measured(), measured()], progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]


def test_rows_survive_a_file(tmp_path: Path) -> None:
    rows = rows_frame(predict([measured(), measured(problem="broken")]))
    rows.to_csv(tmp_path / "rows.csv", index=False)
    again = read_rows(tmp_path / "rows.csv")
    assert again["problem"].tolist() == ["", "broken"]
    assert again["aside"].tolist() == ["", ""]
    assert error_table(again, ("gpu",), ["tpot"])["n"].tolist() == [1]


def test_the_ratio_of_two_gpus_has_an_error_of_its_own() -> None:
    figures = {"tpot": [10.0, 25.0], "ttft": [-10.0, -10.0]}
    errors = {f"error_{figure}": values for figure, values in figures.items()}
    work = dict.fromkeys(("source", "engine", "model", "dtype", "layout", "load"), "same")
    rows = pd.DataFrame({**work, "gpu": ["a100", "h100"], "problem": ["", ""], **errors})
    (ratio,) = gpu_ratios(rows, "a100", "h100").to_dict("records")
    assert ratio["error_tpot"] == pytest.approx((1.1 / 1.25 - 1) * 100)
    assert ratio["error_ttft"] == pytest.approx(0)
    assert not len(gpu_ratios(rows, "a100", "b200"))
