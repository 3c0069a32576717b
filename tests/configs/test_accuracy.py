"""The accuracy of a summary."""

from __future__ import annotations

from typing import Any

import pytest

from servecast.configs.accuracy import accuracy, situation_of
from servecast.configs.build import build_simulation
from servecast.configs.load import scenario_from
from servecast.model.metrics import summarise
from servecast.model.simulation import SimulationParameters, run_simulation


def parameters(**changes: Any) -> SimulationParameters:
    workload = {
        "num_requests": 5,
        "arrivals": {"process": "batch"},
        "lengths": {name: {"distribution": "fixed", "value": 20} for name in ("prompt", "output")},
    }
    settings = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "replica": {"max_model_len": 4096}, "workload": workload}
    return build_simulation(scenario_from({**settings, **changes}))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("h100-sxm", "vllm", "16bit", "dense", "one", "measured")),
        (
            {"engine": "sglang-0.5", "replica": {"dtype": "fp8"}},
            ("h100-sxm", "sglang", "fp8", "dense", "one", "measured"),
        ),
        ({"replica": {"tensor_parallel_size": 2}}, ("h100-sxm", "vllm", "16bit", "dense", "fast", "measured")),
        (
            {"gpu": "l40s", "replica": {"tensor_parallel_size": 2}},
            ("l40s", "vllm", "16bit", "dense", "pcie", "measured"),
        ),
        ({"gpu": "rtx-4090"}, ("rtx-4090", "vllm", "16bit", "dense", "one", "datasheet")),
        ({"model": "mixtral-8x7b"}, ("h100-sxm", "vllm", "16bit", "moe", "one", "measured")),
        ({"model": "deepseek-v3"}, ("h100-sxm", "vllm", "fp8", "mla", "one", "measured")),
    ],
)
def test_the_situation_of_a_run(changes: dict[str, Any], expected: tuple[str, ...]) -> None:
    found = situation_of(parameters(**changes), "light")
    assert (found.gpu, found.engine, found.dtype, found.kind, found.link, found.calibration) == expected


def test_a_summary_says_how_far_off_it_may_be_and_why() -> None:
    built = parameters()
    found = accuracy(built, summarise(run_simulation(built)))
    assert found["label"] == "validated"
    assert found["tpot_pct"] > 0
    assert found["ttft_pct"] > 0
    assert "h100-sxm" in found["basis"]["tpot"]
    assert (found["gpu"], found["engine"], found["dtype"], found["load"]) == ("h100-sxm", "vllm-0.19", "16bit", "light")
    assert "gemm_16bit" in found["kernel_residuals"]
