"""Bytes of weights on one GPU. The GiB figures are lines of vLLM 0.19 start-up logs (llm-d-planner#205)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from servecast.configs.architectures import load_architecture
from servecast.model.architecture import Quantization, VisionEncoder
from servecast.model.layout import ReplicaLayout
from servecast.model.weights import (
    GIB,
    MIB,
    Matrix,
    allocated_bytes,
    layer_matrices,
    matrix_bytes,
    rotary_table_bytes,
    stage_weights_bytes,
)

LLAMA = load_architecture("llama-3.1-8b")


def gib(model: str, layout: ReplicaLayout, stage: int = 0) -> float:
    return stage_weights_bytes(load_architecture(model), layout, stage) / GIB


@pytest.mark.parametrize(
    ("model", "layout", "logged_gib"),
    [
        ("llama-3.1-8b", ReplicaLayout(), 14.99),
        ("llama-3.1-8b", ReplicaLayout(tensor_parallel_size=4), 3.77),
        ("llama-3.1-8b", ReplicaLayout(pipeline_parallel_size=4), 4.26),
        ("llama-3.1-8b", ReplicaLayout(dtype="fp8"), 8.49),
        ("llama-3.3-70b", ReplicaLayout(tensor_parallel_size=2, dtype="int8"), 33.88),
        ("llama-3.3-70b", ReplicaLayout(tensor_parallel_size=4, dtype="fp8"), 16.96),
        ("qwen2.5-7b", ReplicaLayout(), 14.25),  # 56 MiB of it are the allocator's rounding
        ("qwen2.5-7b", ReplicaLayout(tensor_parallel_size=4), 3.55),
        ("gemma-2-9b", ReplicaLayout(), 17.22),  # tied embeddings
        ("gemma-3-27b", ReplicaLayout(), 51.45),  # vision tower, two rotary tables
        ("mixtral-8x7b", ReplicaLayout(tensor_parallel_size=2), 43.51),
        ("deepseek-v2-lite", ReplicaLayout(), 29.43),  # up-projection of the latent twice
        ("gpt-oss-20b", ReplicaLayout(), 13.64),  # mxfp4 experts, 16-bit attention
        ("gpt-oss-20b", ReplicaLayout(tensor_parallel_size=2), 7.01),
        ("llama-4-scout-17b-16e", ReplicaLayout(tensor_parallel_size=4), 53.12),  # 2.5 GiB rotary table
    ],
)
def test_weights_are_what_the_engine_logs(model: str, layout: ReplicaLayout, logged_gib: float) -> None:
    assert gib(model, layout) == pytest.approx(logged_gib, abs=0.025)


def test_four_gpus_hold_more_than_one_between_them() -> None:
    """Norms and the rotary table stand on each."""
    assert 4 * gib("llama-3.1-8b", ReplicaLayout(tensor_parallel_size=4)) > gib("llama-3.1-8b", ReplicaLayout())


def test_dealt_out_experts_take_the_memory_of_shared_out_ones() -> None:
    """Mixtral over four GPUs: two whole experts, or a quarter of each of eight; over six, two on the fullest."""
    layout = ReplicaLayout(tensor_parallel_size=4)
    dealt_out = replace(layout, enable_expert_parallel=True)
    assert gib("mixtral-8x7b", dealt_out) == pytest.approx(gib("mixtral-8x7b", layout), rel=0.001)
    layer = load_architecture("mixtral-8x7b").layers[0]
    copies = {m.copies for m in layer_matrices(layer, 4096, 6, expert_parallel=True) if m.part == "experts"}
    assert copies == {2}


def test_middle_stages_of_a_pipeline_are_lightest() -> None:
    layout = ReplicaLayout(pipeline_parallel_size=4)
    stages = [stage_weights_bytes(LLAMA, layout, stage) for stage in range(4)]
    assert stages[1] == stages[2] < min(stages[0], stages[3])


def test_tied_head_is_the_embedding_once_more_on_the_last_stage() -> None:
    tied = replace(LLAMA, tied_embeddings=True)
    layout = ReplicaLayout(pipeline_parallel_size=2)
    assert stage_weights_bytes(tied, layout, 1) == stage_weights_bytes(LLAMA, layout, 1)
    assert stage_weights_bytes(tied, ReplicaLayout(), 0) < stage_weights_bytes(LLAMA, ReplicaLayout(), 0)


def test_sixteen_bit_means_as_the_checkpoint_is() -> None:
    quantised = replace(LLAMA, quantization=Quantization("awq", group_size=128))
    assert stage_weights_bytes(quantised, ReplicaLayout(), 0) == stage_weights_bytes(
        LLAMA, ReplicaLayout(dtype="awq"), 0
    )


def test_parts_that_a_checkpoint_leaves_alone_stay_sixteen_bit() -> None:
    whole = replace(LLAMA, quantization=Quantization("fp8"))
    spared = replace(LLAMA, quantization=Quantization("fp8", ignored=frozenset({"attention"})))
    attention_weights = 32 * 4096 * (4096 + 2 * 1024 + 4096)
    more = stage_weights_bytes(spared, ReplicaLayout(), 0) - stage_weights_bytes(whole, ReplicaLayout(), 0)
    assert more == pytest.approx(attention_weights, rel=0.01)


def test_parts_that_published_versions_leave_alone_do_too() -> None:
    """FP8 checkpoints of Llama 4 keep attention at 16 bit."""
    spared = replace(LLAMA, unquantised=frozenset({"attention"}))
    own = replace(LLAMA, quantization=Quantization("fp8", ignored=frozenset({"attention"})))
    fp8 = ReplicaLayout(dtype="fp8")
    assert stage_weights_bytes(spared, fp8, 0) == stage_weights_bytes(own, fp8, 0)


@pytest.mark.parametrize(("dtype", "bits"), [("w4a16", 4.125), ("awq", 4.15625), ("nvfp4", 4.5), ("mxfp4", 4.25)])
def test_four_bit_weights_carry_their_scales(dtype: str, bits: float) -> None:
    assert matrix_bytes(Matrix("mlp", 1024, 4096), Quantization(dtype)) == 1024 * 4096 * bits / 8


def test_fp8_scales_are_one_a_row_or_one_a_square() -> None:
    matrix = Matrix("mlp", 1024, 4096)
    assert matrix_bytes(matrix, Quantization("fp8")) == 1024 * 4096 + 4 * 1024
    assert matrix_bytes(matrix, Quantization("fp8", group_size=128)) == 1024 * 4096 + 4 * 8 * 32


def test_router_and_embeddings_are_never_quantised() -> None:
    assert matrix_bytes(Matrix("other", 128, 4096), Quantization("fp8")) == 2 * 128 * 4096


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (1, 512),
        (9 * MIB, 9 * MIB),
        (259 * MIB, 260 * MIB),  # the rest of a block, 1 MiB, is too small to be of use
        (258 * MIB + MIB // 2, 258 * MIB + MIB // 2),  # 1.5 MiB go back
        (260 * MIB, 260 * MIB),
    ],
)
def test_allocator_rounds_large_tensors_to_blocks(asked: int, given: int) -> None:
    assert allocated_bytes(asked) == given


def test_rotary_table_has_a_row_for_every_position() -> None:
    assert rotary_table_bytes(LLAMA) == 131072 * 128 * 2
    assert rotary_table_bytes(replace(LLAMA, rotary_rows=1000)) == 1000 * 128 * 2
    assert rotary_table_bytes(replace(LLAMA, position_embeddings=2048)) == 0


def test_vision_tower_is_split_over_the_first_stage() -> None:
    seeing = replace(LLAMA, vision=VisionEncoder(parameters=400_000_000, item_tokens=256, item_values=1))
    layout = ReplicaLayout(tensor_parallel_size=2, pipeline_parallel_size=2)
    more = [stage_weights_bytes(seeing, layout, i) - stage_weights_bytes(LLAMA, layout, i) for i in (0, 1)]
    assert more == [400_000_000, 0]


def test_draft_head_adds_a_layer_and_a_merging_matrix() -> None:
    with_draft = stage_weights_bytes(LLAMA, ReplicaLayout(draft_layers=1), 0)
    assert with_draft - stage_weights_bytes(LLAMA, ReplicaLayout(), 0) == 2 * 4096 * 8192
