"""From a sweep file to points, and what it says where they make no sense."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from servecast.configs.load import load_scenario
from servecast.hardware.errors import ConfigError
from servecast.sweeps.grid import Point, points
from servecast.sweeps.sweep_file import load_sweep, sweep_json_schema

WriteSweep = Callable[[str], Path]
BUDGETS = "axes:\n  scheduler.max_num_batched_tokens: [512, 2048]\n  replica.kv_pool_blocks: [1000, 4000]\n"


def grid(file: Path, *overrides: str) -> list[Point]:
    return points(load_sweep(file, overrides))


def test_a_point_for_each_combination(write_sweep: WriteSweep) -> None:
    found = grid(write_sweep(BUDGETS))
    assert [tuple(point.labels.values()) for point in found] == [(512, 1000), (512, 4000), (2048, 1000), (2048, 4000)]
    assert found[1].scenario.scheduler.max_num_batched_tokens == 512
    assert found[1].scenario.replica.kv_pool_blocks == 4000


def test_set_holds_for_all_and_the_command_line_goes_before_it(write_sweep: WriteSweep) -> None:
    file = write_sweep("set: {seed: 3, slo: 'ttft:500'}\n" + BUDGETS)
    assert {point.scenario.seed for point in grid(file)} == {3}
    assert {point.scenario.seed for point in grid(file, "seed=5")} == {5}


def test_a_scenario_may_stand_in_the_sweep_file(tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(
        "scenario:\n  model: llama-3.1-8b\n  workload: {arrivals: {process: batch}, lengths: {profile: 1k1k}}\n"
        "axes: {gpu: [l40s, h100]}\n"
    )
    assert [point.scenario.gpu for point in grid(file)] == ["l40s", "h100"]


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("max_num_batched_tokens < 1000 or kv_pool_blocks > 1000", 3),
        ("scheduler.max_num_batched_tokens == 512", 2),
        ("[kv_pool_blocks > 1000, max_num_batched_tokens == 512]", 1),
        ("replica.tensor_parallel_size == 1", 4),
    ],
)
def test_filters(write_sweep: WriteSweep, where: str, left: int) -> None:
    assert len(grid(write_sweep(f"where: {where}\n{BUDGETS}"))) == left


def test_a_filter_may_leave_out_what_makes_no_sense(write_sweep: WriteSweep) -> None:
    text = "axes:\n  scheduler.policy: [fcfs, edf]\n  slo: [null, 'ttft:500']\n"
    with pytest.raises(ConfigError, match="needs a limit of ttft or e2el"):
        grid(write_sweep(text))
    assert len(grid(write_sweep(text + "where: policy != 'edf' or slo != null\n"))) == 3


def test_replicates_are_seeds(write_sweep: WriteSweep) -> None:
    (point, *_) = grid(write_sweep("replicates: 3\n" + BUDGETS))
    runs = point.replicates(3)
    assert [run.labels["seed"] for run in runs] == [0, 1, 2]
    assert [run.task.content["seed"] for run in runs] == [0, 1, 2]
    assert len({run.task.key for run in runs}) == 3


def test_paths_in_a_sweep_are_relative_to_it(write_sweep: WriteSweep, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,10,5\n")
    (point,) = grid(write_sweep("axes:\n  workload.arrivals: [{process: trace, path: t.csv}]\n"))
    assert point.replicates(1)[0].task.content["workload"]["arrivals"]["path"] == str((tmp_path / "t.csv").resolve())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("axes:\n  scheduler.max_num_seq: [1]", r"sweep.yaml:3: scheduler.max_num_seq: unknown key. Did you mean"),
        ("axes:\n  seed:\n  - 1\n  - two", r"sweep.yaml:5: seed: must be a whole number, found the text 'two'"),
        ("axes:\n  gpu: [h100, h1000]", r"sweep.yaml:3: gpu: unknown GPU 'h1000'"),
        ("axes:\n  seed: {from: 1, to: 2, step: 0.5}", r"found 1.5. A range gives whole numbers with whole: true"),
        ("axes: {seed: [1]}\nset: {gpu: h1000}", r"sweep.yaml:3: gpu: unknown GPU"),
        ("axes: {seed: [1]}\nset: {seed.x: 1}", r"sweep.yaml:3: seed.x: is varied by axis 'seed'"),
        ("axes: {seed: [1]}\nwhere: sed > 1", r"sweep.yaml:3: where: unknown name 'sed' .* Did you mean 'seed'"),
        ("axes: {seed: [1]}\nwhere: 1 / 0 > 1", r"where: '1 / 0 > 1' has no value: "),
        ("axes: {seed: [1]}\nwhere: seed > 1", r"where: leaves none of the 1 points"),
        ("axes: {seed: [1]}\nwhere: open('x')", r"where: \"open\('x'\)\" is not allowed"),
        ("axes: {seed: [1]}\nreplicates: 2", r"replicates: and an axis both vary the seed"),
        ("axes: {seed: [1]}\nreplicates: 0", r"replicates: must be 1 or more, found 0"),
        ("axis: {seed: [1]}", r"sweep.yaml:2: axis: unknown key. Did you mean 'axes'"),
        ("axes: {}", r"axes: must be a section with keys, found an empty one"),
        ("seed: 1", r"axes: is missing"),
        ("axes: {seed: [1]}\nmetrics: 99", r"metrics: must be a list of figures, or figures by column, found 99"),
        ("axes: {seed: [1]}\nderive: 99", r"derive: must be a section with keys, found 99"),
        ("axes: {seed: [1]}\nderive: {a: 'b +'}", r"derive: 'b \+' is no expression"),
        ("axes: {seed: [1]}\nfigure: {kind: pie}", r"figure.kind: must be lines or heat_map, found the text 'pie'"),
    ],
)
def test_what_is_wrong_is_one_message(write_sweep: WriteSweep, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        grid(write_sweep(text))


def test_a_scenario_is_no_sweep_and_a_sweep_no_scenario(write_sweep: WriteSweep, tmp_path: Path) -> None:
    file = write_sweep("axes: {seed: [1]}")
    with pytest.raises(ConfigError, match=r"small.yaml: is a scenario, not a sweep. servecast run simulates it"):
        load_sweep(tmp_path / "small.yaml")
    with pytest.raises(ConfigError, match=r"sweep.yaml: is no scenario but a file about one. servecast sweep runs"):
        load_scenario(file)


def test_an_error_in_the_scenario_names_its_file(write_sweep: WriteSweep, tmp_path: Path) -> None:
    file = write_sweep("axes: {seed: [1]}")
    (tmp_path / "small.yaml").write_text("model: llama-3.1-8b\ngpus: h100\n")
    with pytest.raises(ConfigError, match=r"small.yaml:2: gpus: unknown key"):
        grid(file)
    (tmp_path / "small.yaml").unlink()
    with pytest.raises(ConfigError, match=r"sweep.yaml:1: scenario: no such file: .*small.yaml"):
        grid(file)


def test_an_axis_is_not_fixed_from_the_command_line(write_sweep: WriteSweep) -> None:
    with pytest.raises(ConfigError, match=r"--set seed=3: is varied by axis 'seed' of .*sweep.yaml"):
        grid(write_sweep("axes: {seed: [1]}"), "seed=3")


def test_too_many_points_are_refused_at_once(write_sweep: WriteSweep) -> None:
    axes = "axes:\n  seed: {from: 0, to: 9000, step: 1}\n  scheduler.max_num_seqs: {from: 1, to: 9000, step: 1}\n"
    with pytest.raises(ConfigError, match=r"axes: make 81,009,000 simulations; at most 100,000"):
        grid(write_sweep(axes))


def test_the_schema_knows_every_key() -> None:
    schema = sweep_json_schema()
    assert schema["required"] == ["scenario", "axes"]
    assert {"axes", "where", "replicates", "metrics", "derive", "figure", "set"} < set(schema["properties"])
    assert all("description" in schema["properties"][key] for key in schema["properties"])
