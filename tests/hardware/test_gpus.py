"""The GPU catalogue is complete, sourced and unambiguous; a user's file is as good as a key."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from servecast.hardware.errors import ConfigError
from servecast.hardware.gpus import Gpu, gpu_keys, load_gpu

PROMISED = [
    "a100-80gb-sxm",
    "a100-40gb-sxm",
    "a100-80gb-pcie",
    "h100-sxm",
    "h100-pcie",
    "h100-nvl",
    "h200-sxm",
    "b200-sxm",
    "l40s",
    "l4",
    "a10g",
    "rtx-pro-6000",
    "mi300x",
]
FIGURES = {
    "year",
    "peak_tflops",
    "memory_gb",
    "memory_usable_gib",
    "memory_gb_per_s",
    "sm_count",
    "l2_mb",
    "pcie_gb_per_s",
    "tdp_w",
}
OWN_GPU = """\
name: My GPU
year: 2026
peak_tflops: {16bit: 500, fp8: 1000}
memory_gb: 64
memory_usable_gib: 63.2
memory_gb_per_s: 2500
sm_count: 100
l2_mb: 64
link: {name: bridge, gb_per_s: 200, domain_gpus: 2}
pcie_gb_per_s: 63
tdp_w: 500
"""


@pytest.fixture(scope="module")
def catalogue() -> list[Gpu]:
    return [load_gpu(key) for key in gpu_keys()]


def test_promised_gpus_are_there() -> None:
    assert set(PROMISED) <= set(gpu_keys())


def test_h100_in_si_units() -> None:
    gpu = load_gpu("h100-sxm")

    assert gpu.key == "h100-sxm"
    assert gpu.peak_flops == {"16bit": 989.4e12, "fp8": 1978.9e12, "int8": 1978.9e12}
    assert gpu.memory_bytes_per_s == 3350e9
    assert gpu.memory_usable_gib == 79.19
    assert gpu.link is not None
    assert (gpu.link.bytes_per_s, gpu.link.domain_gpus) == (450e9, 8)
    assert gpu.pcie_bytes_per_s == 63e9


def test_every_figure_has_a_source(catalogue: list[Gpu]) -> None:
    for gpu in catalogue:
        expected = FIGURES | ({"link"} if gpu.link else set())
        assert set(gpu.sources) == expected, gpu.key
        assert all(len(source) > 10 for source in gpu.sources.values()), gpu.key


def test_peaks_are_dense(catalogue: list[Gpu]) -> None:
    """A sparse figure by mistake would break the factor of two between neighbouring types."""
    nvidia = [gpu for gpu in catalogue if gpu.vendor == "NVIDIA" and "fp8" in gpu.peak_flops]
    assert len(nvidia) > 10
    for gpu in nvidia:
        assert gpu.peak_flops["fp8"] / gpu.peak_flops["16bit"] == pytest.approx(2.0, rel=0.03), gpu.key


def test_only_blackwell_and_cdna4_multiply_in_four_bit(catalogue: list[Gpu]) -> None:
    for gpu in catalogue:
        assert ("fp4" in gpu.peak_flops) == gpu.generation.startswith(("Blackwell", "CDNA4")), gpu.key
    assert "fp8" not in load_gpu("a100-80gb-sxm").peak_flops


def test_figures_are_plausible(catalogue: list[Gpu]) -> None:
    for gpu in catalogue:
        assert 0.91 * gpu.memory_gb <= gpu.memory_usable_gib <= gpu.memory_gb, gpu.key
        assert 2017 <= gpu.year <= 2026, gpu.key
        assert 100 < gpu.peak_flops["16bit"] / gpu.memory_bytes_per_s * 4 < 2000, gpu.key
        assert gpu.vendor in gpu.name, gpu.key


def test_usable_memory_is_what_engines_log() -> None:
    """vLLM start-up logs: total of the card as the engine sees it."""
    logged = {"h100-sxm": 79.19, "l40s": 44.42, "rtx-4090": 23.50, "t4": 14.56}

    assert {key: load_gpu(key).memory_usable_gib for key in logged} == logged


def test_no_alias_leads_to_two_gpus(catalogue: list[Gpu]) -> None:
    names = Counter(name for gpu in catalogue for name in (gpu.key, *gpu.aliases))

    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("h100-sxm", "h100-sxm"),
        ("H100", "h100-sxm"),
        ("h100_sxm", "h100-sxm"),
        ("NVIDIA-H100-80GB-HBM3", "h100-sxm"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("a100", "a100-80gb-sxm"),
        ("NVIDIA A100-SXM4-40GB", "a100-40gb-sxm"),
        ("NVIDIA A100 80GB PCIe", "a100-80gb-pcie"),
        ("h200", "h200-sxm"),
        ("b200", "b200-sxm"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("rtx_pro_6000_server", "rtx-pro-6000"),
        ("AMD Instinct MI300X", "mi300x"),
    ],
)
def test_names_people_use_lead_to_the_key(written: str, key: str) -> None:
    assert load_gpu(written).key == key


def test_every_alias_leads_home(catalogue: list[Gpu]) -> None:
    for gpu in catalogue:
        for alias in gpu.aliases:
            assert load_gpu(alias.upper()).key == gpu.key


@pytest.mark.parametrize("written", ["h100-smx", "", "prices", "x" * 300])
def test_unknown_name_is_answered_with_the_valid_ones(written: str) -> None:
    with pytest.raises(ConfigError, match=r"unknown GPU .*h100-sxm"):
        load_gpu(written)


def test_users_file_works_where_a_key_does(tmp_path: Path) -> None:
    (tmp_path / "my-gpu.yaml").write_text(OWN_GPU)

    gpu = load_gpu("my-gpu.yaml", tmp_path)

    assert (gpu.key, gpu.name, gpu.vendor) == ("my-gpu", "My GPU", "unknown")
    assert gpu.peak_flops == {"16bit": 500e12, "fp8": 1000e12}
    assert load_gpu(str(tmp_path / "my-gpu.yaml")) == gpu


def test_users_file_needs_neither_link_nor_sources(tmp_path: Path) -> None:
    file = tmp_path / "plain.yml"
    file.write_text(OWN_GPU.replace("link: {name: bridge, gb_per_s: 200, domain_gpus: 2}\n", ""))

    gpu = load_gpu(str(file))

    assert gpu.link is None
    assert gpu.sources == {}


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent.yaml: no such file"):
        load_gpu("gpus/absent.yaml", tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("memory_gb: 64", "memory_gb: -64", ":4: memory_gb: must be a number above 0, found -64"),
        ("memory_gb: 64", "memory_gig: 64", ":4: memory_gig: unknown key. Did you mean 'memory_gb'"),
        ("tdp_w: 500\n", "", ":1: tdp_w: is missing; it must be a number above 0"),
        ("16bit: 500, ", "", ":3: peak_tflops.16bit: is missing"),
        ("fp8: 1000", "fp9: 1000", ":3: peak_tflops.fp9: unknown key. Did you mean 'fp8'"),
        ("sm_count: 100", "sm_count: 100.5", ":7: sm_count: must be a whole number"),
        ("gb_per_s: 200", "gb_per_s: fast", ":9: link.gb_per_s: must be a number above 0, found 'fast'"),
        ("usable_gib: 63.2", "usable_gib: 68", ":5: memory_usable_gib: must be at most memory_gb (64), found 68"),
        ("tdp_w: 500", "tdp_w: 500\nsources: {tpd_w: box}", "sources.tpd_w: unknown key. Did you mean 'tdp_w'"),
    ],
)
def test_wrong_field_is_one_message(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = tmp_path / "my-gpu.yaml"
    file.write_text(OWN_GPU.replace(old, new))

    with pytest.raises(ConfigError) as caught:
        load_gpu(str(file))

    assert message in str(caught.value)
