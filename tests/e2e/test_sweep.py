"""`servecast sweep` and `servecast results`: what they print and write, and that nothing finished is lost."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

from servecast.commands.results import show_results
from servecast.commands.sweep import sweep_file
from servecast.hardware.errors import ConfigError
from servecast.sweeps.backends import Backend
from servecast.sweeps.grid import points
from servecast.sweeps.store import open_store
from servecast.sweeps.sweep_file import load_sweep

Servecast = Callable[..., subprocess.CompletedProcess[str]]

SCENARIO = """
model: llama-3.1-8b
gpu: h100-sxm
replica: {max_model_len: 8192}
workload:
  num_requests: 50
  arrivals: {process: poisson, request_rate: 5}
  lengths: {profile: sharegpt}
"""
SWEEP = """
scenario: small.yaml
axes:
  workload.arrivals.request_rate: {from: 2, to: 20, points: 6, log: true}
  replica.tensor_parallel_size: [1, 2, 3]
metrics: [output_throughput, p99_ttft_ms, preemptions]
derive: {tok_per_s_per_gpu: output_throughput / tensor_parallel_size}
"""


def write_sweep(folder: Path, more: str = "") -> Path:
    """A sweep of 18 points; the six with three GPUs fail."""
    (folder / "small.yaml").write_text(SCENARIO)
    file = folder / "sweep.yaml"
    file.write_text(SWEEP + more)
    return file


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    return write_sweep(tmp_path)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the results of the sweep."""
    folder = tmp_path_factory.mktemp("stored")
    sweep_file(write_sweep(folder), [], Backend(jobs=1), out=folder / "out", resume=False, as_json=False)
    return folder / "out"


def rows(folder: Path) -> str:
    return (folder / "table.csv").read_text()


def test_a_table_on_stdout_and_files(servecast: Servecast, sweep: Path, tmp_path: Path, stored: Path) -> None:
    done = servecast("sweep", sweep, "--out", tmp_path / "out", "--jobs", 1)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "18 points; 6 failed" in done.stdout
    assert "6 x replica.tensor_parallel_size: 3 does not divide the 32 attention heads" in done.stdout
    assert (tmp_path / "out" / "table.md").read_text().count("\n") == 20
    assert rows(tmp_path / "out") == rows(stored)


def test_the_table_is_tidy(stored: Path) -> None:
    frame = pd.read_csv(stored / "table.csv")
    assert list(frame.columns) == [
        "request_rate",
        "tensor_parallel_size",
        "output_throughput_tok_per_s",
        "p99_ttft_ms",
        "preemptions",
        "tok_per_s_per_gpu",
        "status",
        "message",
    ]
    assert (frame["status"] == "ok").sum() == 12


def test_parquet_holds_the_same_table(stored: Path) -> None:
    pytest.importorskip("pyarrow", reason="pip install 'servecast[parquet]'")
    parquet = pd.read_parquet(stored / "table.parquet")
    assert parquet["preemptions"].dtype == "Int64"
    pd.testing.assert_frame_equal(parquet, pd.read_csv(stored / "table.csv"), check_dtype=False)


def test_json(servecast: Servecast, sweep: Path) -> None:
    found = json.loads(servecast("sweep", sweep, "--json", "--jobs", 1).stdout)
    assert (found["name"], found["points"], found["failed"]) == ("sweep", 18, 6)
    assert found["table"][0]["request_rate"] == 2
    assert found["labels"] == ["request_rate", "tensor_parallel_size"]


@pytest.mark.parametrize("backend", ["loky", "dask", "ray"])
def test_the_table_depends_on_neither_backend_nor_jobs(
    servecast: Servecast, sweep: Path, tmp_path: Path, stored: Path, backend: str
) -> None:
    if backend != "loky" and importlib.util.find_spec({"dask": "distributed"}.get(backend, backend)) is None:
        pytest.skip(f"{backend} is not installed: pip install 'servecast[{backend}]'")
    done = servecast("sweep", sweep, "--out", tmp_path / "together", "--backend", backend, "--jobs", 2)
    assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "together") == rows(stored)


def count(folder: Path) -> int:
    """Results in the store of a sweep that may not have begun."""
    try:
        with closing(sqlite3.connect(f"file:{folder}/results.sqlite?mode=ro", uri=True)) as database:
            ((found,),) = database.execute("SELECT count(*) FROM outcomes")
            return int(found)
    except sqlite3.OperationalError:
        return 0


