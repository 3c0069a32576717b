"""The memory plan. Figures called "logged" are lines of vLLM 0.19 start-up logs (llm-d-planner#205)."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from servecast.configs.architectures import load_architecture
from servecast.hardware.gpus import load_gpu
from servecast.hardware.memory_rules import load_memory_rules
from servecast.model.layout import ReplicaLayout
from servecast.model.memory import MemoryPlan, default_batch_limits, plan_memory

H100 = load_gpu("h100-sxm")
VLLM = load_memory_rules("vllm-0.19")
LOGGED = ReplicaLayout(gpu_memory_utilization=0.95, max_model_len=8192)


def plan(model: str, layout: ReplicaLayout = LOGGED, max_num_seqs: int = 1024) -> MemoryPlan:
    return plan_memory(load_architecture(model), H100, VLLM, layout, 8192, max_num_seqs)


@pytest.mark.parametrize(
    ("model", "layout", "logged_tokens"),
    [
        ("llama-3.1-8b", LOGGED, 476_016),
        ("llama-3.1-8b", replace(LOGGED, kv_cache_dtype="fp8"), 952_032),
        ("llama-3.1-8b", replace(LOGGED, tensor_parallel_size=4), 2_209_792),
        ("llama-3.1-8b", replace(LOGGED, pipeline_parallel_size=4), 2_257_264),
        ("codellama-7b", LOGGED, 126_256),
        ("qwen3-8b", LOGGED, 418_688),
        ("gemma-2-9b", LOGGED, 168_880),
        ("gemma-3-27b", LOGGED, 36_560),
        ("deepseek-v2-lite", LOGGED, 1_505_552),
        ("mixtral-8x7b", replace(LOGGED, tensor_parallel_size=2), 465_936),
        ("llama-4-scout-17b-16e", replace(LOGGED, tensor_parallel_size=4), 365_968),
        ("gpt-oss-20b", LOGGED, 1_277_184),
    ],
)
def test_pool_is_what_the_engine_logs(model: str, layout: ReplicaLayout, logged_tokens: int) -> None:
    assert plan(model, layout).kv_pool_tokens == pytest.approx(logged_tokens, rel=0.0015)


@pytest.mark.parametrize(
    ("model", "layout", "logged_gib"),
    [
        ("llama-3.1-8b", LOGGED, 1.89),  # the sampler's peak
        ("codellama-7b", LOGGED, 0.77),  # the MLP's
        ("gemma-3-4b", LOGGED, 3.89),  # 32 images beside the sampler's
        ("deepseek-v2-lite", LOGGED, 1.93),  # the experts' workspace beside it
        ("mistral-small-3.1-24b", replace(LOGGED, dtype="int8"), 2.18),  # rounded copies at 8 bit
    ],
)
def test_activation_is_what_the_engine_logs(model: str, layout: ReplicaLayout, logged_gib: float) -> None:
    assert plan(model, layout).activation_gib == pytest.approx(logged_gib, abs=0.01)


def test_parts_add_up_to_the_request() -> None:
    table = plan("llama-3.1-8b")
    parts = table.weights_gib + table.activation_gib + table.non_torch_gib + table.kv_gib
    assert parts == pytest.approx(table.requested_gib) == pytest.approx(0.95 * 79.19)


def test_concurrency_is_of_sequences_at_full_length() -> None:
    assert plan("llama-3.1-8b").max_concurrency == pytest.approx(58.11, abs=0.01)
    assert plan("gemma-3-27b").max_concurrency == pytest.approx(4.46, abs=0.01)


def test_fewer_sequences_leave_more_to_the_pool() -> None:
    """The profile run samples a token for each, and logits are large."""
    assert plan("llama-3.1-8b", max_num_seqs=256).kv_gib - plan("llama-3.1-8b").kv_gib > 0.9


def test_last_stage_of_a_pipeline_decides_as_it_samples() -> None:
    assert plan("llama-3.1-8b", replace(LOGGED, pipeline_parallel_size=2)).stage == 1


def test_model_that_does_not_fit_says_how_much_is_missing() -> None:
    table = plan("llama-3.3-70b")
    assert not table.fits
    assert table.kv_pool_blocks == 0
    needed_gib = 8192 * 327_680 / 2**30
    assert table.short_gib == pytest.approx(needed_gib - table.kv_gib)


def test_one_sequence_at_full_length_must_fit() -> None:
    """vLLM refuses to start otherwise, however many shorter ones would fit."""
    layout = replace(LOGGED, gpu_memory_utilization=0.4)
    assert plan("llama-3.1-8b", replace(layout, max_model_len=8192)).fits
    assert not plan("llama-3.1-8b", replace(layout, max_model_len=131_072)).fits


def test_pool_given_replaces_the_computed_one() -> None:
    table = plan("llama-3.1-8b", replace(LOGGED, kv_pool_blocks=100))
    assert (table.kv_pool_blocks, table.kv_pool_tokens) == (100, 1600)
    assert table.kv_gib == plan("llama-3.1-8b").kv_gib


def test_scheduler_without_groups_counts_blocks_of_all_layers() -> None:
    table = plan("gemma-3-27b")
    assert table.sequence_pool_blocks == table.kv_pool_blocks // 7
    assert table.sequence_block_bytes == 70 * 16 * 8192


def test_draft_head_takes_weights_and_cache() -> None:
    """An EAGLE head on Llama-3.1-8B: 33 layers of KV (vLLM issue on speculative decoding overhead)."""
    drafting = plan("llama-3.1-8b", replace(LOGGED, draft_layers=1))
    assert drafting.kv_bytes_per_block == 16 * 135_168
    assert drafting.weights_gib > plan("llama-3.1-8b").weights_gib


def test_eager_engine_has_no_graphs() -> None:
    assert plan("llama-3.1-8b").cuda_graph_gib > 0
    assert plan("llama-3.1-8b", replace(LOGGED, enforce_eager=True)).cuda_graph_gib == 0


def test_sorting_sampler_of_older_versions_needs_more() -> None:
    """Qwen3-14B, logged: activation 5.64 GiB with vLLM 0.15 and 0.16, 2.23 GiB with 0.17."""
    qwen = load_architecture("qwen3-14b")
    for rules, logged_gib in (("vllm-0.15", 5.64), ("vllm-0.17", 2.23)):
        table = plan_memory(qwen, H100, load_memory_rules(rules), LOGGED, 8192, 1024)
        assert table.activation_gib == pytest.approx(logged_gib, abs=0.01)


def test_other_engines_divide_otherwise() -> None:
    llama = load_architecture("llama-3.1-8b")
    sglang = plan_memory(llama, H100, load_memory_rules("sglang-0.5"), ReplicaLayout(), 8192)
    assert sglang.kv_gib == pytest.approx(0.9 * (79.19 - sglang.non_torch_gib) - sglang.weights_gib)
    trtllm = plan_memory(llama, H100, load_memory_rules("trtllm-1.0"), ReplicaLayout(), 8192)
    taken = trtllm.weights_gib + trtllm.activation_gib + trtllm.non_torch_gib + trtllm.cuda_graph_gib
    assert trtllm.kv_gib == pytest.approx(0.9 * (79.19 - taken))


def test_engine_takes_larger_batches_on_larger_gpus() -> None:
    assert default_batch_limits(H100) == (8192, 1024)
    assert default_batch_limits(load_gpu("a100-80gb-sxm")) == (2048, 256)
    assert default_batch_limits(load_gpu("l4")) == (2048, 256)


@pytest.mark.needs_shared
def test_all_logs_of_the_default_engine_are_met(shared_data: Path) -> None:
    """The bar: median 0.5 %, worst 10 %. Rows of the family whose models' names are catalogue keys."""
    names = {
        "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b",
        "Qwen/Qwen2.5-7B-Instruct": "qwen2.5-7b",
        "Qwen/Qwen3-8B": "qwen3-8b",
        "google/gemma-3-4b-it": "gemma-3-4b",
        "microsoft/phi-2": "phi-2",
        "openai/gpt-oss-20b": "gpt-oss-20b",
    }
    errors = []
    with (shared_data / "kv_pool" / "vllm_startup_logs.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["id"].startswith("P") and row["model"] in names:
                layout = replace(
                    LOGGED,
                    tensor_parallel_size=int(row["tp"]),
                    pipeline_parallel_size=int(row["pp"]),
                    max_model_len=int(float(row["max_model_len"])),
                    dtype="fp8" if row["quant"] == "fp8" else "bfloat16",
                    kv_cache_dtype="fp8" if row["kv_dtype"] == "fp8" else "auto",
                )
                errors.append(abs(plan(names[row["model"]], layout).kv_pool_tokens / float(row["tokens"]) - 1))
    assert len(errors) > 15
    assert median(errors) < 0.0005
    assert max(errors) < 0.005
