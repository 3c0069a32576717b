"""`servecast validate` as a user runs it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Servecast = Callable[..., subprocess.CompletedProcess[str]]

RESULT: dict[str, Any] = {
    "model_id": "meta-llama/Llama-3.1-8B-Instruct",
    "request_rate": "inf",
    "max_concurrency": 4,
    "completed": 20,
    "total_input_tokens": 10_000,
    "total_output_tokens": 400,
    "mean_ttft_ms": 40.0,
    "mean_tpot_ms": 7.5,
}
HERE = ("--gpu", "h100-sxm", "--engine", "vllm-0.19", "--set", "replica.max_model_len=4096")


@pytest.fixture
def result(tmp_path: Path) -> Path:
    file = tmp_path / "bench.json"
    file.write_text(json.dumps(RESULT))
    return file


def test_a_vllm_bench_result_is_compared(servecast: Servecast, result: Path) -> None:
    done = servecast("validate", result, *HERE)
    assert done.returncode == 0, done.stderr
    assert "1 of 1 runs simulated" in done.stdout
    assert "llama-3.1-8b" in done.stdout
    assert "TPOT" in done.stdout


def test_a_threshold_decides_the_exit_code(servecast: Servecast, result: Path) -> None:
    assert servecast("validate", result, *HERE, "--threshold", "tpot=1000").returncode == 0
    missed = servecast("validate", result, *HERE, "--threshold", "tpot=0.0001", "--json")
    assert missed.returncode == 1
    (verdict,) = json.loads(missed.stdout)["thresholds"]
    assert (verdict["figure"], verdict["met"]) == ("tpot", False)


def test_runs_that_cannot_be_simulated_are_counted(servecast: Servecast, result: Path) -> None:
    result.write_text(json.dumps([RESULT, {**RESULT, "model_id": "llama-9"}]))
    found = json.loads(servecast("validate", result, *HERE, "--json").stdout)
    assert (found["runs"], found["simulated"]) == (2, 1)
    (reason,) = found["not_compared"]
    assert "unknown model 'llama-9'" in reason["reason"]


def test_the_files_of_out(servecast: Servecast, result: Path, tmp_path: Path) -> None:
    done = servecast("validate", result, *HERE, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    names = {file.name for file in (tmp_path / "out").iterdir()}
    assert names == {"rows.csv", "errors.csv", "parity.svg", "parity.png"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bench.json"], "does not say which gpu; give --gpu"),
        (["empty.json", *HERE], "empty.json: holds no runs"),
        (["none.json", *HERE], "none.json: no such file"),
        (["bench.json", *HERE, "--threshold", "tpot"], "--threshold: cannot be read"),
        (["bench.json", *HERE, "--rules", "bench.json"], "must hold a list of rules"),
    ],
)
def test_bad_input_is_one_message(servecast: Servecast, result: Path, words: list[str], message: str) -> None:
    (result.parent / "empty.json").write_text("[]")
    done = servecast("validate", *words, cwd=result.parent)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