# Points of half a second, so that there is a middle to be stopped in.
LONGER = "set: {workload.num_requests: 5000}\n"


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the results of the longer sweep, run in one go."""
    folder = tmp_path_factory.mktemp("unbroken")
    sweep_file(write_sweep(folder, LONGER), [], Backend(jobs=1), out=folder / "out", resume=False, as_json=False)
    return folder / "out"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_stopped_and_resumed_it_is_as_if_it_had_never_been(
    servecast: Servecast, tmp_path: Path, unbroken: Path, how: signal.Signals
) -> None:
    sweep, broken = write_sweep(tmp_path, LONGER), tmp_path / "broken"
    command = [sys.executable, "-m", "servecast", "sweep", str(sweep), "--jobs", "2", "--out", str(broken)]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        while count(broken) < 3:
            assert process.poll() is None
            time.sleep(0.02)
        os.killpg(process.pid, how) if how == signal.SIGINT else process.kill()
        process.wait()
    kept = count(broken)
    assert 3 <= kept < 18

    again = servecast("sweep", sweep, "--out", broken)
    assert again.returncode == 2
    assert f"holds {kept} results already. Add --resume" in again.stderr

    assert servecast("sweep", sweep, "--jobs", 2, "--out", broken, "--resume").returncode == 0
    assert rows(broken) == rows(unbroken)
    assert count(broken) == count(unbroken) == 18


def test_resume_repeats_nothing(servecast: Servecast, stored: Path) -> None:
    finished = "SELECT key, finished_at, seconds FROM outcomes ORDER BY key"
    before = servecast("results", stored, "--json", "--sql", finished).stdout
    again = servecast("sweep", stored.parent / "sweep.yaml", "--out", stored, "--jobs", 1, "--resume")
    assert again.returncode == 0
    assert servecast("results", stored, "--json", "--sql", finished).stdout == before


def test_results_lists_and_answers_queries(servecast: Servecast, stored: Path) -> None:
    listed = servecast("results", stored)
    assert len(listed.stdout.splitlines()) == 19
    query = "SELECT status, count(*) AS points FROM points GROUP BY status"
    found = json.loads(servecast("results", stored, "--sql", query, "--json").stdout)
    assert found == [{"status": "failed", "points": 6}, {"status": "ok", "points": 12}]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT p99_tft_ms FROM points", "no such column: p99_tft_ms"),
        ("DROP TABLE outcomes", "queries only"),
        ("ATTACH '/tmp/x.sqlite' AS x", "queries only"),
        ("DELETE FROM points", "queries only, such as SELECT"),
        ("SELECT 1; SELECT 2", r"one statement at a time\. Tables"),
    ],
)
def test_a_query_that_cannot_be(stored: Path, query: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        show_results(stored, query, as_json=False)


def test_if_nothing_can_run_the_answer_is_no(servecast: Servecast, sweep: Path) -> None:
    done = servecast("sweep", sweep, "--set", "model=llama-3.1-405b", "--jobs", 1)
    assert done.returncode == 1
    assert "18 points; 18 failed" in done.stdout


def test_a_second_process_is_refused(servecast: Servecast, stored: Path) -> None:
    with open_store(stored, resume=True):
        done = servecast("sweep", stored.parent / "sweep.yaml", "--out", stored, "--resume")
    assert done.returncode == 2
    assert f"is in use by process {os.getpid()} on" in done.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--resume"], "--resume: needs --out DIR"),
        (["--jobs", 0], "--jobs: must be 1 or more, found 0"),
        (["--backend", "spark"], "--backend: must be one of loky, dask, ray, found 'spark'"),
        (["--address", "tcp://x:1"], "--address: belongs to a cluster"),
        (["--set", "replica.tensor_parallel_size=1"], "is varied by axis 'replica.tensor_parallel_size' of"),
        (["--set", "gpus=l40s"], "--set gpus=l40s: unknown key. Did you mean 'gpu'"),
    ],
)
def test_wrong_options_are_one_message(servecast: Servecast, sweep: Path, words: list[object], expected: str) -> None:
    done = servecast("sweep", sweep, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_the_schema_of_sweeps(servecast: Servecast) -> None:
    assert json.loads(servecast("schema", "--sweep").stdout)["title"] == "servecast sweep"


EXAMPLES = [file for file in sorted(Path(__file__).parents[2].glob("sweeps/*.yaml")) if "compare" not in file.stem]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda file: file.stem)
def test_every_example_is_a_sweep(example: Path) -> None:
    assert len(points(load_sweep(example))) > 1
