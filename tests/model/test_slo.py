"""SLO strings are read exactly, written back exactly, and refused with the position of the mistake."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servecast.hardware.errors import ConfigError
from servecast.model.slo import METRICS, Slo, SloLimit, parse_slo


def test_limits_on_percentiles_carry_their_unit() -> None:
    slo = parse_slo("ttft:p99<=500ms tpot:p95<=50ms e2el:p99<=20s")

    assert slo.limits == (
        SloLimit("ttft", "p99", 0.5),
        SloLimit("tpot", "p95", 0.05),
        SloLimit("e2el", "p99", 20.0),
    )


def test_limits_per_request_are_in_milliseconds() -> None:
    assert parse_slo("ttft:500 tpot:50").limits == (SloLimit("ttft", None, 0.5), SloLimit("tpot", None, 0.05))


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("ttft:p99 <= 500 ms, TPOT: 50", "ttft:p99<=500ms tpot:50"),
        ("ttft:P99.0<=0.5s", "ttft:p99<=500ms"),
        ("e2el:mean≤2min", "e2el:mean<=120s"),
        ("ttft<=2s", "ttft:2000"),
        ("  itl:median<=30ms;", "itl:median<=30ms"),
    ],
)
def test_spelling_does_not_matter(text: str, same: str) -> None:
    assert str(parse_slo(text)) == same


@pytest.mark.parametrize(("statistic", "percentile"), [("p99.9", 99.9), ("median", 50.0), ("mean", None), (None, None)])
def test_percentile_of_a_statistic(statistic: str | None, percentile: float | None) -> None:
    assert SloLimit("ttft", statistic, 1.0).percentile == percentile


def test_a_good_request_meets_the_strictest_limit_of_each_metric() -> None:
    slo = parse_slo("ttft:p50<=200ms ttft:p99<=1s tpot:50 itl:p99<=80ms")

    assert slo.request_limits_s == {"ttft": 0.2, "tpot": 0.05}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no limit in ''"),
        ("tfft:500", "unknown metric 'tfft' at character 1 ('tfft:500'). Did you mean 'ttft'?"),
        ("ttft:500 tbt:50", "unknown metric 'tbt' at character 10"),
        ("ttft:q99<=1s", "unknown statistic 'q99' at character 6"),
        ("ttft:p101<=1s", "unknown statistic 'p101' at character 6"),
        ("ttft:p0<=1s", "unknown statistic 'p0' at character 6"),
        ("ttft:p99<=500", "500 has no unit at character 11 ('500'). Write 500ms or 500s"),
        ("ttft:p99<=5sec", "unknown unit 'sec' at character 12 ('sec'). Valid: us, ms, s, min"),
        ("ttft:p99<500ms", "cannot use '<' at character 9"),
        ("ttft:p99>=500ms", "Limits are upper bounds: write <="),
        ("ttft:p99:500", "ttft:p99 needs <= before its limit at character 9"),
        ("ttft:p99<=-1ms", "a limit must be above 0, found -1 at character 11"),
        ("ttft:0", "a limit must be above 0, found 0 at character 6"),
        ("ttft", "ttft has no limit at the end"),
        ("ttft:", "expected a number at the end"),
        ("99<=500ms", "expected a metric at character 1"),
        ("itl:50", "cannot be limited per request"),
        ("ttft:500 ttft:300", "limits ttft per request a second time at character 10"),
        ("ttft:p50<=1s ttft:p50<=2s", "limits ttft p50 a second time at character 14"),
    ],
)
def test_a_bad_string_is_refused_with_the_position(text: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_slo(text)

    assert told in str(caught.value)


_STATISTICS = st.one_of(
    st.sampled_from(["mean", "median", "p50", "p90", "p99", "p99.9"]),
    st.integers(1, 1000).map(lambda tenths: f"p{tenths / 10:g}"),
)
_SECONDS = st.one_of(
    st.floats(1e-9, 1e6, allow_nan=False),
    st.integers(1, 10**6).map(lambda ms: ms / 1000),
)
_LIMITS = st.one_of(
    st.builds(SloLimit, st.sampled_from(METRICS), _STATISTICS, _SECONDS),
    st.builds(SloLimit, st.sampled_from(["ttft", "tpot", "e2el"]), st.none(), _SECONDS),
)


@given(st.lists(_LIMITS, min_size=1, unique_by=lambda limit: (limit.metric, limit.statistic)))
def test_text_and_limits_round_trip(limits: list[SloLimit]) -> None:
    slo = Slo(tuple(limits))

    assert parse_slo(str(slo)) == slo


@given(st.text(alphabet="tpofel0159.:<=ms, -", max_size=20))
def test_any_text_is_read_or_refused_with_a_config_error(text: str) -> None:
    try:
        slo = parse_slo(text)
    except ConfigError:
        return
    assert parse_slo(str(slo)) == slo
