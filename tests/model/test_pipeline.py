"""Stages in a row: when steps leave them, what they add up to, and what lies between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from builders import a_gpu, clock_engine, llama_8b, real_engine, tiny_model
from servecast.hardware.engines import Elementwise, EngineProfile, HostTimes
from servecast.hardware.gpus import load_gpu
from servecast.model.architecture import Architecture
from servecast.model.forward import ForwardPass
from servecast.model.layout import ReplicaLayout, stage_architecture
from servecast.model.pipeline import HandOver, Pipeline, hand_overs
from servecast.model.scheduler_parameters import SchedulerParameters
from servecast.model.simulation import SimulationParameters, forward_passes
from servecast.model.step import Step

NO_HOST = HostTimes(step_s=0.0, request_s=0.0, server_s=0.0)


def one_second_a_layer() -> EngineProfile:
    """An engine in which a layer takes 1 s, whatever is in the step, and the host no time."""
    return replace(clock_engine(), host=NO_HOST, elementwise=Elementwise(kernel_s=0.25, e_m=1e20))


def parameters(stages: int, engine: EngineProfile, architecture: Architecture | None = None) -> SimulationParameters:
    return SimulationParameters(
        architecture=architecture or tiny_model(),
        gpu=a_gpu(),
        engine=engine,
        layout=ReplicaLayout(pipeline_parallel_size=stages),
        scheduler=SchedulerParameters(),
        workload=None,  # type: ignore[arg-type]  # nothing is simulated
    )


def decodes(count: int, context: int = 100) -> Step:
    step = Step()
    step.steady = step.rows = count
    step.context, step.longest = count * context, context
    return step


def test_a_step_passes_through_while_the_next_is_behind_it() -> None:
    pipeline = Pipeline(forward_passes(parameters(2, one_second_a_layer())), [HandOver(0.5, 0.0)], NO_HOST)
    assert pipeline.run(decodes(1), 0.0) == pytest.approx((0.0, 2.5))
    assert pipeline.run(decodes(1), 0.0) == pytest.approx((1.0, 3.5))  # each stage is free one second later
    assert pipeline.run(decodes(1), 9.0) == pytest.approx((9.0, 11.5))


def test_a_hand_over_grows_with_the_tokens_of_the_step() -> None:
    pipeline = Pipeline(forward_passes(parameters(2, one_second_a_layer())), [HandOver(0.5, 0.01)], NO_HOST)
    assert pipeline.run(decodes(10), 0.0) == pytest.approx((0.0, 2.6))


@pytest.mark.parametrize("stages", [2, 4])
def test_stages_add_up_to_the_whole_model(stages: int) -> None:
    """But for the launch of the host, which counts once and not in the stages."""
    engine = replace(real_engine(), host=NO_HOST)
    (whole,) = forward_passes(parameters(1, engine, llama_8b()))
    parts = forward_passes(parameters(stages, engine, llama_8b()))
    prices: list[Callable[[ForwardPass], float]] = [
        lambda cost: cost.steady_seconds(32, 32_000, 2000),
        lambda cost: cost.base_seconds(4096, 3, 5),
        lambda cost: cost.prefill_seconds([(0, 1000), (512, 512)]),
    ]
    for price in prices:
        assert sum(map(price, parts)) == pytest.approx(price(whole), rel=1e-9)


def test_only_the_last_stage_computes_logits() -> None:
    first, last = forward_passes(parameters(2, real_engine(), llama_8b()))
    assert max(first.head_s) == 0.0
    assert last.head_s[1] > 0.0


def test_stages_are_told_of_windows_that_only_others_have() -> None:
    first, last = forward_passes(parameters(2, real_engine(), tiny_model((None, 24))))
    assert first.attention.window_sizes == last.attention.window_sizes == [24]
    assert first.decode_seconds(1, 100, 100, [(24, 24)]) == first.decode_seconds(1, 100, 100, [(0, 0)])


def test_seconds_by_resource_are_the_mean_over_stages() -> None:
    pipeline = Pipeline(forward_passes(parameters(2, one_second_a_layer())), [HandOver(0.5, 0.0)], NO_HOST)
    pipeline.run(decodes(1), 0.0)
    assert sum(pipeline.seconds_by_resource().values()) == pytest.approx(1.0)


def test_hand_over_between_two_h100_is_as_measured() -> None:
    """64 MiB in 193 us, 1,017,856 bytes in 10 us (NCCL send/recv, microsoft/vidur's network profiles)."""
    (within,) = hand_overs(ReplicaLayout(pipeline_parallel_size=2), load_gpu("h100-sxm"), hidden_size=1024)
    assert within.seconds(64 * 2**20 // 4096) == pytest.approx(193e-6, rel=0.05)
    assert within.seconds(1_017_856 // 4096) == pytest.approx(10e-6, rel=0.15)


def test_stages_on_several_servers_meet_over_the_network() -> None:
    layout = ReplicaLayout(tensor_parallel_size=4, pipeline_parallel_size=4)
    one, two, three = hand_overs(layout, load_gpu("h100-sxm"), hidden_size=8192)
    assert one == three
    assert two.latency_s > one.latency_s
    assert two.s_per_token > 5 * one.s_per_token


def test_stage_architecture_deals_out_the_layers() -> None:
    model = llama_8b()
    assert [stage_architecture(model, 3, stage).num_layers for stage in range(3)] == [11, 11, 10]
