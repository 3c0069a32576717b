"""Limits on errors."""

from __future__ import annotations

import pandas as pd
import pytest

from servecast.hardware.errors import ConfigError
from servecast.sweeps.validation.thresholds import parse_thresholds

ROWS = pd.DataFrame(
    {"problem": ["", "", "", "broken"], "error_tpot": [-2.0, 4.0, 12.0, 90.0], "error_ttft": float("nan")}
)


@pytest.mark.parametrize(
    ("text", "values", "met"),
    [("tpot=5", [4], [True]), ("tpot=3%", [4], [False]), ("tpot:worst=12, tpot:p90=10", [12, 10.4], [True, False])],
)
def test_a_threshold_is_held_against_the_size_of_the_errors(text: str, values: list[float], met: list[bool]) -> None:
    verdicts = [threshold.verdict(ROWS) for threshold in parse_thresholds(text)]
    assert [verdict["value_pct"] for verdict in verdicts] == pytest.approx(values)
    assert [verdict["met"] for verdict in verdicts] == met


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tpot", "cannot be read: 'tpot'"),
        ("tpt=5", "Did you mean 'tpot'"),
        ("tpot:p9=5", "Did you mean 'p90'"),
        ("tpot=1.2.3", "'1.2.3' is no number"),
        ("", "cannot be read"),
    ],
)
def test_a_threshold_that_makes_no_sense_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match="--threshold") as caught:
        parse_thresholds(text)
    assert message in str(caught.value)


def test_a_threshold_on_a_figure_that_nobody_measured_is_refused() -> None:
    with pytest.raises(ConfigError, match="no run that could be simulated has a measured ttft"):
        parse_thresholds("ttft=5")[0].verdict(ROWS)
