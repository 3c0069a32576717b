"""Host times come back from runs that were made with them; what runs cannot show stays."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from builders import bench_result
from servecast.configs.measured import MeasuredRun, read_runs
from servecast.hardware.engines import load_engine
from servecast.hardware.errors import ConfigError
from servecast.sweeps.calibration.host import HostFit, fit_host

TRUE = replace(load_engine("vllm-0.12").host, step_s=2e-3, request_s=60e-6, server_s=12e-3)


def runs(tmp_path: Path, *clients: int) -> list[MeasuredRun]:
    found = []
    for number in clients:
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps(bench_result(number, TRUE, requests=3 * number)))
        found += read_runs(file, None, {"gpu": "h100-sxm", "engine": "vllm-0.12"})
    return found


def fitted(measured: list[MeasuredRun]) -> HostFit:
    return fit_host(measured, load_engine("vllm-0.12").host)


def test_runs_of_several_batch_sizes_tell_all_three_times_apart(tmp_path: Path) -> None:
    found = fitted(runs(tmp_path, 2, 8, 32))

    # Figures of short runs move in jumps, as prompts come to lie in other steps: the times come back but roughly.
    assert found.values == pytest.approx({"step_ms": 2.0, "request_us": 60.0, "server_ms": 12.0}, rel=0.15)
    assert found.held_out
    assert found.before["tpot"].median_pct > 5
    assert found.after["tpot"].median_pct < 0.5


def test_one_run_does_not_tell_a_step_from_the_requests_in_it(tmp_path: Path) -> None:
    found = fitted(runs(tmp_path, 8))

    assert found.fitted == ("step_ms", "server_ms")
    assert found.kept["request_us"] == "needs runs whose numbers of running requests differ by a factor of 2"
    assert not found.held_out
    assert found.after["ttft"].median_pct < 0.5


def test_throughput_alone_shows_no_time(tmp_path: Path) -> None:
    [run] = runs(tmp_path, 8)

    with pytest.raises(ConfigError, match="no mean TPOT and no mean TTFT"):
        fitted([replace(run, figures={"throughput": 100.0})])


def test_a_run_that_cannot_be_simulated_is_named(tmp_path: Path) -> None:
    [run] = runs(tmp_path, 8)
    settings = {**run.settings, "gpu": "t4"}

    with pytest.raises(ConfigError, match=r"8.json: cannot be simulated: "):
        fitted([replace(run, settings=settings)])
