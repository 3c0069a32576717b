"""Memory rules: those that ship, and what is said of wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from servecast.hardware.engines import engine_keys, load_engine
from servecast.hardware.errors import ConfigError
from servecast.hardware.gpus import load_gpu
from servecast.hardware.memory_rules import POOLS, load_memory_rules, memory_rules_keys, read_memory_rules
from servecast.hardware.yaml_fields import Fields
from servecast.hardware.yaml_source import parse_yaml

SHIPPED = Path(__file__).parents[2] / "hardware" / "engines" / "memory"
VALID = (SHIPPED / "vllm-0.19.yaml").read_text(encoding="utf-8")


def rules_from(text: str) -> object:
    return read_memory_rules(Fields.of_file(parse_yaml(text, Path("mine.yaml")), "memory rules"))


@pytest.mark.parametrize("key", memory_rules_keys())
def test_shipped_rules_say_where_their_numbers_are_from(key: str) -> None:
    rules = load_memory_rules(key)
    assert rules.pool in POOLS
    assert rules.residual
    assert {"non_torch_gib", "sampler_bytes_per_logit"} <= set(rules.sources)


@pytest.mark.parametrize("key", engine_keys())
def test_every_engine_profile_has_rules(key: str) -> None:
    assert load_engine(key).memory.non_torch_for(1, 1) >= 0


def test_a_profile_of_ones_own_may_hold_its_rules_itself(tmp_path: Path) -> None:
    profile = (SHIPPED.parent / "vllm-0.19.yaml").read_text(encoding="utf-8")
    section = "memory:\n" + "".join(f"  {line}\n" for line in VALID.splitlines())
    file = tmp_path / "mine.yaml"
    file.write_text(profile.replace("memory: vllm-0.19\n", section), encoding="utf-8")
    assert load_engine(str(file)).memory == load_memory_rules("vllm-0.19")


def test_rules_of_an_unlisted_number_of_gpus_are_those_of_the_next_smaller_one() -> None:
    rules = load_memory_rules("vllm-0.19")
    assert rules.non_torch_for(3, 1) == rules.non_torch_for(2, 1)
    assert rules.non_torch_for(16, 1) == rules.non_torch_for(8, 1)


def test_pipelines_without_tensor_parallelism_need_no_all_reduce_buffers() -> None:
    rules = load_memory_rules("vllm-0.19")
    assert rules.non_torch_for(1, 4) == rules.non_torch_pipeline_gib
    assert rules.non_torch_for(2, 4) == rules.non_torch_for(2, 1)


def test_matrix_library_takes_more_on_a_hopper_gpu() -> None:
    rules = load_memory_rules("vllm-0.19")
    assert rules.blas_workspace_for(load_gpu("h100-sxm")) == 32
    assert rules.blas_workspace_for(load_gpu("a100-80gb-sxm")) == 8.125


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("pool: profile_run", "pool: profile", "unknown value 'profile'"),
        ("moe_workspace: true", "moe_workspace: 1", "must be true or false"),
        ("chunked_prefill: true\n", "", "chunked_prefill: is missing"),
        ("autotune_flush:", "autotune_flash:", "Did you mean 'autotune_flush'"),
        ("{1: 0.25,", "{one: 0.25,", "must be numbers of GPUs"),
        ("{1: 0.25,", "{1: much,", "must be a number of GiB"),
        ("{1: 0.25, 2:", "{2:", "needs an entry for 1 GPU"),
        ("{default: 8.125,", "{", "default: is missing"),
    ],
)
def test_wrong_rules_get_one_clear_message(old: str, new: str, message: str) -> None:
    assert old in VALID
    with pytest.raises(ConfigError, match=message) as caught:
        rules_from(VALID.replace(old, new))
    assert "mine.yaml" in str(caught.value)


def test_unknown_rules_are_answered_with_the_near_miss(tmp_path: Path) -> None:
    profile = (SHIPPED.parent / "vllm-0.19.yaml").read_text(encoding="utf-8")
    file = tmp_path / "mine.yaml"
    file.write_text(profile.replace("memory: vllm-0.19", "memory: vllm-0.18"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"mine.yaml:\d+: memory: unknown rules 'vllm-0.18'"):
        load_engine(str(file))
