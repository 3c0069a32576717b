"""Messages name the place, the value and what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest

from servecast.hardware.errors import (
    ConfigError,
    DoesNotFitError,
    InvariantError,
    ServecastError,
    did_you_mean,
    nearest,
)


def test_message_reads_place_key_problem_hint() -> None:
    error = ConfigError("must be above 0", file=Path("a.yaml"), line=3, key="rate", hint="Try 5")

    assert str(error) == "a.yaml:3: rate: must be above 0. Try 5"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ConfigError("no such file", file="a.yaml"), "a.yaml: no such file"),
        (ConfigError("broken", line=3), "line 3: broken"),
        (ConfigError("unknown key", key="rats"), "rats: unknown key"),
    ],
)
def test_message_leaves_out_what_is_not_known(error: ConfigError, message: str) -> None:
    assert str(error) == message


def test_exit_codes_tell_bad_input_from_a_plain_no() -> None:
    assert ConfigError("x").exit_code == 2
    assert DoesNotFitError("x").exit_code == 1
    assert issubclass(InvariantError, ServecastError)


def test_nearest_finds_a_slip_of_the_finger_only() -> None:
    assert nearest("H100-SMX", ["h100-sxm", "a40"]) == "h100-sxm"
    assert nearest("tpu", ["h100-sxm", "a40"]) is None


def test_did_you_mean_lists_all_names_with_the_near_miss_first() -> None:
    assert did_you_mean("fcfz", ["sjf", "fcfs"]) == "Did you mean 'fcfs'? Valid: fcfs, sjf"
    assert did_you_mean("xyz", ["sjf", "fcfs"]) == "Valid: fcfs, sjf"
