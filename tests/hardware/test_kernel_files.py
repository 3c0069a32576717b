"""Kernel coefficients: those of the fits, labelled by how far they can be trusted."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from servecast.hardware.engines import (
    DecodeCoefficients,
    GemmCoefficients,
    PrefillCoefficients,
    load_engine,
)
from servecast.hardware.engines.kernel_files import KernelFiles
from servecast.hardware.errors import ConfigError
from servecast.hardware.gpus import gpu_keys, load_gpu
from servecast.hardware.yaml_source import read_yaml

PROFILES = {"vllm": "vllm-0.19", "sglang": "sglang-0.5", "trtllm": "trtllm-1.0"}
MEASURED = {
    "a100-80gb-sxm": "A100-SXM4-80GB",
    "h100-sxm": "H100-SXM5-80GB",
    "h200-sxm": "H200-SXM-141GB",
    "l40s": "L40S-48GB",
    "b200-sxm": "B200-SXM-180GB",
    "rtx-pro-6000": "RTX-PRO-6000-BSE-96GB",
}
# FP8 GEMMs of vLLM on these were fitted anew, see benchmarks/calibration/refit.py.
REFITTED_FP8 = {("h100-sxm", "vllm"), ("h200-sxm", "vllm")}
GEMM = "{t0_us: 5, e_c: 0.8, e_m: 0.9, p: 3, heldout: 4%/9%, source: my own runs}"
SHIPPED = Path(str(files("servecast.hardware.engines.kernels")))


def shipped(gpu: str, engine: str = "vllm") -> Any:
    return load_engine(PROFILES[engine]).kernels_for(gpu)


def own(tmp_path: Path, text: str) -> KernelFiles:
    """Coefficients that a user wrote for a GPU `mine`."""
    (tmp_path / "mine.yaml").write_text(text)
    return KernelFiles([tmp_path, SHIPPED], ["vllm"])


def test_every_file_belongs_to_a_gpu_of_the_catalogue() -> None:
    assert set(load_engine("vllm-0.19").kernels) <= set(gpu_keys())


@pytest.mark.parametrize("gpu", MEASURED)
def test_measured_gpus_say_so(gpu: str) -> None:
    assert shipped(gpu, "vllm").calibration == "measured"
    assert shipped(gpu, "sglang").calibration == "measured"
    assert shipped(gpu, "trtllm").calibration == "measured"


@pytest.mark.parametrize("gpu", [*MEASURED, "a40"])
def test_catalogue_has_the_figures_that_the_fit_was_made_with(gpu: str) -> None:
    """The shares e_c and e_m are shares of these."""
    fitted = read_yaml(SHIPPED / f"{gpu}.yaml").data["fitted_with"]
    entry = load_gpu(gpu)

    for kind, tflops in fitted["peak_tflops"].items():
        assert entry.peak_flops[kind] == tflops * 1e12
    assert entry.memory_bytes_per_s == fitted["memory_gb_per_s"] * 1e9
    assert entry.sm_count == fitted["sm_count"]


@pytest.mark.parametrize("engine", PROFILES)
@pytest.mark.parametrize("gpu", [*MEASURED, "a40"])
def test_every_group_of_a_measured_gpu_has_residual_and_source(gpu: str, engine: str) -> None:
    kernels = shipped(gpu, engine)
    groups = {"gemm_16bit", "prefill", "decode"} | {f"gemm_{kind}" for kind in kernels.gemm}

    assert groups <= set(kernels.residuals)
    assert set(kernels.residuals) == set(kernels.sources)
    measured = {group: residual for group, residual in kernels.residuals.items() if group not in kernels.typical}
    assert all("%" in residual for residual in measured.values())


def test_a_group_of_another_engine_fills_in_for_one_that_was_not_measured() -> None:
    assert shipped("h100-sxm", "sglang").decode_fp8_kv == shipped("h100-sxm", "vllm").decode_fp8_kv
    assert shipped("h100-sxm", "sglang").decode != shipped("h100-sxm", "vllm").decode


def test_a40_has_its_own_gemm_and_the_default_for_the_rest() -> None:
    kernels, default = shipped("a40"), load_engine("vllm-0.19").default_kernels

    assert kernels.calibration == "partial"
    assert kernels.gemm["16bit"].e_c == 0.778
    assert (kernels.prefill, kernels.decode) == (default.prefill, default.decode)
    assert kernels.all_reduce is None


def test_sibling_keeps_the_all_reduce_only_over_the_same_link() -> None:
    a100, same, bridged = (shipped(key) for key in ("a100-80gb-sxm", "a100-40gb-sxm", "a100-80gb-pcie"))

    assert (same.calibration, same.calibrated_on) == ("sibling", "a100-80gb-sxm")
    assert same.gemm == bridged.gemm == a100.gemm
    assert same.all_reduce == a100.all_reduce
    assert bridged.all_reduce is None
    assert not any(group.startswith("all_reduce") for group in bridged.residuals)


def test_sibling_of_a_partly_measured_gpu_is_no_better_than_that() -> None:
    assert shipped("rtx-a6000").calibration == "partial"


def test_universal_default() -> None:
    default = load_engine("vllm-0.19").default_kernels

    assert default.calibration == "datasheet"
    assert default.gemm["16bit"] == GemmCoefficients(us(4.2), 0.742, 0.843, 2.1)
    assert default.gemm["fp8"] == GemmCoefficients(us(7.9), 0.562, 0.818, 1.5, quant_s=us(3.3))
    assert default.prefill == PrefillCoefficients(us(12), 0.62, 1.1, 350, 0.05)
    assert default.decode == DecodeCoefficients(us(11), 0.87, us(2.1), us(0.07 / 1000))
    assert default.all_reduce is None


def test_nvfp4_default_is_the_geometric_mean_of_the_two_measured_gpus() -> None:
    b200, rtx = shipped("b200-sxm").gemm["nvfp4"], shipped("rtx-pro-6000").gemm["nvfp4"]
    default = load_engine("vllm-0.19").default_kernels.gemm["nvfp4"]

    assert default.e_c == pytest.approx((b200.e_c * rtx.e_c) ** 0.5, rel=2e-3)
    assert default.e_m == pytest.approx((b200.e_m * rtx.e_m) ** 0.5, rel=2e-3)
    assert default.s == pytest.approx((b200.s * rtx.s) ** 0.5, rel=2e-3)


def test_own_file_with_gemm_only_is_partial(tmp_path: Path) -> None:
    kernels = own(tmp_path, f"gemm_16bit:\n  any: {GEMM}\n")["mine"]

    assert kernels.calibration == "partial"
    assert kernels.residuals["gemm_16bit"] == "4%/9% (on shapes held out of the fit)"


def test_own_file_may_name_a_gpu_with_the_same_silicon(tmp_path: Path) -> None:
    kernels = own(tmp_path, "calibrated_on: h100-sxm\nsame_link: true\nwhy: power cap\n")["mine"]

    assert kernels.calibration == "sibling"
    assert kernels.sources["calibrated_on"] == "power cap"


def test_absent_gpu_is_a_key_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        KernelFiles([tmp_path, SHIPPED], ["vllm"])["absent"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"gem_16bit:\n  any: {GEMM}\n", "mine.yaml:1: gem_16bit: unknown key. Did you mean 'gemm_16bit'"),
        (f"gemm_16bit:\n  vlm: {GEMM}\n", "mine.yaml:2: gemm_16bit.vlm: unknown key. Did you mean 'vllm'"),
        (f"gemm_16bit:\n  any: {GEMM}\n".replace("e_c: 0.8", "e_c: 0"), "gemm_16bit.any.e_c: must be a number above 0"),
        (f"gemm_16bit:\n  any: {GEMM}\n".replace("heldout: 4%/9%, ", ""), "one residual must stand here"),
        (f"gemm_16bit:\n  any: {GEMM}\n".replace(", source: my own runs", ""), "gemm_16bit.any.source: is missing"),
        (
            "calibrated_on: h800-sxm\nsame_link: true\nwhy: same\n",
            "mine.yaml:1: calibrated_on: must be a GPU with measurements of its own, found 'h800-sxm'",
        ),
    ],
)
def test_wrong_file_is_one_message(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        own(tmp_path, text)["mine"]

    assert message in str(caught.value)


@pytest.mark.needs_shared
@pytest.mark.parametrize("engine", PROFILES)
@pytest.mark.parametrize("gpu", MEASURED)
def test_gemm_coefficients_equal_those_of_the_study(shared_data: Path, gpu: str, engine: str) -> None:
    """But for what was added: factors by tokens, launches of quantisation, no scales computed by TensorRT-LLM."""
    fits = read_yaml(shared_data / "ops" / "coefficients.yaml").data[MEASURED[gpu]]
    kernels, entry = shipped(gpu, engine), load_gpu(gpu)

    gemm_fits = {"16bit": fits["gemm_bf16"]}
    gemm_fits |= {k: fits[f"gemm_{k}_{engine}"] for k in ("fp8", "nvfp4") if f"gemm_{k}_{engine}" in fits}
    if (gpu, engine) in REFITTED_FP8:
        del gemm_fits["fp8"]
    for kind, fit in gemm_fits.items():
        found = kernels.gemm[kind]
        peak = entry.peak_flops["fp4" if kind == "nvfp4" else kind]
        dynamic = {"t0_s": us(fit["t0_us"])} if engine == "trtllm" and found.quant_s else {}
        found = replace(found, by_tokens=(), quant_s=0.0, **dynamic)
        assert found == gemm(fit, (peak, entry.sm_count)), kind


@pytest.mark.needs_shared
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("gpu", MEASURED)
def test_attention_coefficients_equal_those_of_the_study(shared_data: Path, gpu: str, engine: str) -> None:
    fits = read_yaml(shared_data / "ops" / "coefficients.yaml").data[MEASURED[gpu]]
    kernels = shipped(gpu, engine)

    assert kernels.prefill == prefill(fits[f"attn_prefill_{engine}"])
    assert kernels.decode == decode(fits[f"attn_decode_{engine}"])
    fp8_kv = fits.get("attn_decode_vllm_kvfp8")
    assert kernels.decode_fp8_kv == (None if fp8_kv is None else decode(fp8_kv))


@pytest.mark.needs_shared
@pytest.mark.parametrize(("gpu", "table"), [("h100-sxm", "h100_sxm"), ("b200-sxm", "b200_sxm")])
def test_all_reduce_is_the_measured_table(shared_data: Path, gpu: str, table: str) -> None:
    rows = pd.read_csv(shared_data / "ops" / "comm_aic.csv.gz")
    rows = rows[(rows["gpu"] == table) & (rows["lib"] == "vllm") & (rows["version"] == "0.24.0")]
    rows = rows[(rows["kernel_source"] == "vLLM_custom_graph") & (rows["num_gpus"] == 8)]
    form = shipped(gpu).all_reduce
    measured = rows[rows["bytes"].isin(form.per_gpus[8][0])].groupby("bytes")["latency_us"].median()

    assert form.per_gpus[8][1] == pytest.approx(tuple(measured * 1e-6), abs=0.06e-6)


@pytest.mark.needs_shared
def test_a40_gemm_equals_that_of_the_study(shared_data: Path) -> None:
    fits = read_yaml(shared_data / "ops" / "coefficients.yaml").data["A40-48GB"]

    assert shipped("a40").gemm["16bit"] == gemm(fits["gemm_fp16"])


def gemm(fit: dict[str, Any], measured_on: Any = None) -> GemmCoefficients:
    measured = {"tile_measured_on": measured_on} if "s" in fit else {}
    return GemmCoefficients(us(fit["t0_us"]), fit["e_c"], fit["e_m"], fit["p"], fit.get("s", 0.0), **measured)


def prefill(fit: dict[str, Any]) -> PrefillCoefficients:
    return PrefillCoefficients(us(fit["t0_us"]), fit["e_c"], fit["e_m"], fit["s_half"], fit["c_tail"])


def decode(fit: dict[str, Any]) -> DecodeCoefficients:
    return DecodeCoefficients(us(fit["t0_us"]), fit["e_m"], us(fit["c_item_us"]), us(fit["c_ctx_us_per_1k"] / 1000))


def us(microseconds: float) -> Any:
    """Seconds, as close as the floats' last digits."""
    return pytest.approx(microseconds * 1e-6, rel=1e-12)


def test_attention_with_other_head_sizes_has_rates_of_its_own() -> None:
    kernels = shipped("h100-sxm")
    assert kernels.prefill_for(64).e_c < kernels.prefill_for(128).e_c
    assert kernels.prefill_for(128) == kernels.prefill_for(96) == kernels.prefill
    assert kernels.decode_for(256, fp8_kv=True) not in (kernels.decode_fp8_kv, kernels.decode_for(256, fp8_kv=False))
    assert kernels.decode_for(128, fp8_kv=True) == kernels.decode_fp8_kv
