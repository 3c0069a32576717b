"""Keys of results: the same for what gives the same, another for everything that may change it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from servecast.configs.load import load_scenario
from servecast.sweeps import fingerprint
from servecast.sweeps.fingerprint import scenario_files, scenario_key

CONFIGS = Path(__file__).parents[2] / "configs"
QUICKSTART = CONFIGS / "quickstart.yaml"


def test_name_and_spelling_do_not_count() -> None:
    key = scenario_key(load_scenario(QUICKSTART))
    assert scenario_key(load_scenario(QUICKSTART, ["name=other"])) == key
    assert scenario_key(load_scenario(QUICKSTART, ["scheduler.max_num_seqs=256"])) == key


@pytest.mark.parametrize("change", ["seed=1", "gpu=h200-sxm", "scheduler.max_num_seqs=64", "slo=ttft:p50<=1s"])
def test_every_setting_counts(change: str) -> None:
    assert scenario_key(load_scenario(QUICKSTART, [change])) != scenario_key(load_scenario(QUICKSTART))


def test_the_content_of_a_named_file_counts(tmp_path: Path) -> None:
    for name in ("trace-replay.yaml", "trace-replay.csv"):
        shutil.copy(CONFIGS / name, tmp_path)
    scenario = load_scenario(tmp_path / "trace-replay.yaml")
    before = scenario_key(scenario)
    trace = tmp_path / "trace-replay.csv"
    assert scenario_files(scenario) == [trace]
    trace.write_text(trace.read_text() + "99999,10,10\n")
    assert scenario_key(scenario) != before


def test_files_of_an_engine_and_a_policy_of_ones_own_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "h100-sxm.yaml").touch()
    (tmp_path / "mine.yaml").write_text("kernels_folder: kernels\n")
    (tmp_path / "my_policy.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    scenario = load_scenario(QUICKSTART, [f"engine={tmp_path}/mine.yaml", "scheduler.policy=my_policy:Mine"])
    names = [file.name for file in scenario_files(scenario)]
    assert sorted(names) == ["h100-sxm.yaml", "mine.yaml", "my_policy.py"]


def test_another_program_gives_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = scenario_key(load_scenario(QUICKSTART))
    monkeypatch.setattr(fingerprint, "program_digest", lambda: "a changed coefficient")
    assert scenario_key(load_scenario(QUICKSTART)) != before


def test_the_program_includes_catalogue_and_coefficients_but_no_examples() -> None:
    hardware = CONFIGS.parent / "hardware"
    assert hardware / "h100-sxm.yaml" in set(fingerprint._files_of(hardware))
    assert any(file.parent.name == "kernels" for file in fingerprint._files_of(hardware))
    configs = set(fingerprint._files_of(CONFIGS))
    assert QUICKSTART not in configs
    assert CONFIGS / "profiles" / "1k1k.yaml" in configs
