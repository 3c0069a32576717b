"""A run's folder that tests of reports read, and a browser."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from servecast.api import simulate
from servecast.commands.run_files import write_run
from servecast.configs.load import load_scenario, scenario_from
from servecast.hardware.errors import DoesNotFitError
from servecast.sweeps.runner import FAILED, OK, Outcome, Task
from servecast.sweeps.store import Planned, open_store

SCENARIO = """\
name: <b>crowded</b> & "odd"
model: llama-3.1-8b
gpu: h100-sxm
replica: {max_model_len: 8192, kv_pool_blocks: 220}
workload:
  num_requests: 120
  arrivals: {process: poisson, request_rate: 10}
  lengths:
    prompt: {distribution: lognormal, mean: 300, cv: 1.0, min: 16, max: 2000}
    output: {distribution: uniform, low: 20, high: 200}
cohorts: {by: prompt_tokens, edges: [200, 800]}
slo: ttft:p99<=500ms tpot:p95<=50ms
"""


@pytest.fixture(scope="session")
def stored_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes the folder of a run of SCENARIO with some keys set."""

    def make(name: str, *overrides: str) -> Path:
        file = tmp_path_factory.mktemp("scenario") / f"{name}.yaml"
        file.write_text(SCENARIO)
        folder = tmp_path_factory.mktemp(name)
        write_run(simulate(load_scenario(file, overrides)), "a <i>title</i>", folder)
        return folder

    return make


@pytest.fixture(scope="session")
def run_folder(stored_run: Callable[..., Path]) -> Path:
    """The files of a run with preemptions, cohorts and a name that HTML must not take as it is."""
    return stored_run("crowded")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium. Skips where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="pip install playwright: it drives the browser")
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no browser: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        chromium.close()


SMALL = {
    "name": "small",
    "model": "llama-3.1-8b",
    "replica": {"max_model_len": 8192},
    "slo": "ttft:p99<=100ms tpot:p95<=50ms",
}


@pytest.fixture(scope="session")
def stored_sweep(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes the folder of a sweep over two GPUs and three rates, two seeds each; a point that does not fit is in it."""

    def make(name: str, **settings: Any) -> Path:
        folder = tmp_path_factory.mktemp(name)
        with open_store(folder, resume=True) as store:
            planned = list(_planned(settings))
            store.plan(planned, {})
            for point in planned:
                store.record(point.task, _outcome(point.task))
        return folder

    return make


def _planned(settings: Mapping[str, Any]) -> Iterator[Planned]:
    lengths = {
        "prompt": {"distribution": "fixed", "value": 400},
        "output": {"distribution": "uniform", "low": 5, "high": 60},
    }
    for gpu, rate, seed in product(("h100-sxm", "l40s", "t4"), (4, 20, 60), (0, 1)):
        workload = {
            "num_requests": 80,
            "arrivals": {"process": "poisson", "request_rate": rate},
            "lengths": lengths,
        }
        scenario = scenario_from({**SMALL, "gpu": gpu, "workload": workload, "seed": seed, **settings})
        labels = {"gpu": gpu, "request_rate": rate, "seed": seed}
        yield Planned(Task(str(labels), scenario.effective()), labels)


def _outcome(task: Task[Any]) -> Outcome[Any]:
    try:
        return Outcome(task.key, OK, simulate(scenario_from(task.content)).summary, None, 0.1)
    except DoesNotFitError as error:
        return Outcome(task.key, FAILED, None, str(error), 0.1)


@pytest.fixture(scope="session")
def sweep_folder(stored_sweep: Callable[..., Path]) -> Path:
    return stored_sweep("sweep")
