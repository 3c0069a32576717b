"""Where the time went: the parts are the whole, also where decodes and prompts are priced apart."""

from __future__ import annotations

import pytest

from builders import real_engine, run, trace
from servecast.configs.architectures import load_architecture
from servecast.hardware.gpus import load_gpu
from servecast.model.layout import ReplicaLayout


@pytest.mark.parametrize(
    ("model", "gpus"), [("mixtral-8x7b", 2), ("deepseek-v2-lite", 1), ("deepseek-v3.2", 8), ("gpt-oss-20b", 1)]
)
def test_seconds_by_resource_are_those_of_the_steps(model: str, gpus: int) -> None:
    """Two requests that overlap: prompts alone, prompts beside decodes, decodes alone."""
    result = run(
        trace([(0.0, 700, 40), (0.02, 3000, 60)]),
        engine=real_engine(),
        gpu=load_gpu("h200-sxm"),
        architecture=load_architecture(model),
        layout=ReplicaLayout(tensor_parallel_size=gpus, kv_pool_blocks=1000, max_model_len=8192),
    )
    steps = result.steps
    count = steps["count"]
    busy = float((steps["duration_s"] * count + steps["slope_s"] * count * (count - 1) / 2).sum())
    assert sum(result.seconds_by_resource.values()) == pytest.approx(busy)
    assert all(seconds >= 0 for seconds in result.seconds_by_resource.values())
