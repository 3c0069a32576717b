"""`--set key=value` on top of a scenario file."""

from __future__ import annotations

from pathlib import Path

import pytest

from servecast.configs.build import build_simulation
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
        ("slo=[a", "--set slo=[a: the value is broken YAML"),
        ("workload.tenants={null: 1}", "the value cannot be used: a key must be a word, found nothing"),
        ("a.b.c=1", "--set a.b.c=1: a: unknown key"),
        ("scheduler.max_num_seqs=9000", "max_num_seqs=9000: must not be above max_num_batched_tokens (8192)"),
        ("seed=36893488147419103232", "must be 9,223,372,036,854,775,807 or less"),
        ("workload.num_requests=1e20", "must be 100,000,000 or less"),
        ("workload.arrivals.request_rate=1e10", "must be 1,000,000,000 or less"),
        ('name="a\\e[31mb"', "must not hold control characters, found '\\x1b'"),
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


def test_an_error_of_a_later_stage_names_the_override_once(scenario_file: Path) -> None:
    scenario = load_scenario(scenario_file, ["workload.lengths={profile: foo}"])
    with pytest.raises(ConfigError) as caught:
        build_simulation(scenario)
    expected = "--set workload.lengths={profile: foo}: workload.lengths.profile: unknown workload profile 'foo'"
    assert str(caught.value).startswith(expected)


@pytest.mark.parametrize(("key", "command"), [("model", "models"), ("gpu", "gpus"), ("engine", "engines")])
def test_a_missing_file_is_told_what_would_be_right(scenario_file: Path, key: str, command: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build_simulation(load_scenario(scenario_file, [f"{key}=./none.yaml"]))
    hint = f"Give a key that `servecast {command}` lists"
    assert f"--set {key}=./none.yaml: no such file: none.yaml. {hint}" in str(caught.value)
