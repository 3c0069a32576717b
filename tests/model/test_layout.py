"""Which layouts a model allows, and how layers are dealt out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from servecast.configs.architectures import load_architecture
from servecast.hardware.errors import ConfigError
from servecast.model.layout import (
    ReplicaLayout,
    check_layout,
    kv_heads_per_gpu,
    stage_layers,
    valid_tensor_parallel_sizes,
)

LLAMA = load_architecture("llama-3.1-8b")


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (ReplicaLayout(tensor_parallel_size=3), "replica.tensor_parallel_size: 3 does not divide the 32"),
        (ReplicaLayout(tensor_parallel_size=0), "tensor_parallel_size: must be 1 or more"),
        (ReplicaLayout(pipeline_parallel_size=33), "33 stages for the 32 layers"),
        (ReplicaLayout(dtype="bfloat"), "replica.dtype: unknown value 'bfloat'. Did you mean 'bfloat16'"),
        (ReplicaLayout(kv_cache_dtype="fp4"), "replica.kv_cache_dtype: unknown value 'fp4'"),
        (ReplicaLayout(block_size=17), "replica.block_size: 17 tokens is not a block size"),
        (ReplicaLayout(gpu_memory_utilization=1.2), "must be above 0 and at most 1, found 1.2"),
        (ReplicaLayout(kv_pool_blocks=0), "replica.kv_pool_blocks: must be 1 or more"),
        (ReplicaLayout(max_model_len=0), "replica.max_model_len: must be 1 or more"),
        (ReplicaLayout(max_model_len=200_000), "200000 tokens is more than .* allows"),
        (ReplicaLayout(draft_layers=-1), "replica.draft_layers: must be 0 or more"),
        (ReplicaLayout(enable_expert_parallel=True), "enable_expert_parallel: Llama-3.1-8B has no experts"),
        (ReplicaLayout(all2all_backend="deepep"), "replica.all2all_backend: unknown value 'deepep'"),
    ],
)
def test_wrong_layout_names_its_key(layout: ReplicaLayout, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_layout(LLAMA, layout)


def test_layout_that_an_engine_accepts_passes() -> None:
    check_layout(LLAMA, ReplicaLayout(tensor_parallel_size=8, pipeline_parallel_size=4, max_model_len=8192))


def test_ten_kv_heads_split_over_two_gpus_but_not_over_four() -> None:
    """Phi-4 has 40 heads but 10 KV heads."""
    assert valid_tensor_parallel_sizes(load_architecture("phi-4"), 8) == (1, 2, 5)


def test_more_gpus_than_kv_heads_store_a_head_several_times() -> None:
    assert kv_heads_per_gpu(8, 2) == 4
    assert kv_heads_per_gpu(4, 8) == 1
    assert 8 in valid_tensor_parallel_sizes(load_architecture("mixtral-8x7b"), 8)


def test_spare_layers_go_to_the_stages_before_the_last() -> None:
    thirty = replace(LLAMA, layers=LLAMA.layers[:30])
    assert [len(stage_layers(thirty, 4, stage)) for stage in range(4)] == [7, 8, 8, 7]
