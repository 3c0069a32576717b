"""The comparison file: what candidates it makes, and how it answers mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from servecast.configs.comparison import Comparison, candidates, load_comparison, own_prices
from servecast.hardware.errors import ConfigError
from servecast.hardware.gpus import gpu_keys

ROOT = Path(__file__).parents[2]
HEAD = """model: llama-3.1-8b
workload:
  arrivals: {process: poisson, request_rate: 5}
  lengths: {profile: 1k1k}
slo: ttft:p99<=1s
"""


def comparison(tmp_path: Path, text: str, head: str = HEAD) -> Comparison:
    file = tmp_path / "which.yaml"
    file.write_text(head + text)
    return load_comparison(file)


def labels(tmp_path: Path, text: str) -> list[str]:
    return [candidate.label for candidate in candidates(comparison(tmp_path, text))]


def test_a_gpu_is_tried_at_every_power_of_two_that_splits_the_model(tmp_path: Path) -> None:
    assert labels(tmp_path, "gpus: [h100]") == ["h100-sxm TP1", "h100-sxm TP2", "h100-sxm TP4", "h100-sxm TP8"]


def test_candidates_are_all_combinations_of_their_lists(tmp_path: Path) -> None:
    text = """candidates:
  - {gpu: [h100-sxm, l40s], tensor_parallel_size: 1, dtype: [bfloat16, fp8]}
  - {gpu: l40s, tensor_parallel_size: [2], engine: [vllm-0.19, sglang-0.5], set: {scheduler.max_num_seqs: 64}}
"""
    assert labels(tmp_path, text) == [
        "h100-sxm TP1 bfloat16",
        "h100-sxm TP1 fp8",
        "l40s TP1 bfloat16",
        "l40s TP1 fp8",
        "l40s TP2 vllm-0.19 max_num_seqs=64",
        "l40s TP2 sglang-0.5 max_num_seqs=64",
    ]


def test_a_candidate_is_a_scenario_of_one_replica(tmp_path: Path) -> None:
    text = """replica: {max_model_len: 4096}
candidates: [{gpu: l40s, tensor_parallel_size: 2, dtype: fp8, set: {scheduler.max_num_seqs: 64}}]
"""
    (candidate,) = candidates(comparison(tmp_path, text))
    scenario = candidate.scenario
    assert candidate.gpu_key == "l40s"
    assert (scenario.replica.tensor_parallel_size, scenario.replica.dtype) == (2, "fp8")
    assert (scenario.replica.max_model_len, scenario.scheduler.max_num_seqs) == (4096, 64)
    assert (scenario.fleet.replicas, scenario.slo) == (1, "ttft:p99<=1000ms")


def test_all_is_the_whole_catalogue(tmp_path: Path) -> None:
    found = candidates(comparison(tmp_path, "gpus: all"))
    assert {candidate.gpu_key for candidate in found} == set(gpu_keys())


def test_the_same_candidate_twice_is_one(tmp_path: Path) -> None:
    assert len(labels(tmp_path, "gpus: [h100-sxm, h100, nvidia_h100]")) == 4


def test_prices_go_by_the_key_of_the_catalogue(tmp_path: Path) -> None:
    prices = own_prices(comparison(tmp_path, "gpus: [h100]\nprices: {H100: {on_demand: 2}}"))
    assert prices["h100-sxm"].on_demand == 2


def test_a_price_of_an_unknown_gpu_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"which.yaml:6: prices.h1000: unknown GPU 'h1000'. Did you mean 'h100-sxm'"):
        comparison(tmp_path, "prices: {h1000: {on_demand: 1}}\ngpus: [h100]")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "gpus: is missing: nothing to compare"),
        ("gpus: [l40s]\ncandidates: [{gpu: l40s}]", "gpus: stands beside candidates"),
        ("gpus: [l40s]\nfleet: {replicas: 2}", r"which.yaml:7: fleet: has replicas, but their number is what is asked"),
        ("gpus: []", r"which.yaml:6: gpus: is an empty list: nothing to compare"),
        ("candidates: []", r"which.yaml:6: candidates: is an empty list"),
        ("candidates: [{gpu: []}]", r"which.yaml:6: candidates.0.gpu: must have 1 entries or more"),
        ("gpus: [l40s]\nprices: {l40s: {on_demand: 0}}", "prices.l40s.on_demand: must be above 0, found 0"),
        (
            "gpus: [l40s]\nprices: {l40s: {purchase: 0}}\ncost: {usd_per_kwh: 0}",
            "which.yaml:8: cost: leaves nothing to pay",
        ),
        ("gpus: [l41s]", "gpus: unknown GPU 'l41s'. Did you mean 'l40s'"),
        ("candidates:\n  - gpu: [l40s]\n  - gpu: [l41s]", r":\d+: candidates.1.gpu: unknown GPU 'l41s'"),
        ("gpus: [l40s]\ncost: {basis: rented}", "cost.basis: must be one of on-demand, reserved, purchase, found"),
        ("gpus: [l40s]\nknobs: {}", "nothing to try"),
        ("gpus: [l40s]\nprices: {l41s: {on_demand: 1}}", r"prices.l41s: unknown GPU 'l41s'"),
        ("gpus: [l40s]\nreplica: {dtyp: fp8}", r"which.yaml:7: replica.dtyp: unknown key. Did you mean 'dtype'"),
        ("gpus: [l40s]\ntarget: {headroom: -1}", "target.headroom: must be 0 or more, found -1"),
        ("candidates: [{gpu: l40s, tensor_parallel_size: 2, set: {scheduler.max_num_seq: 4}}]", "max_num_seq"),
    ],
)
def test_mistakes_get_one_message(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        own_prices(asked := comparison(tmp_path, text)), candidates(asked)


def test_a_list_is_no_comparison(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must hold a section with keys, found a list"):
        comparison(tmp_path, "- 1\n", head="")


@pytest.mark.parametrize("file", sorted((ROOT / "sweeps").glob("compare-*.yaml")), ids=lambda file: file.stem)
def test_the_examples_make_candidates(file: Path) -> None:
    assert len(candidates(load_comparison(file))) >= 2
