"""Profiles that the calibrated one is compared with."""

from __future__ import annotations

from servecast.hardware.engines import RingAllReduce, load_engine
from servecast.hardware.engines.variants import ideal, unmeasured
from servecast.hardware.gpus import load_gpu


def test_the_ideal_profile_has_no_overheads_and_the_link_at_its_datasheet_speed() -> None:
    gpu = load_gpu("h100-sxm")
    profile = ideal(load_engine("vllm-0.12"), gpu)
    kernels = profile.kernels_for("h100-sxm")
    assert {(gemm.t0_s, gemm.e_c, gemm.e_m) for gemm in kernels.gemm.values()} == {(0.0, 1.0, 1.0)}
    assert {(moe.t0_s, moe.e_c, moe.e_m) for moe in kernels.moe.values()} == {(0.0, 1.0, 1.0)}
    assert {(mla.t0_s, mla.e_c, mla.e_m) for mla in kernels.mla_decode.values()} == {(0.0, 1.0, 1.0)}
    assert (profile.host.step_s, profile.host.request_s, profile.host.server_s) == (0.0, 0.0, 0.0)
    assert isinstance(kernels.all_reduce, RingAllReduce)
    assert kernels.all_reduce.per_gpus[8] == (0.0, 450e9)


def test_unmeasured_means_the_universal_default_for_every_gpu() -> None:
    profile = load_engine("vllm-0.19")
    gpu = load_gpu("h100-sxm")
    assert unmeasured(profile, gpu).kernels_for("h100-sxm") == profile.default_kernels
    assert unmeasured(profile, gpu).host == profile.host
