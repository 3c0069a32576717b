"""`servecast capacity`: what it prints, its exit codes, and how it answers wrong input."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

Servecast = Callable[..., subprocess.CompletedProcess[str]]

SLO = "ttft:p90<=100ms tpot:p90<=9ms"


def test_the_answer_with_its_limit_and_its_basis(servecast: Servecast, scenario: Path) -> None:
    done = servecast("capacity", scenario, "--slo", SLO, "--seeds", 2)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for words in ("Capacity: ", "req/s (", "this binds", "(warm-up)", "By seed: ", "Model error: "):
        assert words in done.stdout


def test_json_holds_every_number(servecast: Servecast, scenario: Path) -> None:
    found = json.loads(servecast("capacity", scenario, "--slo", SLO, "--seeds", 1, "--json").stdout)
    assert found["interval"][0] < found["capacity"] < found["interval"][1]
    assert found["capacity"] < found["above"] <= found["capacity"] * 1.02 * (1 + 1e-9)
    assert found["binding"]["value_ms"] > 9
    assert found["provenance"]["scenario"]["gpu"] == "h100-sxm"
    assert all(probe["met"] == (probe["load"] <= found["capacity"]) for probe in found["probes"])


def test_out_of_reach_is_exit_code_1(servecast: Servecast, scenario: Path) -> None:
    done = servecast("capacity", scenario, "--slo", "tpot:p90<=1ms", "--seeds", 1)
    assert done.returncode == 1
    assert "No load meets tpot:p90<=1ms" in done.stdout


def test_limits_are_needed(servecast: Servecast, scenario: Path) -> None:
    done = servecast("capacity", scenario)
    assert done.returncode == 2
    assert "slo: is missing, and there is no --slo" in done.stderr


def test_a_batch_has_no_rate(servecast: Servecast, scenario: Path) -> None:
    done = servecast("capacity", scenario, "--slo", SLO, "--set", "workload.arrivals={process: batch}")
    assert done.returncode == 2
    assert "batch sends everything at once" in done.stderr


def test_a_model_that_does_not_fit_is_exit_code_1(servecast: Servecast, scenario: Path) -> None:
    done = servecast("capacity", scenario, "--slo", SLO, "--set", "model=llama-3.1-70b")
    assert done.returncode == 1
    assert "does not fit" in done.stderr
