"""Which coefficients a run rests on."""

from __future__ import annotations

from servecast.configs.architectures import load_architecture
from servecast.hardware.engines import load_engine
from servecast.hardware.gpus import load_gpu
from servecast.model.kernel_groups import groups_in_use, special_groups
from servecast.model.layout import ReplicaLayout


def special(model: str, gpu: str = "h100-sxm", engine: str = "vllm-0.19", **layout: object) -> set[str]:
    kernels = load_engine(engine).kernels_for(gpu)
    settings = ReplicaLayout(**layout)  # type: ignore[arg-type]  # fields by name
    return set(special_groups(load_architecture(model), settings, load_gpu(gpu), kernels))


def test_a_dense_model_takes_neither_experts_nor_latents() -> None:
    assert special("llama-3.1-8b") == set()


def test_experts_of_the_checkpoints_own_format() -> None:
    assert special("gpt-oss-120b") == {"moe_mxfp4", "moe_mxfp4_small"}
    assert special("mixtral-8x7b", dtype="fp8") == {"moe_fp8_block", "moe_fp8_block_small"}
    assert special("mixtral-8x7b", "a100-80gb-sxm", dtype="fp8") == {"moe_int4"}


def test_dealt_out_experts_and_their_exchange() -> None:
    groups = special(
        "deepseek-v3",
        tensor_parallel_size=8,
        kv_cache_dtype="fp8",
        enable_expert_parallel=True,
        all2all_backend="deepep_low_latency",
    )
    assert groups == {
        "moe_fp8_block_ep",
        "moe_fp8_block_ep_small",
        "all_to_all_ll_dispatch",
        "all_to_all_ll_combine",
        "mla_prefill_fp8_kv8",
        "mla_decode_fp8_kv8",
        "mla_short_fp8_kv8",
    }


def test_groups_in_use_keep_those_of_dense_layers() -> None:
    kernels = load_engine("vllm-0.19").kernels_for("h100-sxm")
    used = groups_in_use(load_architecture("mixtral-8x7b"), ReplicaLayout(), load_gpu("h100-sxm"), kernels)
    assert {"gemm_16bit", "prefill", "decode", "moe_bf16"} <= set(used)
    assert not any(group.startswith("mla_") for group in used)
