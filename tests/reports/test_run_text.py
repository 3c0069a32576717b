"""What a run says about requests that got nowhere."""

from __future__ import annotations

from functools import cache
from typing import Any

from servecast import simulate
from servecast.configs.load import scenario_from
from servecast.reports.run_text import explain


@cache
def summary() -> dict[str, Any]:
    """Of a run that is short and healthy."""
    lengths = {key: {"distribution": "fixed", "value": 10} for key in ("prompt", "output")}
    workload = {"num_requests": 3, "arrivals": {"process": "batch"}, "lengths": lengths}
    return simulate(scenario_from({"model": "llama-3.1-8b", "gpu": "h100-sxm", "workload": workload})).summary


def test_a_healthy_run_says_nothing_of_it() -> None:
    assert not [line for line in explain(summary()) if "preempted" in line]


def test_much_recomputation_is_said_aloud() -> None:
    assert not [line for line in explain(summary()) if "WASTED" in line]
    assert [line for line in explain(summary() | {"recompute_ratio": 0.77}) if line.startswith("WASTED WORK: 77%")]


def test_livelocked_requests_are_named_and_whether_they_ever_finished() -> None:
    stuck = summary() | {"stalled": [4, 7, 9], "livelocked": [4, 7], "livelocked_unfinished": [7]}
    lines = explain(stuck)
    (livelock,) = (line for line in lines if line.startswith("LIVELOCK"))
    assert "2 requests" in livelock
    assert "1 of them never finished" in livelock
    assert "Ids 4, 7." in livelock
    assert any(line.startswith("1 requests were preempted ten times") and "Ids 9." in line for line in lines)
