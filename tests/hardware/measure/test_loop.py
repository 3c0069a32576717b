"""The timing loop, on a device that takes known times."""

from __future__ import annotations

import pytest

from builders import FakeDevice
from servecast.hardware.measure.loop import LeftOut, Measured, Repeats, measure
from servecast.hardware.measure.plan import AllReduce, Copy, Gemm

GEMM = Gemm("bfloat16", 1, 512, 512)


def test_the_median_counts_and_warm_ups_do_not() -> None:
    device = FakeDevice(times_s=[9.0, 9.0, 1.0, 2.0, 3.0, 4.0, 100.0])
    [outcome] = measure([GEMM], device, device.clock, Repeats(warm_ups=2, least=5, most=5))

    assert isinstance(outcome, Measured)
    assert (outcome.seconds, outcome.spread_s, outcome.repetitions) == (3.0, 2.0, 5)


def test_short_operations_are_repeated_until_it_is_enough() -> None:
    device = FakeDevice()
    repeats = Repeats(warm_ups=0, least=3, most=100, enough_s=0.2)
    [outcome] = measure([GEMM], device, device.clock, repeats)
    [capped] = measure([GEMM], device, device.clock, Repeats(warm_ups=0, least=3, most=5, enough_s=0.2))

    # a run takes 10 ms of the fake clock
    assert isinstance(outcome, Measured)
    assert outcome.repetitions in (20, 21)
    assert isinstance(capped, Measured)
    assert capped.repetitions == 5


def test_a_copy_is_timed_by_the_piece() -> None:
    device = FakeDevice(times_s=[8.0])
    [outcome] = measure([Copy("host_to_device", 1024, 4)], device, device.clock)

    assert isinstance(outcome, Measured)
    assert outcome.seconds == 2.0


def test_what_cannot_be_measured_is_left_out_with_its_reason_and_the_rest_goes_on() -> None:
    device = FakeDevice(too_large=(GEMM,))
    outcomes = list(measure([GEMM, AllReduce(2, 64), Gemm("bfloat16", 2, 512, 512)], device, device.clock))

    assert outcomes[:2] == [LeftOut(GEMM, "out of memory"), LeftOut(AllReduce(2, 64), "needs 2 GPUs, here is 1")]
    assert isinstance(outcomes[2], Measured)


@pytest.mark.parametrize("times", [[0.0], [1.0, 0.0]])
def test_a_timer_that_shows_nothing_is_no_measurement(times: list[float]) -> None:
    device = FakeDevice(times_s=times)

    assert list(measure([GEMM], device, device.clock)) == [LeftOut(GEMM, "the timer showed no time")]
