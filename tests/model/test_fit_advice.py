"""What to change so that a model fits."""

from __future__ import annotations

from dataclasses import replace

from servecast.configs.architectures import load_architecture
from servecast.hardware.gpus import load_gpu
from servecast.hardware.memory_rules import load_memory_rules
from servecast.model.fit_advice import Change, FitQuestion, changes_that_fit
from servecast.model.layout import ReplicaLayout, check_layout

VLLM = load_memory_rules("vllm-0.19")


def question(model: str, gpu: str, layout: ReplicaLayout) -> FitQuestion:
    return FitQuestion(load_architecture(model), load_gpu(gpu), VLLM, layout, 2048, 256)


def by_key(changes: list[Change]) -> dict[str, object]:
    return {change.settings[0][0]: change.settings[0][1] for change in changes}


def test_every_change_offered_fits_and_is_allowed() -> None:
    asked = question("llama-3.1-8b", "l4", ReplicaLayout(max_model_len=131_072))
    assert not asked.plan(asked.layout).fits
    changes = changes_that_fit(asked)
    assert changes
    for change in changes:
        check_layout(asked.architecture, change.layout)
        assert change.plan.fits


def test_length_is_cut_no_more_than_it_takes() -> None:
    asked = question("llama-3.1-8b", "l4", ReplicaLayout(max_model_len=131_072))
    length = by_key(changes_that_fit(asked))["max_model_len"]
    assert isinstance(length, int)
    assert not asked.plan(replace(asked.layout, max_model_len=length + 256)).fits


def test_seventy_billion_on_one_h100_needs_more_gpus_or_fewer_bits() -> None:
    changes = by_key(changes_that_fit(question("llama-3.3-70b", "h100-sxm", ReplicaLayout(max_model_len=8192))))
    assert changes == {"dtype": "fp8", "tensor_parallel_size": 2}


def test_utilisation_is_raised_no_further_than_needed() -> None:
    asked = question("llama-3.1-8b", "l4", ReplicaLayout(gpu_memory_utilization=0.7, max_model_len=8192))
    raised = by_key(changes_that_fit(asked))["gpu_memory_utilization"]
    assert isinstance(raised, float)
    assert not asked.plan(replace(asked.layout, gpu_memory_utilization=raised - 0.01)).fits


def test_pairs_are_tried_when_nothing_helps_alone() -> None:
    changes = changes_that_fit(question("llama-3.1-405b", "h100-sxm", ReplicaLayout(max_model_len=8192)))
    assert str(changes[0]) == "dtype: fp8, tensor_parallel_size: 8"


def test_nothing_is_offered_where_nothing_helps() -> None:
    assert changes_that_fit(question("deepseek-v3", "l4", ReplicaLayout(max_model_len=8192))) == []
