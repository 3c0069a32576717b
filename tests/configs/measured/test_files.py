"""Files of measured runs in each layout, and ones that are wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from servecast.configs.measured import MeasuredRun, read_rules, read_runs
from servecast.hardware.errors import ConfigError

CLOSED_LOOP = """system,backend,backend_version,model_path,precision,isl,osl,concurrency,tp_size,pp_size,\
measured_ttft_ms,measured_tpot_ms
h100_sxm,vllm,0.12.0,Qwen/Qwen3-32B,,1024,128,16.0,2.0,1.0,840.8,16.5
h100_sxm,vllm,,Qwen/Qwen3-32B,fp8,1024,128,16.0,2.0,1.0,840.8,16.5
"""
SERVING = """gpu_sku,tp,replicas,model,precision,engine,engine_version,mode,input_len,output_len,request_rate,\
n_requests,kv_tokens,ttft_mean_ms,req_per_s
H100-80GB (inferred),1,2,llama-2-7b,fp16,vLLM,0.15.1,open poisson,591.6,247,5,3000,119392,25.0,4.98
a100,1,1,llama-2-7b,fp16,vLLM,0.15.1,open gamma burstiness 50.0,591.6,247,5,3000,,25.0,
a100,1,1,llama-2-7b,fp7,vLLM,0.15.1,open poisson,591.6,247,5,3000,,25.0,
a100,1,1,llama-2-7b,fp16,vLLM,0.15.1,open poisson,591.6,247,5,3000,,0,
"""
REQUESTS = """arrival_s,input_tokens,output_tokens,ttft_s,e2e_s
0.0,100,11,0.5,1.5
1.0,200,21,0.7,4.7
"""
BENCH = {
    "model_id": "meta-llama/Llama-3.1-8B-Instruct",
    "num_prompts": 4,
    "request_rate": "inf",
    "max_concurrency": 2,
    "completed": 4,
    "total_input_tokens": 400,
    "total_output_tokens": 80,
    "mean_ttft_ms": 20.5,
    "median_ttft_ms": 19.0,
    "mean_tpot_ms": 7.0,
}


def write(folder: Path, text: str, name: str = "runs.csv") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def read_one(file: Path, **options: object) -> MeasuredRun:
    (run,) = read_runs(file, **options)  # type: ignore[arg-type] # the tests pass what read_runs takes
    return run


def test_a_closed_loop_table(tmp_path: Path) -> None:
    first, second = read_runs(write(tmp_path, CLOSED_LOOP))
    assert first.figures == {"ttft": 840.8, "tpot": 16.5}
    assert (first.settings["gpu"], first.settings["engine"]) == ("h100_sxm", "vllm-0.12")
    assert first.settings["replica"]["tensor_parallel_size"] == 2
    assert first.settings["workload"]["num_requests"] == 160
    assert first.settings["workload"]["arrivals"] == {"process": "closed_loop", "concurrency": 16}
    assert second.problem == "does not say which engine; give --engine"
    assert second.place.endswith("runs.csv:3")


def test_what_a_file_lacks_comes_from_the_defaults(tmp_path: Path) -> None:
    runs = read_runs(write(tmp_path, CLOSED_LOOP), defaults={"engine": "vllm-0.10"})
    assert [run.settings["engine"] for run in runs] == ["vllm-0.12", "vllm-0.10"]


def test_overrides_go_before_the_file(tmp_path: Path) -> None:
    runs = read_runs(write(tmp_path, CLOSED_LOOP), overrides=["engine=vllm-0.19", "scheduler.max_num_seqs=8"])
    assert {run.settings["engine"] for run in runs} == {"vllm-0.19"}
    assert runs[0].settings["scheduler"]["max_num_seqs"] == 8


def test_a_table_of_open_loops(tmp_path: Path) -> None:
    poisson, gamma, odd_dtype, no_time = read_runs(write(tmp_path, SERVING))
    assert poisson.settings["gpu"] == "H100-80GB"
    assert poisson.settings["fleet"] == {"replicas": 2}
    assert poisson.settings["replica"]["kv_pool_blocks"] == 7462
    assert poisson.settings["workload"]["lengths"]["prompt"]["value"] == 592
    assert poisson.figures == {"ttft": 25.0, "requests": 4.98}
    arrivals = {"process": "gamma", "request_rate": 5.0, "burstiness": 50.0}
    assert gamma.settings["workload"]["arrivals"] == arrivals
    assert "unknown number format 'fp7'" in str(odd_dtype.problem)
    assert no_time.problem == "ttft_mean_ms: must be a number above 0, found '0'"


def test_a_table_of_requests_is_one_run(tmp_path: Path) -> None:
    run = read_one(write(tmp_path, REQUESTS), defaults={"model": "m", "gpu": "g", "engine": "e"})
    assert run.problem is None
    assert run.settings["workload"]["arrivals"]["process"] == "trace"
    assert run.figures["ttft"] == pytest.approx(600)
    assert run.figures["tpot"] == pytest.approx((100 + 200) / 2)
    assert run.figures["requests"] == pytest.approx(2 / 5.7)
    assert run.figures["throughput"] == pytest.approx(32 / 5.7)


@pytest.mark.parametrize("layout", ["one object", "array", "lines"])
def test_a_vllm_bench_result(tmp_path: Path, layout: str) -> None:
    text = {"one object": json.dumps(BENCH), "array": json.dumps([BENCH, BENCH]), "lines": f"{json.dumps(BENCH)}\n" * 2}
    runs = read_runs(write(tmp_path, text[layout], "bench.json"), defaults={"gpu": "h100", "engine": "vllm-0.19"})
    assert len(runs) == (1 if layout == "one object" else 2)
    workload = runs[0].settings["workload"]
    assert workload["arrivals"] == {"process": "closed_loop", "concurrency": 2}
    assert workload["lengths"]["output"] == {"distribution": "fixed", "value": 20}
    assert runs[0].figures == {"ttft": 20.5, "ttft_p50": 19.0, "tpot": 7.0}
    assert runs[0].lengths is None


def test_a_detailed_vllm_bench_result_has_its_own_lengths(tmp_path: Path) -> None:
    detailed = BENCH | {"input_lens": [100, 90, 110, 100, 5], "output_lens": [20, 10, 30, 20, 0], "failed": 1}
    run = read_one(write(tmp_path, json.dumps(detailed), "bench.json"))
    assert run.lengths is not None
    assert run.lengths.output_tokens.tolist() == [20, 10, 30, 20]
    assert run.note == "1 requests failed and are not simulated"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("a,b\n1,2\n", "the columns are of no known layout: a, b"),
        ("isl,osl,tpot_mean_ms\n", "has a header but no rows"),
        ("isl,osl,tpot_mean_ms\n1,2\n", ":2: 2 cells where the header has 3"),
        (REQUESTS + "2.0,100,11,none,1.5\n", ":4: ttft_s: must be a number above 0, found 'none'"),
        ("{broken", "broken JSON"),
        ('{"a": 1}', "is not a result of vllm bench serve"),
        (json.dumps(BENCH | {"mean_ttft_ms": 0}), "mean_ttft_ms: must be a number above 0, found 0"),
        (json.dumps(BENCH | {"request_rate": 3.0}), "max_concurrency: 2 beside request_rate 3.0"),
        (json.dumps(BENCH | {"input_lens": [1], "output_lens": [1, 2]}), "output_lens: has 2 entries"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_message(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=r"runs\.csv") as caught:
        read_runs(write(tmp_path, text))
    assert message in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        read_runs(tmp_path / "none.csv")


def test_rules_add_what_the_file_does_not_state(tmp_path: Path) -> None:
    rules = """
- where: {backend_version: "", tp_size: 2}
  set: {engine: vllm-0.10, scheduler.max_num_seqs: 512}
  length_range: [0.8, 1.0]
  requests_per_client: 5
  fitted: {ttft: server time}
- where: {file: runs.csv, precision: fp8}
  leave_out: {tpot: odd}
  unsettled: {ttft: token budget}
  aside: an old engine
  note: guessed
- where: {backend_version: 0.12.0}
  leave_out: {run: another day}
"""
    first, second = read_runs(write(tmp_path, CLOSED_LOOP), read_rules(write(tmp_path, rules, "rules.yaml")))
    assert first.problem == "another day"
    assert second.settings["engine"] == "vllm-0.10"
    assert second.settings["workload"]["lengths"]["prompt"] == {"distribution": "uniform", "low": 819, "high": 1024}
    assert second.settings["workload"]["num_requests"] == 80
    assert (second.compared, second.fitted, second.note) == ({"ttft": 840.8}, {"ttft": "server time"}, "guessed")
    assert (second.unsettled, second.aside) == ({"ttft": "token budget"}, "an old engine")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("{wher: {a: b}}", "unknown key. Did you mean 'where'?"),
        ("{set: {a: b}}", "where: is missing"),
        ("{where: {a: b}, length_range: [1.0, 0.8]}", "must be two rising shares"),
        ("{where: {a: b}, leave_out: {tpto: odd}}", "Did you mean 'tpot'?"),
        ("just text", "must hold a list of rules"),
    ],
)
def test_a_wrong_rule_is_one_message(tmp_path: Path, rule: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_rules(write(tmp_path, f"- {rule}\n", "rules.yaml"))
    assert message in str(caught.value)
    assert "rules.yaml" in str(caught.value)


@pytest.mark.needs_shared
@pytest.mark.parametrize(
    ("name", "runs"), [("serving_measured.csv", 457), ("serving_open_and_offline.csv", 785), ("B01_requests.csv", 1)]
)
def test_every_row_of_the_measured_files_is_read(shared_data: Path, name: str, runs: int) -> None:
    rules = read_rules(Path(__file__).parents[3] / "benchmarks/accuracy/rules.yaml")
    found = read_runs(shared_data / "e2e" / name, rules)
    assert len(found) == runs
    assert [run.problem for run in found if run.problem is not None] == []


def test_an_answer_that_ends_before_its_first_token_is_refused(tmp_path: Path) -> None:
    wrong = REQUESTS + "\n2.0,100,11,0.9,0.5\n"  # after an empty line
    expected = r"runs.csv:5: ends after 0.5 s, before its first token at 0.9 s. 1 of 3 rows are so"
    with pytest.raises(ConfigError, match=expected):
        read_runs(write(tmp_path, wrong))
