"""`--set key=value` on top of a scenario file."""

from __future__ import annotations

from pathlib import Path

import pytest

from servecast.configs.load import load_scenario, scenario_from
from servecast.hardware.errors import ConfigError


def test_overrides_come_last_and_the_last_one_wins(scenario_file: Path) -> None:
    overrides = [
        "scheduler.max_num_seqs=8",
        "scheduler.max_num_seqs=16",
        "slo=ttft:500 tpot:50",
        "fleet.replicas=2",
    ]

    scenario = load_scenario(scenario_file, overrides)

    assert (scenario.scheduler.max_num_seqs, scenario.slo, scenario.fleet.replicas) == (
        16,
        "ttft:500 tpot:50",
        2,
    )


def test_an_override_may_set_a_whole_section_and_then_a_key_of_it(scenario_file: Path) -> None:
    overrides = [
        "workload.arrivals={process: closed_loop, concurrency: 4}",
        "workload.arrivals.concurrency=8",
    ]

    arrivals = load_scenario(scenario_file, overrides).workload.arrivals

    assert arrivals.process == "closed_loop"
    assert arrivals.concurrency == 8


@pytest.mark.parametrize(
    ("override", "told"),
    [
        (
            "scheduler.max_num_seqs=abc",
            "--set scheduler.max_num_seqs=abc: must be a whole number, found the text 'abc'",
        ),
        ("max_num_seqs=4", "--set max_num_seqs=4: unknown key. It belongs to scheduler.max_num_seqs"),
        ("scheduler.max_num_seq=4", "unknown key. Did you mean 'max_num_seqs'?"),
        ("scheduler.max_num_seqs", "--set scheduler.max_num_seqs: is not of the form key=value"),
        ("=4", "--set =4: is not of the form key=value"),
        ("workload.num_requests.x=4", "workload.num_requests is 200, not a section with keys"),
        ("workload=4", "--set workload=4: must be a section with keys, found 4"),
        ("slo=[a", "--set slo=[a: the value broken YAML"),
        (
            "workload.arrivals={process: batch, request_rate: 4}",
            "request_rate: 4}: workload.arrivals.request_rate: unknown key",
        ),
    ],
)
def test_a_wrong_override_is_named_instead_of_the_file(scenario_file: Path, override: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_scenario(scenario_file, [override])

    assert told in str(caught.value)
    assert "chat.yaml" not in str(caught.value)


def test_overrides_do_not_change_the_data_that_they_are_applied_to() -> None:
    arrivals = {"process": "poisson", "request_rate": 5}
    data = {"model": "a", "gpu": "b", "workload": {"arrivals": arrivals, "lengths": {"profile": "c"}}}

    scenario_from(data, ["workload.arrivals.request_rate=9"])

    assert arrivals["request_rate"] == 5
