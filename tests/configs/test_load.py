"""Reading scenario files: what is a scenario, and that nothing else than a ConfigError comes of what is none."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servecast import simulate
from servecast.configs.build import build_simulation
from servecast.configs.load import load_scenario, scenario_from
from servecast.hardware.errors import ConfigError

PLACES = [
    "model",
    "gpu",
    "name",
    "slo",
    "seed",
    "coast",
    "replica",
    "scheduler",
    "fleet",
    "workload",
    "replica.dtype",
    "replica.block_size",
    "scheduler.swap_space",
    "scheduler.kind",
    "scheduler.admission",
    "scheduler.policy",
    "scheduler.max_num_partial_prefills",
    "workload.prompts",
    "workload.priorities",
    "workload.tenants",
    "cohorts",
    "cohorts.by",
    "cohorts.edges",
    "workload.arrivals",
    "workload.arrivals.process",
    "workload.arrivals.request_rate",
    "workload.arrivals.times_s",
    "workload.lengths",
    "workload.lengths.profile",
    "workload.lengths.prompt",
    "workload.lengths.output",
]
WORDS = [
    "process",
    "gamma",
    "cv",
    "trace",
    "path",
    "distribution",
    "fixed",
    "value",
    "uniform",
    "low",
    "prompt",
    "max_queue",
    "distinct",
    "by",
    "tenant",
]


def test_a_file_is_read_and_gives_the_scenario_its_name(scenario_file: Path) -> None:
    scenario = load_scenario(scenario_file)

    assert (scenario.name, scenario.model, scenario.gpu) == ("chat", "llama-3.1-8b", "h100-sxm")
    assert scenario.scheduler.max_num_seqs == 64


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty. A scenario needs model, gpu and workload"),
        ("# only a comment\n", "is empty"),
        ("- a\n- b\n", ":1: must hold a section with keys, found a list"),
        ("just words\n", ":1: must hold a section with keys, found the text 'just words'"),
        ("model: [a\ngpu: b\n", ":2: broken YAML"),
        ("model: a\nslo: ttft: 500\n", ":2: broken YAML"),
        ("model: a\nmodel: b\n", ":2: model: key stands twice"),
    ],
)
def test_a_file_that_is_no_scenario(scenario_file: Path, text: str, told: str) -> None:
    scenario_file.write_text(text)

    with pytest.raises(ConfigError) as caught:
        load_scenario(scenario_file)

    assert str(scenario_file) in str(caught.value)
    assert told in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: no such file"):
        load_scenario(tmp_path / "nowhere.yaml")


def test_reading_a_scenario_needs_no_numerical_library() -> None:
    # The command must answer a mistake at once; numpy and pandas take longer to import than all of this.
    code = "import sys, servecast.configs.load; print({'numpy', 'pandas', 'scipy'} & set(sys.modules))"
    path = str(Path(__file__).parents[2] / "src")

    found = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )

    assert found.stdout.strip() == "set()"


_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=4),
        st.dates(),
        st.sampled_from(WORDS),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.one_of(st.sampled_from(WORDS), st.booleans()), inner)
    ),
    max_leaves=6,
)


@given(st.sampled_from(PLACES), _VALUES)
def test_whatever_stands_at_a_key_is_read_or_refused_with_a_config_error(place: str, value: object) -> None:
    data: dict[str, Any] = {
        "model": "llama-3.1-8b",
        "gpu": "h100-sxm",
        "workload": {"arrivals": {"process": "poisson", "request_rate": 5}, "lengths": {"profile": "1k1k"}},
    }
    *parents, last = place.split(".")
    section: Any = data
    for part in parents:
        section = section.setdefault(part, {})
    section[last] = value

    with contextlib.suppress(ConfigError):
        scenario = scenario_from(data)
        assert scenario_from(scenario.effective()).effective() == scenario.effective()


def test_wrong_types_from_python_are_told_what_would_be_right(scenario_file: Path) -> None:
    with pytest.raises(ConfigError, match="needs the path of a scenario file, found 5"):
        load_scenario(5)  # type: ignore[arg-type]  # on purpose
    for overrides in ("seed=1", [5], 5, {"seed": 1}):
        with pytest.raises(ConfigError, match="overrides must be a list of texts"):
            load_scenario(scenario_file, overrides)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ConfigError, match="a scenario must be a mapping with keys, found a list"):
        scenario_from([1])  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ConfigError, match=r"simulate needs a scenario, found the text 'quickstart\.yaml'"):
        simulate("quickstart.yaml")  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize("beside", ["scenario", "current folder"])
def test_a_policy_may_lie_beside_the_scenario_or_in_the_current_folder(
    scenario_file: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, beside: str
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    module = f"policy_beside_{beside.replace(' ', '_')}"
    folder = scenario_file.parent if beside == "scenario" else elsewhere
    (folder / f"{module}.py").write_text("class Last:\n    def key(self, request):\n        return -request.id\n")
    before = list(sys.path)
    parameters = build_simulation(load_scenario(scenario_file, [f"scheduler.policy={module}:Last"]))
    assert parameters.scheduler.policy.key is not None
    assert sys.path == before


def test_max_num_seqs_follows_a_small_budget_as_in_vllm(scenario_file: Path) -> None:
    scenario_file.write_text(scenario_file.read_text().replace("max_num_seqs: 64", "max_num_batched_tokens: 10"))
    assert load_scenario(scenario_file).scheduler.max_num_seqs == 10
