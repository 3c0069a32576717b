"""`servecast calibrate` as a user runs it: a table in, a profile out, and a run that uses it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from builders import bench_result, gemm_table_text
from servecast.hardware.engines import HostTimes, load_engine

Servecast = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """GEMMs of an H100 that reaches a tenth less of its peak and bandwidth than the one that ships."""
    file = tmp_path / "gemm.csv"
    file.write_text(gemm_table_text(t0_us=4.0, e_c=0.7, e_m=0.77, p=3.25))
    return file


def test_a_table_becomes_a_profile_that_a_run_uses(
    servecast: Servecast, table: Path, scenario: Path, tmp_path: Path
) -> None:
    profile = tmp_path / "mine.yaml"
    done = servecast("calibrate", table, "--gpu", "h100", "-o", profile)

    assert (done.returncode, done.stderr) == (0, "")
    assert (
        f"Written: {profile}. To use it: servecast run SCENARIO.yaml --set gpu=h100 --set engine={profile}"
        in done.stdout
    )
    own = json.loads(servecast("run", scenario, "--set", f"engine={profile}", "--json").stdout)
    shipped = json.loads(servecast("run", scenario, "--json").stdout)
    # a tenth, and the shipped entry's factors of about 0.95 for few tokens
    assert 1.08 < own["mean_tpot_ms"] / shipped["mean_tpot_ms"] < 1.16
    assert own["accuracy"]["kernel_residuals"]["gemm_16bit"].startswith("0.0%")


def test_json_says_what_was_fitted_and_what_was_kept(servecast: Servecast, table: Path, tmp_path: Path) -> None:
    lines = table.read_text().splitlines()
    table.write_text("\n".join(line for line in lines if line.startswith(("m,", "1,", "16,"))))
    group = json.loads(servecast("calibrate", table, "--gpu", "h100", "-o", tmp_path / "mine.yaml", "--json").stdout)[
        "groups"
    ]["gemm_16bit"]

    assert group["coefficients"]["e_m"] == pytest.approx(0.77, rel=0.01)
    assert group["kept"]["e_c"] == "no compute-bound points among 16 points (3 shapes needed)"


def test_runs_give_host_times_and_the_log_is_held_against_the_predicted_pool(
    servecast: Servecast, scenario: Path, tmp_path: Path
) -> None:
    run, log, profile = tmp_path / "run.json", tmp_path / "start.log", tmp_path / "mine.yaml"
    run.write_text(json.dumps(bench_result(8, HostTimes(step_s=2e-3, request_s=0.0, server_s=15e-3))))
    log.write_text("INFO GPU KV cache size: 400,000 tokens\n")
    done = servecast("calibrate", run, "--gpu", "h100", "--engine", "vllm-0.12", "--log", log, "-o", profile)

    assert (done.returncode, done.stderr) == (0, "")
    assert "KV pool by start.log: 25,000 blocks, predicted 2" in done.stdout
    assert "host: request_us stays at 47" in done.stdout
    assert json.loads(servecast("run", scenario, "--set", f"engine={profile}", "--json").stdout)["completed"] == 50
    assert load_engine(str(profile)).host.server_s == pytest.approx(15e-3, rel=0.02)


def test_options_of_runs_without_a_run_are_refused(servecast: Servecast, table: Path, tmp_path: Path) -> None:
    done = servecast("calibrate", table, "--gpu", "h100", "--model", "llama-3.1-8b", "-o", tmp_path / "mine.yaml")

    assert done.returncode == 2
    assert "--model: says how runs were served, but no file is a result of vllm bench serve" in done.stderr


def test_nothing_is_written_where_nothing_is_determined(servecast: Servecast, table: Path, tmp_path: Path) -> None:
    table.write_text("\n".join(table.read_text().splitlines()[:4]))
    done = servecast("calibrate", table, "--gpu", "h100", "-o", tmp_path / "mine.yaml")

    assert done.returncode == 1
    assert "t0_us stays at 3.91: " in done.stdout
    assert "Nothing was written: the measurements determine no coefficient" in done.stdout
    assert not (tmp_path / "mine.yaml").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("empty.json", "--gpu", "h100", "-o", "mine.yaml"), "empty.json: holds no runs"),
        (("absent.csv", "--gpu", "h100", "-o", "mine.yaml"), "absent.csv: no such file"),
        (("gemm.csv", "--gpu", "h1000", "-o", "mine.yaml"), "unknown GPU 'h1000'"),
        (("gemm.csv", "--gpu", "h100", "--engine", "vlm", "-o", "mine.yaml"), "unknown engine 'vlm'"),
        (("gemm.csv", "--gpu", "h100", "-o", "nowhere/mine.yaml"), "nowhere/mine.yaml: -o: no such folder"),
    ],
)
def test_wrong_input_is_one_message(
    servecast: Servecast, table: Path, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    (table.parent / "empty.json").write_text("[]")
    done = servecast("calibrate", *words, cwd=table.parent)

    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "mine.yaml").exists()
