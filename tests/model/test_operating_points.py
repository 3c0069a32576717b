"""Arithmetic and bytes of steps, against sums by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import clock_engine, run, tiny_model, trace
from servecast.model.architecture import MoeMlp
from servecast.model.metrics import summarise
from servecast.model.operating_points import operating_points

# The tiny model: two layers of hidden size 512, 8 heads and 4 KV heads of 64, MLP of 1024; vocabulary 4096.
WEIGHTS = 2 * ((8 + 2 * 4) * 64 * 512 + 512 * 512 + 3 * 1024 * 512)
NORMS = 2 * 2 * 512
HEAD = 4096 * 512


def test_a_prefill_by_hand() -> None:
    point = operating_points(run(trace([(0.0, 64, 1)]), engine=clock_engine(2.0)))
    assert point is not None
    assert point["decode"] is None
    attention = 2 * 4 * 8 * 64 * 64 * 32  # layers * 4 * heads * head size * tokens * half of the tokens
    flops = 2 * (WEIGHTS + NORMS) * 64 + 2 * HEAD + attention
    assert point["prefill"]["tflops"] == pytest.approx(flops / 2.0 / 1e12)
    assert point["prefill"]["flop_per_byte"] == pytest.approx(flops / (2 * (WEIGHTS + NORMS + HEAD)))


def test_decodes_read_the_weights_once_a_step_and_the_context_of_everybody() -> None:
    point = operating_points(run(trace([(0.0, 160, 2)] * 4), engine=clock_engine(2.0), block_size=1))
    assert point is not None
    decode = point["decode"]
    kv_bytes = 2 * 2 * 4 * 64 * 2  # of a token: layers * (K, V) * heads * head size * 16 bit
    flops = 4 * 2 * (WEIGHTS + NORMS + HEAD) + 4 * 161 * 2 * 4 * 8 * 64
    assert decode["tokens"] == 4
    assert decode["flop_per_byte"] == pytest.approx(
        flops / (2 * (WEIGHTS + NORMS + HEAD) + 4 * 161 * kv_bytes), rel=0.01
    )


def test_two_gpus_share_the_work() -> None:
    workload = trace([(0.0, 640, 50)] * 8)
    one = run(workload, engine=clock_engine())
    two = replace(
        one, parameters=replace(one.parameters, layout=replace(one.parameters.layout, tensor_parallel_size=2))
    )
    first, second = (operating_points(result) for result in (one, two))
    assert first is not None
    assert second is not None
    assert second["prefill"]["tflops"] == pytest.approx(first["prefill"]["tflops"] / 2, rel=0.01)


def test_of_experts_only_those_that_are_chosen_count() -> None:
    dense = run(trace([(0.0, 64, 9)]), engine=clock_engine())
    layers = tuple(replace(layer, mlp=MoeMlp(8, 2, 512)) for layer in tiny_model().layers)
    parameters = replace(dense.parameters, architecture=tiny_model(layers=layers))
    moe = operating_points(replace(dense, parameters=parameters))
    one = operating_points(dense)
    assert moe is not None
    assert one is not None
    # Two of eight half-size experts are as much arithmetic as the dense MLP; a decode of one token reads as much.
    router = 2 * 2 * 8 * 512
    assert moe["decode"]["flop_per_byte"] == pytest.approx(one["decode"]["flop_per_byte"], rel=0.01)
    assert moe["prefill"]["tflops"] == pytest.approx(one["prefill"]["tflops"], rel=router / WEIGHTS)
    # The prompt's 64 tokens choose all of them.
    assert moe["prefill"]["flop_per_byte"] < 0.5 * one["prefill"]["flop_per_byte"]


def test_the_summary_has_them() -> None:
    assert summarise(run(trace([(0.0, 64, 5)]), engine=clock_engine()))["roofline"]["decode"]["tokens"] == 1
