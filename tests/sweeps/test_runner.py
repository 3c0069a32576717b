"""Tasks on workers: outcomes, failures, and equal results wherever they run."""

from __future__ import annotations

import re
import sys
import time
from types import ModuleType
from typing import Any

import pytest

from servecast.hardware.errors import ConfigError, WorkersLostError
from servecast.sweeps.backends import Backend
from servecast.sweeps.runner import Outcome, Task, run_tasks
from sweep_work import die, half


def outcomes(numbers: list[int], backend: Backend, work: Any = half) -> dict[str, Outcome[Any]]:
    found: dict[str, Outcome[Any]] = {}
    tasks = [Task(str(number), number) for number in numbers]
    run_tasks(tasks, work, on_done=lambda outcome: found.update({outcome.key: outcome}), backend=backend)
    return found


def test_each_task_has_its_outcome() -> None:
    found = outcomes([0, 1, 2], Backend(jobs=1))
    assert (found["2"].status, found["2"].value) == ("ok", 1.0)
    assert (found["1"].status, found["1"].message) == ("failed", "1 is odd")
    assert found["0"].status == "crashed"
    assert re.fullmatch(r"ZeroDivisionError: nothing to halve \(sweep_work.py:\d+ in half\)", str(found["0"].message))


def test_workers_give_the_same() -> None:
    alone, together = (outcomes(list(range(40)), Backend(jobs=jobs)) for jobs in (1, 2))
    assert sorted(together) == sorted(alone)
    assert all(together[key].value == alone[key].value for key in alone)
    assert all(together[key].message == alone[key].message for key in alone)


def test_outcomes_come_while_others_still_run() -> None:
    begin, times = time.monotonic(), []
    tasks = [Task(str(pause), pause) for pause in (0.0, 1.0)]
    run_tasks(tasks, time.sleep, on_done=lambda _: times.append(time.monotonic()), backend=Backend(jobs=2))
    assert times[1] - times[0] > 0.5
    assert times[1] - begin < 30


def test_progress_counts_tasks() -> None:
    seen: list[tuple[int, int]] = []
    tasks = [Task(str(number), number) for number in range(3)]
    run_tasks(
        tasks,
        half,
        on_done=lambda _: None,
        backend=Backend(jobs=1),
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_a_task_that_ends_its_process_is_an_outcome_and_the_others_go_on() -> None:
    found = outcomes(list(range(12)), Backend(jobs=2), die)
    assert {key: outcome.status for key, outcome in found.items() if outcome.status != "ok"} == {"3": "crashed"}
    assert str(found["3"].message).startswith("its process died, for want of memory perhaps: ")
    assert len(found) == 12


def test_work_that_workers_do_not_find_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("only_in_this_process")
    exec("def work(number): return number", module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with pytest.raises(WorkersLostError, match="the workers were lost: "):
        outcomes([1, 2, 3], Backend(jobs=2), module.work)


def test_an_error_of_the_receiver_ends_the_run() -> None:
    def refuse(outcome: Outcome[float]) -> None:
        raise OSError(f"no room for {outcome.key}")

    with pytest.raises(OSError, match="no room for"):
        run_tasks([Task(str(n), n) for n in range(4)], half, on_done=refuse, backend=Backend(jobs=2))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"name": "spark"}, "--backend: must be one of loky, dask, ray, found 'spark'"),
        ({"jobs": 0}, "--jobs: must be 1 or more, found 0"),
        ({"address": "tcp://host:1"}, "--address: belongs to a cluster"),
    ],
)
def test_a_backend_that_makes_no_sense(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Backend(**settings)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_a_ray_cluster_that_does_not_answer(address: str) -> None:
    pytest.importorskip("ray", reason="pip install 'servecast[ray]'")
    with pytest.raises(ConfigError, match=f"--address: no ray cluster at {address}: .*refused"):
        outcomes([1], Backend("ray", address=address))


def test_no_tasks_need_no_workers() -> None:
    assert outcomes([], Backend()) == outcomes([], Backend("dask", address="tcp://nowhere:1")) == {}
