"""Later stages name the file and line of a key, or the override that set it."""

from __future__ import annotations

from pathlib import Path

from servecast.configs.load import load_scenario
from servecast.configs.origin import Origin
from servecast.hardware.errors import ConfigError


def test_later_stages_can_name_file_and_line_of_a_key(scenario_file: Path) -> None:
    scenario = load_scenario(scenario_file, ["gpu=h1000"])

    assert str(scenario.origin.error("model", "unknown model")) == f"{scenario_file}:1: model: unknown model"
    assert str(scenario.origin.error("gpu", "unknown GPU", "Valid: ...")) == "--set gpu=h1000: unknown GPU. Valid: ..."


def test_an_error_from_below_gets_its_place(scenario_file: Path) -> None:
    origin = load_scenario(scenario_file).origin
    bare = ConfigError("must divide the heads", key="dtype")

    assert str(origin.locate(bare, "replica")) == f"{scenario_file}:4: replica.dtype: must divide the heads"
    assert str(origin.locate(ConfigError("is wrong", key="replica.dtype"), "replica")).endswith(
        "4: replica.dtype: is wrong"
    )
    assert str(origin.locate(ConfigError("unknown model"), "model")) == f"{scenario_file}:1: model: unknown model"
    placed = ConfigError("no such file", file="trace.csv")
    assert origin.locate(placed, "workload") is placed


def test_paths_are_relative_to_what_names_them(scenario_file: Path) -> None:
    origin = load_scenario(scenario_file, ["gpu=mine.yaml"]).origin

    assert origin.resolve("model", "config.json") == scenario_file.parent / "config.json"
    assert origin.resolve("gpu", "mine.yaml") == Path("mine.yaml")
    assert origin.resolve("model", "/a/config.json") == Path("/a/config.json")
    assert Origin().resolve("model", "config.json") == Path("config.json")
