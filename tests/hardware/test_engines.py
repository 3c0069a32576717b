"""Engine profiles: all load, every number has a source, and a user's file is as good as a key."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from textwrap import indent

import pytest

from servecast.hardware.engines import DEFAULT_ENGINE, EngineProfile, RingAllReduce, engine_keys, load_engine
from servecast.hardware.errors import ConfigError
from servecast.hardware.gpus import gpu_keys

OWN_ENGINE = """\
engine: vllm
version: "0.99"
async_scheduling: true
scheduler_reserve_full_isl: true
host: {step_ms: 0.2, request_us: 5, server_ms: 3}
elementwise: {kernel_us: 2, e_m: 0.8}
memory: vllm-0.19
"""
OWN_KERNELS = """\
gemm_16bit:
  vllm: {t0_us: 5, e_c: 0.8, e_m: 0.9, p: 3, heldout: 4%/9%, source: my own runs}
"""


@pytest.fixture(scope="module")
def profiles() -> list[EngineProfile]:
    return [load_engine(key) for key in engine_keys()]


def test_default_is_vllm_0_19() -> None:
    engine = load_engine(DEFAULT_ENGINE)

    assert (engine.key, engine.engine, engine.version) == ("vllm-0.19", "vllm", "0.19")
    assert engine.async_scheduling


def test_promised_profiles_are_there() -> None:
    assert {"vllm-0.19", "vllm-0.15", "vllm-0.12", "sglang-0.5", "trtllm-1.0"} <= set(engine_keys())


def test_key_is_engine_and_version(profiles: list[EngineProfile]) -> None:
    for profile in profiles:
        assert profile.key == f"{profile.engine}-{profile.version}"


def test_every_number_has_a_source(profiles: list[EngineProfile]) -> None:
    for profile in profiles:
        assert {"host", "elementwise", "kernels", "async_scheduling"} <= set(profile.sources), profile.key


def test_vllm_schedules_asynchronously_from_0_14_on(profiles: list[EngineProfile]) -> None:
    for profile in profiles:
        if profile.engine == "vllm":
            assert profile.async_scheduling == (int(profile.version.split(".")[1]) >= 14), profile.key


def test_host_times_are_in_seconds() -> None:
    host = load_engine("vllm-0.15").host

    assert (host.step_s, host.request_s, host.server_s) == pytest.approx((0.56e-3, 0.0, 6e-3))
    assert host.sampling_bytes == 265
    assert load_engine("vllm-0.10").host.peer_s == pytest.approx(151e-6)


def test_fusions_limit_messages_by_generation_and_number_of_gpus() -> None:
    fusions = load_engine("vllm-0.19").fusions

    assert fusions.quantisation == {"norm", "activation"}
    assert fusions.all_reduce_norm["Hopper"][8] == 2**19
    assert load_engine("vllm-0.15").fusions.all_reduce_norm == {}


def test_a_profile_without_fusions_has_none(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("based_on: vllm-0.19\nfusions: {quantisation: [nrom]}\n")
    with pytest.raises(ConfigError, match="unknown kernel 'nrom'"):
        load_engine(str(file))


def test_elementwise_kernels_are_in_seconds() -> None:
    elementwise = load_engine("vllm-0.19").elementwise

    assert (elementwise.kernel_s, elementwise.e_m) == pytest.approx((2.2e-6, 0.75))


def test_every_gpu_of_the_catalogue_has_coefficients(profiles: list[EngineProfile]) -> None:
    for profile in profiles:
        for gpu in gpu_keys():
            kernels = profile.kernels_for(gpu)
            assert "16bit" in kernels.gemm
            assert set(kernels.residuals) == set(kernels.sources) - {"calibrated_on"}, (profile.key, gpu)


def test_gpu_that_nobody_measured_gets_the_universal_default() -> None:
    engine = load_engine("vllm-0.19")

    assert engine.kernels_for("mi300x") is engine.default_kernels
    assert engine.kernels_for("my-own-gpu").calibration == "datasheet"


def test_profile_can_be_sent_to_another_process() -> None:
    engine = load_engine("vllm-0.19")

    twin = pickle.loads(pickle.dumps(engine))

    assert twin.kernels_for("h100-sxm") == engine.kernels_for("h100-sxm")


def test_unknown_engine_is_answered_with_the_valid_ones() -> None:
    with pytest.raises(ConfigError, match=r"unknown engine 'vllm-0\.91'. Did you mean 'vllm-0\.19'"):
        load_engine("vllm-0.91")


def test_case_does_not_matter() -> None:
    assert load_engine("vLLM-0.19").key == "vllm-0.19"


def test_users_file_works_where_a_key_does(tmp_path: Path) -> None:
    (tmp_path / "tuned.yaml").write_text(OWN_ENGINE)

    engine = load_engine("tuned.yaml", tmp_path)

    assert (engine.key, engine.version) == ("tuned", "0.99")
    assert engine.host.request_s == pytest.approx(5e-6)
    assert engine.kernels_for("h100-sxm") == load_engine("vllm-0.19").kernels_for("h100-sxm")


def test_users_kernels_go_before_those_that_ship(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "h100-sxm.yaml").write_text(OWN_KERNELS)
    (tmp_path / "tuned.yaml").write_text(OWN_ENGINE + "kernels_folder: kernels\n")

    engine = load_engine("tuned.yaml", tmp_path)

    assert engine.kernels_for("h100-sxm").gemm["16bit"].e_c == 0.8
    assert engine.kernels_for("h200-sxm") == load_engine("vllm-0.19").kernels_for("h200-sxm")


def test_users_file_may_change_one_thing_of_a_profile_that_ships(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("based_on: vllm-0.15\nhost: {step_ms: 1.5}\nsources: {host: my own runs}\n")

    engine, base = load_engine("mine.yaml", tmp_path), load_engine("vllm-0.15")

    assert engine.host == replace(base.host, step_s=1.5e-3)
    assert engine.sources == {**base.sources, "host": "my own runs"}
    assert (engine.key, engine.version, engine.memory) == ("mine", "0.15", base.memory)


def test_users_groups_replace_those_of_the_gpu_and_leave_the_others(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("based_on: vllm-0.19\nkernels:\n  h100:\n" + indent(OWN_KERNELS, "    "))

    engine, base = load_engine("mine.yaml", tmp_path), load_engine("vllm-0.19")
    own, shipped = engine.kernels_for("h100-sxm"), base.kernels_for("h100-sxm")

    assert own.gemm["16bit"].e_c == 0.8
    assert own.sources["gemm_16bit"] == "my own runs"
    assert own.calibration == "measured"
    assert (own.gemm["fp8"], own.decode, own.all_reduce) == (shipped.gemm["fp8"], shipped.decode, shipped.all_reduce)
    assert engine.kernels_for("h200-sxm") == base.kernels_for("h200-sxm")


def test_own_all_reduce_of_another_kind_goes_before_that_of_the_gpu(tmp_path: Path) -> None:
    ring = "{a_us: 9, busbw_gbs: 20, heldout: 4%/9%, source: my own runs}"
    file = tmp_path / "mine.yaml"
    file.write_text(f"based_on: vllm-0.19\nkernels: {{h100-sxm: {{all_reduce_pcie_n2: {{any: {ring}}}}}}}\n")

    assert load_engine(str(file)).kernels_for("h100-sxm").all_reduce == RingAllReduce({2: (9e-6, 20e9)})


@pytest.mark.parametrize("gpu", ["l4", "h100-nvl", "a-gpu-of-my-own"])
def test_one_own_group_makes_an_unmeasured_gpu_partly_measured(tmp_path: Path, gpu: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"based_on: vllm-0.19\nkernels:\n  {gpu}:\n" + indent(OWN_KERNELS, "    "))

    assert load_engine(str(file)).kernels_for(gpu).calibration == "partial"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("async_scheduling", "asynch_scheduling", ":3: asynch_scheduling: unknown key. Did you mean 'async_s"),
        ("async_scheduling: true", "async_scheduling: 1", ":3: async_scheduling: must be true or false, found 1"),
        ("step_ms: 0.2", "step_ms: -1", ":5: host.step_ms: must be a number, 0 or more, found -1"),
        (", server_ms: 3", "", ":5: host.server_ms: is missing"),
        ('"0.99"', "0.99", ':2: version: must be a text, found 0.99. Put it in quotes: "0.99"'),
        ("engine: vllm", "based_on: vllm-9", ":1: based_on: unknown engine 'vllm-9'. Did you mean 'vllm-0.19'"),
        ("engine: vllm", "engine: vllm\nkernels: {h100: {gem_16bit: {}}}", ":2: kernels.h100.gem_16bit: unknown key"),
        ("memory: vllm-0.19", "memory: vllm-0.19\nkernels_folder: nowhere", ":8: kernels_folder: no such folder"),
    ],
)
def test_wrong_field_is_one_message(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = tmp_path / "tuned.yaml"
    file.write_text(OWN_ENGINE.replace(old, new))

    with pytest.raises(ConfigError) as caught:
        load_engine(str(file))

    assert message in str(caught.value)
