"""`servecast run`: what it prints, what it writes, and how it answers wrong input."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

Servecast = Callable[..., subprocess.CompletedProcess[str]]


def test_quickstart_prints_a_table_on_stdout_and_nothing_else(servecast: Servecast) -> None:
    done = servecast("run", "configs/quickstart.yaml")
    assert done.returncode == 0
    assert done.stderr == ""
    for words in ("Successful requests", "2,000", "TTFT", "p99", "Load: below saturation", "SLO ttft:p99<=500ms: met"):
        assert words in done.stdout


def test_json_is_the_summary(servecast: Servecast, scenario: Path) -> None:
    summary = json.loads(servecast("run", scenario, "--json").stdout)
    assert summary["completed"] == 50
    assert list(summary)[:3] == ["duration", "completed", "failed"]
    assert summary["provenance"]["scenario"]["scheduler"]["max_num_seqs"] == 256
    assert summary["accuracy"]["calibration"] == "measured"


def test_out_writes_files_that_repeat_the_run(servecast: Servecast, scenario: Path, tmp_path: Path) -> None:
    first = servecast("run", scenario, "--json", "--out", tmp_path / "out")
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        "details.json",
        "distributions.csv",
        "requests.csv",
        "scenario.yaml",
        "series.csv",
        "summary.json",
    ]
    assert json.loads((tmp_path / "out" / "summary.json").read_text()) == json.loads(first.stdout)
    with (tmp_path / "out" / "requests.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 50
    assert {row["state"] for row in rows} == {"completed"}
    again = json.loads(servecast("run", tmp_path / "out" / "scenario.yaml", "--json").stdout)
    for summary in (again, expected := json.loads(first.stdout)):
        del summary["provenance"]
    assert again == expected


def test_timeline_is_a_trace_and_needs_a_folder(servecast: Servecast, scenario: Path, tmp_path: Path) -> None:
    done = servecast("run", scenario, "--timeline", "--out", tmp_path / "out")
    assert "timeline.json" in done.stdout
    trace = json.loads((tmp_path / "out" / "timeline.json").read_text())
    spans = [event for event in trace["traceEvents"] if event["ph"] == "b" and event["name"].startswith("request")]
    assert len(spans) == 50
    done = servecast("run", scenario, "--timeline")
    assert done.returncode == 2
    assert "--timeline: needs --out DIR" in done.stderr


def test_set_overrides_a_key(servecast: Servecast, scenario: Path) -> None:
    done = servecast("run", scenario, "--json", "--set", "workload.num_requests=7", "--set", "seed=3")
    summary = json.loads(done.stdout)
    assert (summary["completed"], summary["provenance"]["seed"]) == (7, 3)


def test_admission_control_is_reported_with_goodput_with_and_without(servecast: Servecast, scenario: Path) -> None:
    crowd = ["--set", "workload.arrivals.request_rate=2000", "--set", "workload.num_requests=500"]
    limits = ["--set", "slo=ttft:p99<=200ms", "--set", "scheduler.max_num_seqs=8"]
    free = json.loads(servecast("run", scenario, "--json", *crowd, *limits).stdout)
    ruled = json.loads(servecast("run", scenario, "--json", *crowd, *limits, "--set", "scheduler.admission=slo").stdout)
    assert free["admission"] is None
    assert ruled["admission"]["rule"] == "slo"
    assert ruled["admission"]["rejected"] == ruled["rejected"]["slo"] > 0
    assert ruled["admission"]["with"]["request_goodput"] == ruled["request_goodput"]
    assert ruled["admission"]["without"]["request_goodput"] == free["request_goodput"] < ruled["request_goodput"]
    shown = servecast("run", scenario, *crowd, *limits, "--set", "scheduler.admission=slo").stdout
    assert f"goodput {ruled['request_goodput']:,.2f} req/s with it, {free['request_goodput']:,.2f} without" in shown


def test_equal_seeds_give_equal_results_in_any_process(servecast: Servecast, scenario: Path) -> None:
    outputs = {servecast("run", scenario, "--json").stdout for _ in range(2)}
    assert len(outputs) == 1
    assert servecast("run", scenario, "--json", "--set", "seed=1").stdout not in outputs


@pytest.mark.parametrize(
    "example", sorted(Path(__file__).parents[2].glob("configs/*.yaml")), ids=lambda file: file.stem
)
def test_every_example_runs(servecast: Servecast, example: Path) -> None:
    done = servecast("run", example, "--json", "--set", "workload.num_requests=40")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["completed"] + summary["failed"] == 40


# What the user does wrong -> the words that must be in the answer.
WRONG = {
    "unknown key": ("gpus: h100-sxm", ["small.yaml:12", "gpus", "Did you mean 'gpu'"]),
    "unknown GPU": ("gpu: h1000-sxm", ["small.yaml:12: gpu", "h1000-sxm", "Did you mean 'h100-sxm'"]),
    "unknown model": ("model: llama-9-8b", ["small.yaml:12: model", "llama-9-8b", "Did you mean"]),
    "TP does not divide the heads": (
        "replica: {tensor_parallel_size: 3}",
        ["small.yaml:12: replica.tensor_parallel_size", "3 does not divide the 32", "Valid for this model: 1, 2, 4, 8"],
    ),
    "negative rate": (
        "workload: {arrivals: {process: poisson, request_rate: -2}, lengths: {profile: sharegpt}}",
        ["small.yaml:12: workload.arrivals.request_rate", "-2", "above 0"],
    ),
    "unknown profile": (
        "workload: {arrivals: {process: batch}, lengths: {profile: azure-conv}}",
        ["small.yaml:12: workload.lengths.profile", "azure-conv-2023"],
    ),
    "missing trace": (
        "workload: {arrivals: {process: trace, path: nowhere.csv}}",
        ["small.yaml:12: workload.arrivals.path", "no such file", "nowhere.csv"],
    ),
    "broken YAML": ("replica: {", ["small.yaml:", "broken YAML"]),
    "a key twice": ("model: llama-3.1-8b\nmodel: llama-3.1-8b", ["small.yaml:13", "model", "twice"]),
}


def without(text: str, key: str) -> str:
    """`text` without the top-level `key` and what belongs to it; blank lines keep the numbers of the others."""
    lines, skipping = [], False
    for line in text.splitlines():
        if not line.startswith(" "):
            skipping = line.startswith(f"{key}:")
        lines.append("" if skipping else line)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_one_message_and_exit_code_2(servecast: Servecast, scenario: Path, case: str) -> None:
    addition, words = WRONG[case]
    key = addition.split(":")[0]
    scenario.write_text(without(scenario.read_text(), key) + addition + "\n")
    done = servecast("run", scenario)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


def test_missing_file(servecast: Servecast) -> None:
    done = servecast("run", "nowhere.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: nowhere.yaml: no such file. Give the path of a scenario file (YAML)\n"


def test_wrong_override_names_the_option(servecast: Servecast, scenario: Path) -> None:
    done = servecast("run", scenario, "--set", "scheduler.max_num_seq=3")
    assert done.returncode == 2
    assert "--set scheduler.max_num_seq=3" in done.stderr
    assert "max_num_seqs" in done.stderr


def test_a_model_that_does_not_fit_is_a_no_with_exit_code_1(servecast: Servecast, scenario: Path) -> None:
    done = servecast("run", scenario, "--set", "model=llama-3.1-70b", "--out", scenario.parent / "out")
    assert done.returncode == 1
    assert "llama-3.1-70b (bfloat16) does not fit 1 x h100-sxm" in done.stderr
    assert "GiB short" in done.stderr
    assert not (scenario.parent / "out" / "summary.json").exists()


def test_out_that_cannot_be_a_folder(servecast: Servecast, scenario: Path) -> None:
    done = servecast("run", scenario, "--out", scenario)
    assert done.returncode == 2
    assert "--out" in done.stderr


def test_paths_in_a_scenario_are_relative_to_it(servecast: Servecast, scenario: Path, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,10,5\n1,20,5\n")
    settings = yaml.safe_load(scenario.read_text())
    settings["workload"] = {"arrivals": {"process": "trace", "path": "t.csv"}}
    scenario.write_text(yaml.safe_dump(settings))
    summary = json.loads(servecast("run", scenario, "--json").stdout)
    assert (summary["completed"], summary["total_input_tokens"]) == (2, 30)


@pytest.mark.parametrize(
    ("key", "value"),
    [("workload.num_requests", "1e30"), ("fleet.replicas", "1e9"), ("scheduler.swap_space", "1e300")],
)
def test_a_number_that_no_machine_could_hold_is_refused(
    servecast: Servecast, scenario: Path, key: str, value: str
) -> None:
    done = servecast("run", scenario, "--set", f"{key}={value}")
    assert (done.returncode, done.stdout) == (2, "")
    assert key in done.stderr
    assert "Traceback" not in done.stderr


def test_an_output_file_that_cannot_be_replaced_is_named(servecast: Servecast, scenario: Path, tmp_path: Path) -> None:
    (tmp_path / "summary.json" / "in the way").mkdir(parents=True)
    done = servecast("run", scenario, "--out", tmp_path)
    assert done.returncode == 2
    assert "summary.json: --out: cannot be written" in done.stderr
    assert [file.name for file in tmp_path.iterdir() if file.suffix == ".part"] == []


def test_weak_ground_is_said(servecast: Servecast, scenario: Path) -> None:
    eight = ("--set", "replica.tensor_parallel_size=8")
    on_l40s = servecast("run", scenario, "--set", "gpu=l40s", *eight).stdout
    assert "All-reduce of 8 GPUs over PCIe is priced at 14 GB/s, typical of servers" in on_l40s
    on_mi300x = servecast("run", scenario, "--set", "gpu=mi300x", *eight).stdout
    assert "All-reduce over Infinity Fabric mesh was not measured on this GPU" in on_mi300x
    cached = ("--set", "model=gemma-3-4b", "--set", "scheduler.enable_prefix_caching=true")
    assert "sliding window" in servecast("run", scenario, *cached).stdout
    assert "Note:" not in servecast("run", scenario, *eight).stdout


def test_more_gpus_than_a_server_has_are_refused(servecast: Servecast, scenario: Path) -> None:
    done = servecast("run", scenario, "--set", "replica.tensor_parallel_size=16")
    assert (done.returncode, done.stdout) == (2, "")
    assert "replica.tensor_parallel_size=16: 16 GPUs, but a server of h100-sxm has 8" in done.stderr


def test_a_run_without_an_answer_does_not_look_healthy(servecast: Servecast, scenario: Path) -> None:
    text = servecast("run", scenario, "--set", "replica.max_model_len=1").stdout
    assert "No request was answered." in text
    assert "below saturation" not in text


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("output", [["--json"], []])
def test_a_reader_that_has_gone_is_no_error(scenario: Path, output: list[str]) -> None:
    """As in `servecast run ... | true`."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "servecast", "run", str(scenario), *output]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_output_to_a_full_disk_is_one_message(scenario: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "servecast", "run", scenario],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr
