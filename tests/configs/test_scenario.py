"""The scenario schema: defaults, accepted values, effective form, JSON schema and documentation."""

from __future__ import annotations

import json
import pickle
import re
import sys
import types
from pathlib import Path
from typing import Any

import pydantic
import pytest
import yaml

from servecast.configs.build import build_simulation
from servecast.configs.length_profiles import profile_names
from servecast.configs.load import load_scenario, scenario_from
from servecast.configs.scenario import Scenario, scenario_json_schema
from servecast.configs.traces import read_trace
from servecast.model.admission import AdmissionParameters
from servecast.model.precision import KV_BYTES, WEIGHT_BITS
from servecast.model.request import Request

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "configs").glob("*.yaml"))
DOCS = (ROOT / "docs" / "scenario.md").read_text(encoding="utf-8")


def a_scenario(**changes: Any) -> dict[str, Any]:
    """The smallest scenario, with `changes` on top."""
    arrivals = {"process": "poisson", "request_rate": 5}
    workload = {"arrivals": arrivals, "lengths": {"profile": "azure-conv-2023"}}
    return {"model": "llama-3.1-8b", "gpu": "h100-sxm", "workload": workload, **changes}


def with_lengths(**lengths: Any) -> dict[str, Any]:
    return a_scenario(workload={"arrivals": {"process": "batch"}, "lengths": lengths})


def with_arrivals(**arrivals: Any) -> dict[str, Any]:
    return a_scenario(workload={"arrivals": arrivals, "lengths": {"profile": "1k1k"}})


# Defaults


def test_everything_but_model_gpu_and_workload_has_a_default() -> None:
    settings = scenario_from(a_scenario()).effective()

    assert list(settings) == [
        *(
            "name",
            "model",
            "gpu",
            "engine",
            "replica",
            "scheduler",
            "fleet",
            "workload",
            "slo",
            "cohorts",
            "price",
            "seed",
            "coast",
        )
    ]
    assert settings["engine"] == "vllm-0.19"
    assert settings["replica"] == {
        "tensor_parallel_size": 1,
        "pipeline_parallel_size": 1,
        "dtype": "bfloat16",
        "kv_cache_dtype": "auto",
        "gpu_memory_utilization": 0.9,
        "max_model_len": None,
        "block_size": 16,
        "kv_pool_blocks": None,
        "enforce_eager": False,
        "enable_expert_parallel": False,
        "all2all_backend": None,
    }
    assert settings["scheduler"]["max_num_batched_tokens"] == 8192
    assert settings["scheduler"]["swap_space"] == 4.0
    assert settings["fleet"] == {"replicas": 1, "router": "round_robin"}
    assert settings["workload"]["num_requests"] == 1000
    assert settings["coast"] is True


def test_an_empty_section_means_its_defaults() -> None:
    empty = a_scenario(replica=None, scheduler=None, fleet=None)

    assert scenario_from(empty) == scenario_from(a_scenario())


def test_a_trace_decides_the_number_of_requests_and_the_lengths() -> None:
    scenario = scenario_from(a_scenario(workload={"arrivals": {"process": "trace", "path": "t.csv"}}))

    assert scenario.workload.request_count is None
    assert "lengths" not in scenario.effective()["workload"]


def test_defaulted_keys_are_those_that_nobody_set() -> None:
    scenario = scenario_from(a_scenario(replica={"dtype": "fp8"}), ["scheduler.max_num_seqs=64"])

    defaulted = scenario.defaulted_keys()

    assert "replica.block_size" in defaulted
    assert "scheduler.policy" in defaulted
    assert "workload.num_requests" in defaulted
    assert not {"model", "replica.dtype", "scheduler.max_num_seqs", "workload.lengths.profile"} & set(defaulted)


def test_the_effective_scenario_leaves_out_alternatives_that_were_not_taken() -> None:
    lengths = scenario_from(a_scenario()).effective()["workload"]["lengths"]

    assert lengths == {"profile": "azure-conv-2023"}


# Values


@pytest.mark.parametrize(("written", "read"), [("1e1", 10.0), ("2.5E+0", 2.5), (3, 3.0)])
def test_numbers_with_an_exponent_are_numbers_though_yaml_reads_text(written: object, read: float) -> None:
    scenario = scenario_from(with_arrivals(process="constant", request_rate=written))

    assert scenario.effective()["workload"]["arrivals"]["request_rate"] == read


@pytest.mark.parametrize("written", [2000, 2000.0, "2e3"])
def test_a_count_may_be_written_as_a_number_without_fraction(written: object) -> None:
    scenario = scenario_from(a_scenario(scheduler={"max_num_batched_tokens": written}))

    assert scenario.scheduler.max_num_batched_tokens == 2000


@pytest.mark.parametrize(
    "arrivals",
    [
        {"process": "poisson", "request_rate": 5, "exact_rate": True},
        {"process": "gamma", "request_rate": 5, "burstiness": 0.25},
        {"process": "gamma", "request_rate": 5, "cv": 2},
        {"process": "constant", "request_rate": 0.5},
        {"process": "batch"},
        {"process": "closed_loop", "concurrency": 8, "think_time_s": 1.5},
        {
            "process": "schedule",
            "times_s": [0, 60],
            "request_rates": [1, 0],
            "shape": "linear",
            "period_s": 90,
        },
        {
            "process": "schedule",
            "diurnal": {"request_rate": 2, "peak_to_mean": 1.5, "peak_at_s": 9, "period_s": 60},
        },
        {"process": "trace", "path": "t.csv.gz", "format": "azure", "bad_rows": "skip", "rate_scale": 2},
    ],
)
def test_arrival_processes(arrivals: dict[str, Any]) -> None:
    effective = scenario_from(with_arrivals(**arrivals)).effective()["workload"]["arrivals"]

    assert effective == {**effective, **arrivals}


@pytest.mark.parametrize(
    "prompt",
    [
        {"distribution": "fixed", "value": 512},
        {"distribution": "uniform", "low": 1, "high": 9},
        {"distribution": "uniform", "value": 1024, "range_ratio": 0.2},
        {"distribution": "lognormal", "mean": 800.5, "cv": 0, "min": 4, "max": 8000},
        {"distribution": "histogram", "probabilities": [0, 0.5, 1], "tokens": [1, 20, 20]},
    ],
)
def test_length_distributions(prompt: dict[str, Any]) -> None:
    output = {"distribution": "fixed", "value": 128}

    lengths = scenario_from(with_lengths(prompt=prompt, output=output)).effective()["workload"]["lengths"]

    assert lengths["prompt"] == prompt
    assert lengths["output"] == output


def test_lengths_may_come_from_a_trace_without_its_times() -> None:
    lengths = scenario_from(with_lengths(trace={"path": "t.csv", "order": "sample"})).workload.lengths

    assert lengths is not None
    assert lengths.trace is not None
    assert lengths.trace.order == "sample"


def test_the_slo_is_kept_in_its_usual_spelling() -> None:
    scenario = scenario_from(a_scenario(slo="TTFT:p99 <= 0.5 s, tpot:50"))

    assert scenario.slo == "ttft:p99<=500ms tpot:50"
    assert scenario.slo_limits is not None
    assert scenario.slo_limits.request_limits_s == {"ttft": 0.5, "tpot": 0.05}


@pytest.mark.parametrize(
    "scheduler",
    [
        {"kind": "textbook"},
        {"kind": "orca"},
        {"kind": "static"},
        {"policy": "shortest_prompt"},
        {"policy": "aging", "aging_tokens_per_s": 50},
        {"policy": "package.module:Class"},
        {"preemption": "auto", "preemption_victim": "most_blocks", "preemption_reinsert": "back"},
        {"preemption": "swap", "swap_copy_us": 1.5, "swap_overlap": True},
        {"admission": {"max_queue": 0}},
        {"enable_prefix_caching": True, "policy": "longest_prefix"},
        {"backpressure": True, "scheduler_reserve_full_isl": False},
        {"long_prefill_token_threshold": 512, "max_num_partial_prefills": 4, "max_long_partial_prefills": 2},
    ],
)
def test_scheduler_settings(scheduler: dict[str, Any]) -> None:
    effective = scenario_from(a_scenario(scheduler=scheduler)).effective()["scheduler"]

    assert effective == {**effective, **scheduler}


def test_what_sets_requests_apart() -> None:
    workload = {
        **a_scenario()["workload"],
        "prompts": {"distinct": 100, "shared_prefix_tokens": 64},
        "priorities": {-1: 1, 10: 3},
        "tenants": {"free": 3, "paid": 1},
    }
    scenario = scenario_from(a_scenario(workload=workload, cohorts={"by": "tenant"}))

    identity = build_simulation(scenario).workload.identity

    assert (identity.distinct_prompts, identity.shared_prefix_tokens) == (100, 64)
    assert identity.priorities == {-1: 1, 10: 3}
    assert identity.tenants == {"free": 3, "paid": 1}
    assert scenario_from(scenario.effective()).effective() == scenario.effective()


def test_the_scheduler_gets_what_the_scenario_says() -> None:
    admission = {"max_queue": 7}
    settings = {"kind": "orca", "policy": "aging", "aging_tokens_per_s": 5, "swap_copy_us": 3, "admission": admission}

    scheduler = build_simulation(scenario_from(a_scenario(scheduler=settings))).scheduler

    assert scheduler.kind == "orca"
    assert (scheduler.policy.name, scheduler.policy.aging_tokens_per_s) == ("aging", 5)
    assert scheduler.preemption.swap_copy_s == pytest.approx(3e-6)
    assert scheduler.admission == AdmissionParameters("max_queue", 7)


def test_admission_by_slo_takes_the_limit_of_ttft() -> None:
    by_slo = a_scenario(scheduler={"admission": "slo"}, slo="ttft:p99<=400ms tpot:50")

    assert build_simulation(scenario_from(by_slo)).scheduler.admission == AdmissionParameters("slo", ttft_s=0.4)


