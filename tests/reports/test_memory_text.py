"""The memory of a replica as text and as JSON."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from servecast.configs.architectures import load_architecture
from servecast.hardware.engines import load_engine
from servecast.hardware.gpus import load_gpu
from servecast.model.fit_advice import FitQuestion, changes_that_fit
from servecast.model.layout import ReplicaLayout
from servecast.model.memory import MemoryPlan
from servecast.reports.memory_text import MemoryAnswer, memory_figures, render_memory


def answer(
    gpu: str = "h100-sxm",
    layout: ReplicaLayout | None = None,
    *,
    model: str = "llama-3.1-8b",
    engine: str = "vllm-0.19",
    max_num_seqs: int = 256,
) -> MemoryAnswer:
    profile, layout = load_engine(engine), layout or ReplicaLayout(max_model_len=8192)
    question = FitQuestion(load_architecture(model), load_gpu(gpu), profile.memory, layout, 8192, max_num_seqs)
    plan = question.plan(layout)
    changes = () if plan.fits else tuple(changes_that_fit(question))
    return MemoryAnswer(question, profile, plan, plan.max_model_len, plan.max_concurrency, changes)


def text(*answers: MemoryAnswer, width: int = 80) -> str:
    file = io.StringIO()
    Console(file=file, width=width, highlight=False).print(render_memory(answers, width))
    return file.getvalue()


def rows(output: str) -> dict[str, str]:
    """Label -> cells, without the blanks between them."""
    pairs = (line.split("  ", 1) for line in output.splitlines() if "  " in line.strip())
    return {label.strip(): " ".join(cells.split()) for label, cells in pairs}


def test_the_table_reads_like_the_engines_log() -> None:
    # The log of vLLM 0.19 for this start-up: 79.19 total, 14.99 weights, 1.89 activation, 58.11 GiB of KV cache,
    # 476,016 tokens, 58.11x at 8192 tokens.
    shown = rows(text(answer(layout=ReplicaLayout(max_model_len=8192, gpu_memory_utilization=0.95), max_num_seqs=1024)))
    assert shown["Total"] == "79.19"
    assert shown["Requested (utilization 0.95)"] == "75.23"
    assert shown["Weights"] == "14.99"
    assert float(shown["Activation (peak)"]) == pytest.approx(1.89, abs=0.011)
    assert float(shown["KV cache"]) == pytest.approx(58.11, abs=0.011)
    assert float(shown["KV cache size (tokens)"].replace(",", "")) == pytest.approx(476_016, rel=1e-3)
    assert float(shown["Maximum concurrency, 8,192 tokens"].removesuffix("x")) == pytest.approx(58.11, abs=0.05)


def test_gpus_stand_side_by_side_and_go_below_where_the_line_is_full() -> None:
    gpus = [answer("h100-sxm"), answer("l40s"), answer("a100-40gb-sxm"), answer("rtx-pro-6000-workstation")]
    wide, narrow = text(*gpus, width=120), text(*gpus)
    assert wide.count("GiB on each GPU") == 1
    assert narrow.count("GiB on each GPU") == 2
    assert rows(wide)["Total"] == "79.19 44.42 39.49 94.97"
    assert max(map(len, narrow.splitlines())) <= 80


def test_a_model_that_does_not_fit_gets_what_is_missing_and_what_helps() -> None:
    asked = answer("l4", ReplicaLayout())
    shown = text(answer("h100-sxm", ReplicaLayout()), asked, width=120)
    assert "h100-sxm: fits" in shown
    assert f"l4: does NOT fit. Each GPU is {asked.plan.short_gib:.2f} GiB short for one sequence of 131,072" in shown
    assert "It fits with any one of:\n    max_model_len: " in shown
    assert "tensor_parallel_size: 2" in shown


def test_where_nothing_helps_it_says_so() -> None:
    assert "No other utilisation, length, dtype" in text(answer("t4", model="deepseek-v3"))


def test_memory_that_the_graphs_lack_is_said() -> None:
    assert "0.00 GiB is left for about 0.90 GiB of CUDA graphs" in text(
        answer(layout=ReplicaLayout(max_model_len=8192, gpu_memory_utilization=1.0)), width=200
    )
    assert "CUDA graphs:" not in text(answer(), width=200)


def test_the_last_line_says_how_far_to_trust_it() -> None:
    assert (
        text(answer(), width=400)
        .splitlines()[-1]
        .startswith("How far to trust it: rules of vllm-0.19 against start-up logs: ")
    )
    assert "unvalidated" in text(answer(engine="sglang-0.5"), width=400).splitlines()[-1]


SUMS: dict[str, tuple[str, Callable[[MemoryPlan], float]]] = {
    "vllm-0.19": (
        "KV cache = requested - weights - activation - non-torch.",
        lambda plan: plan.requested_gib - plan.weights_gib - plan.activation_gib - plan.non_torch_gib,
    ),
    "sglang-0.5": (
        "KV cache = 0.9 x (total - non-torch) - weights.",
        lambda plan: 0.9 * (plan.total_gib - plan.non_torch_gib) - plan.weights_gib,
    ),
    "trtllm-1.0": (
        "KV cache = 0.9 x (total - weights - activation - non-torch - CUDA graphs).",
        lambda plan: (
            0.9 * (plan.total_gib - plan.weights_gib - plan.activation_gib - plan.non_torch_gib)
            - 0.9 * plan.cuda_graph_gib
        ),
    ),
}


@pytest.mark.parametrize("engine", SUMS)
def test_the_sum_that_is_printed_is_the_one_that_was_made(engine: str) -> None:
    words, kv_gib = SUMS[engine]
    asked = answer(engine=engine)
    assert words in text(asked, width=200)
    assert asked.plan.kv_gib == pytest.approx(kv_gib(asked.plan))


def test_a_quantised_checkpoint_and_block_groups_are_named() -> None:
    shown = text(answer(model="gpt-oss-20b"), width=300)
    assert "gpt-oss-20b (mxfp4 weights, 16-bit KV cache), TP 1, vllm-0.19" in shown
    assert "blocks in 2 groups" in shown


def test_the_tightest_pipeline_stage_is_named() -> None:
    layout = ReplicaLayout(tensor_parallel_size=2, pipeline_parallel_size=2, max_model_len=8192)
    shown = text(answer(layout=layout))
    assert "TP 2, PP 2" in shown
    assert rows(shown)["Pipeline stage with the fewest blocks"] in ("1 of 2", "2 of 2")


def test_json_begins_with_the_figures_of_the_log() -> None:
    figures = memory_figures(answer("l4", ReplicaLayout()))
    assert list(figures)[:12] == [
        "fits",
        "short_gib",
        "total_gib",
        "requested_gib",
        "weights_gib",
        "activation_gib",
        "non_torch_gib",
        "cuda_graph_gib",
        "kv_gib",
        "kv_pool_blocks",
        "kv_pool_tokens",
        "max_concurrency",
    ]
    assert not figures["fits"]
    assert {"tensor_parallel_size": 2} in [change["settings"] for change in figures["changes"]]
