"""What a reader of a run must know: said where it holds, and only there."""

from __future__ import annotations

from typing import Any

import pytest

from builders import llama_8b, real_engine, scheduler_parameters, trace
from servecast.configs.architectures import load_architecture
from servecast.hardware.engines import load_engine
from servecast.hardware.gpus import load_gpu
from servecast.model.caveats import caveats
from servecast.model.layout import ReplicaLayout
from servecast.model.simulation import SimulationParameters


def said(model: str | None = None, gpu: str = "h100-sxm", engine: str | None = None, **layout: Any) -> str:
    parameters = SimulationParameters(
        architecture=load_architecture(model) if model else llama_8b(),
        gpu=load_gpu(gpu),
        engine=load_engine(engine) if engine else real_engine(),
        layout=ReplicaLayout(**layout),
        scheduler=scheduler_parameters(),
        workload=trace([(0.0, 10, 10)]),
    )
    return " ".join(caveats(parameters))


def test_a_dense_16_bit_model_on_a_measured_gpu_needs_no_word() -> None:
    assert said() == ""
    assert said("mixtral-8x7b", tensor_parallel_size=2) == ""
    assert said("deepseek-v3", "h200-sxm", tensor_parallel_size=8) == ""


@pytest.mark.parametrize("model", ["mixtral-8x7b", "deepseek-v2-lite"])
def test_kernels_of_other_gpus_are_named(model: str) -> None:
    assert "typical of others" in said(model, "mi300x")
    assert "moe_bf16" in said(model, "mi300x")


def test_formats_measured_on_other_gpus_only() -> None:
    assert "Matrices in int8 were not measured" in said(gpu="a100-80gb-sxm", dtype="int8")
    assert "Matrices in fp8 were not measured" not in said(gpu="h100-sxm", dtype="fp8")


def test_sparse_attention_was_not_fitted() -> None:
    assert "Sparse attention" in said("deepseek-v3.2", "h200-sxm", tensor_parallel_size=8)


def test_an_fp8_cache_that_was_not_measured() -> None:
    assert "FP8 KV cache" in said(gpu="a100-80gb-sxm", kv_cache_dtype="fp8")
    assert "FP8 KV cache" not in said(gpu="h100-sxm", kv_cache_dtype="fp8")