class LongestOutput:
    """A policy of the user's own."""

    def key(self, request: Request) -> tuple[int, int]:
        return -request.output_tokens, request.id


def test_a_policy_of_the_users_own_is_loaded_by_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "my_policies", types.ModuleType("my_policies"))
    monkeypatch.setattr("my_policies.LongestOutput", LongestOutput, raising=False)

    own = a_scenario(scheduler={"policy": "my_policies:LongestOutput"})

    key = build_simulation(scenario_from(own)).scheduler.policy.key
    assert key is not None
    assert key(Request(4, 10, 30)) == (-30, 4)


def test_number_formats_are_those_that_the_cost_model_knows() -> None:
    schema = scenario_json_schema()["$defs"]["ReplicaSection"]["properties"]

    assert set(schema["dtype"]["enum"]) == set(WEIGHT_BITS)
    assert set(schema["kv_cache_dtype"]["enum"]) == set(KV_BYTES)


# A scenario as an object


def test_a_scenario_cannot_be_changed() -> None:
    scenario = scenario_from(a_scenario())

    with pytest.raises(pydantic.ValidationError):
        scenario.seed = 1


def test_scenarios_with_equal_settings_are_equal_wherever_they_are_from(tmp_path: Path) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.safe_dump(a_scenario()))

    assert load_scenario(file) == scenario_from(a_scenario())


def test_a_scenario_travels_to_other_processes(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(yaml.safe_dump(a_scenario(slo="ttft:500")))
    scenario = load_scenario(file)

    copy = pickle.loads(pickle.dumps(scenario))

    assert copy == scenario
    assert copy.origin.file == file


def test_the_effective_scenario_means_the_same_when_written_and_read_again(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    source = tmp_path / "in" / "s.yaml"
    arrivals = {"process": "trace", "path": "t.csv"}
    source.write_text(yaml.safe_dump(a_scenario(name="on", gpu="../gpu.yaml", workload={"arrivals": arrivals})))
    scenario = load_scenario(source)
    copy = tmp_path / "copy.yaml"
    copy.write_text(scenario.to_yaml())

    again = load_scenario(copy)

    assert again.name == "on"
    assert again.gpu == str(tmp_path / "gpu.yaml")
    assert again.effective()["workload"]["arrivals"]["path"] == str(tmp_path / "in" / "t.csv")
    assert again.effective()["scheduler"] == scenario.effective()["scheduler"]
    assert again.to_yaml() == scenario.to_yaml()


# Examples, schema, documentation


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_examples_are_valid(file: Path) -> None:
    scenario = load_scenario(file)

    assert scenario.name == file.stem
    lengths, arrivals = scenario.workload.lengths, scenario.workload.arrivals
    assert lengths is None or lengths.profile is None or lengths.profile in profile_names()
    if arrivals.process == "trace":
        assert len(read_trace(scenario.origin.resolve("workload.arrivals.path", arrivals.path))) == 60


def test_the_json_schema_describes_every_key() -> None:
    schema = scenario_json_schema()

    json.dumps(schema)
    sections = [schema, *schema["$defs"].values()]
    for section in sections:
        for key, value in section["properties"].items():
            assert "description" in value or "const" in value, f"{section['title']}.{key} has no description"
    assert schema["required"] == ["model", "gpu", "workload"]
    assert schema["properties"]["replica"]["default"] == {}


def test_the_json_schema_describes_names_and_mappings() -> None:
    sections = scenario_json_schema()["$defs"]
    scheduler, workload = sections["SchedulerSection"]["properties"], sections["WorkloadSection"]["properties"]

    names, own = scheduler["policy"]["anyOf"]
    assert "longest_prefix" in names["enum"]
    assert re.search(own["pattern"], "my.package:Policy")
    assert scheduler["admission"]["anyOf"][0] == {"enum": ["none", "slo"]}
    assert scheduler["admission"]["anyOf"][1]["properties"]["max_queue"]["minimum"] == 0
    assert workload["priorities"]["propertyNames"] == {"pattern": "^-?[0-9]+$"}


def test_the_documentation_has_every_key_with_its_default() -> None:
    schema = scenario_json_schema()
    for section in [schema, *schema["$defs"].values()]:
        for key, value in section["properties"].items():
            if "const" in value:
                assert f"| `{value['const']}` |" in DOCS
                continue
            rows = re.findall(rf"^\| `{key}` \|.*$", DOCS, flags=re.MULTILINE)
            assert rows, f"docs/scenario.md has no row for {section['title']}.{key}"
            default = value.get("default")
            if default not in (None, {}, "scenario"):
                assert any(f"`{yaml_word(default)}`" in row.split(" | ")[-1] for row in rows), (key, default)


def yaml_word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", DOCS, flags=re.DOTALL))
def test_examples_in_the_documentation_are_valid(block: str) -> None:
    assert isinstance(scenario_from({**a_scenario(), **yaml.safe_load(block)}), Scenario)
