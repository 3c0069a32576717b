"""Peak of the profile run. The GiB figures are lines of vLLM 0.19 start-up logs (llm-d-planner#205)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from servecast.configs.architectures import load_architecture
from servecast.hardware.gpus import load_gpu
from servecast.hardware.memory_rules import load_memory_rules
from servecast.model.architecture import VisionEncoder
from servecast.model.layout import ReplicaLayout
from servecast.model.profile_run import ProfileRun
from servecast.model.weights import GIB, MIB

H100 = load_gpu("h100-sxm")
VLLM = load_memory_rules("vllm-0.19")
LENGTH = ReplicaLayout(max_model_len=8192)


def run(model: str, layout: ReplicaLayout = LENGTH, rows: int = 1024, tokens: int = 8192) -> ProfileRun:
    return ProfileRun(load_architecture(model), H100, VLLM, layout, tokens, rows)


@pytest.mark.parametrize(
    ("model", "tensor_parallel_size", "logged_gib"),
    [
        ("phi-2", 1, 0.79),
        ("granite-3.1-2b", 1, 0.75),
        ("granite-3.1-8b", 1, 0.85),
        ("qwen2.5-7b", 4, 2.21),
        ("gemma-2-2b", 1, 3.62),
        ("mixtral-8x7b", 2, 1.21),
        ("qwen1.5-moe-a2.7b", 1, 2.47),
        ("kimi-dev-72b", 4, 2.29),
        ("llama-4-scout-17b-16e", 4, 3.19),
        ("gpt-oss-20b", 2, 2.87),
    ],
)
def test_peak_is_what_the_engine_logs(model: str, tensor_parallel_size: int, logged_gib: float) -> None:
    layout = replace(LENGTH, tensor_parallel_size=tensor_parallel_size)
    assert run(model, layout).peak_bytes(0) / GIB == pytest.approx(logged_gib, abs=0.01)


def test_first_stage_of_a_pipeline_samples_nothing_but_passes_states_on() -> None:
    """Logged for rank 0 of four stages: 1.05 GiB. The last stage samples, too."""
    pipeline = run("llama-3.1-8b", replace(LENGTH, pipeline_parallel_size=4))
    assert pipeline.peak_bytes(0) / GIB == pytest.approx(1.05, abs=0.01)
    alone = run("llama-3.1-8b").peak_bytes(0)
    assert pipeline.peak_bytes(3) - alone == 2 * 2 * 8192 * 4096


def test_sampler_grows_with_sequences_until_then_the_mlp_decides() -> None:
    few, more, many = (run("llama-3.1-8b", rows=rows).peak_bytes(0) for rows in (16, 128, 1024))
    assert few == more < many


def test_logits_are_not_split_over_gpus() -> None:
    four = run("llama-3.1-8b", replace(LENGTH, tensor_parallel_size=4))
    assert four.peak_bytes(0) == run("llama-3.1-8b").peak_bytes(0)


def test_smaller_token_budget_shrinks_the_forward_pass() -> None:
    peaks = [run("codellama-7b", rows=64, tokens=tokens).peak_bytes(0) for tokens in (2048, 8192)]
    fixed = 32 * MIB + 50 * MIB
    assert peaks[1] - fixed == pytest.approx(4 * (peaks[0] - fixed), rel=0.001)


def test_as_many_images_as_the_budget_holds_and_at_least_one() -> None:
    llama = load_architecture("llama-3.1-8b")
    sizes = []
    for item_tokens in (8192, 4096, 100_000):
        seeing = replace(llama, vision=VisionEncoder(0, item_tokens, item_values=1000))
        sizes.append(
            replace(run("llama-3.1-8b"), architecture=seeing).peak_bytes(0) - run("llama-3.1-8b").peak_bytes(0)
        )
    assert sizes[0] == 2 * (1000 + 8192 * 4096)
    assert sizes[1] == 2 * 2 * (1000 + 4096 * 4096)
    assert sizes[2] == 2 * (1000 + 100_000 * 4096)


def test_eight_bit_integers_keep_rounded_copies() -> None:
    int8 = run("codellama-7b", replace(LENGTH, dtype="int8")).peak_bytes(0)
    assert int8 - run("codellama-7b").peak_bytes(0) == 8192 * (11008 + 4096)


def test_gpus_with_a_smaller_cache_and_fewer_processors_keep_less() -> None:
    a100 = replace(run("codellama-7b"), gpu=load_gpu("a100-80gb-sxm"))
    assert run("codellama-7b").peak_bytes(0) - a100.peak_bytes(0) == (32 - 8.125 + 50 - 40) * MIB
