"""Every way to write an axis, and what is wrong with others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from servecast.hardware.errors import ConfigError
from servecast.hardware.yaml_fields import Fields
from servecast.hardware.yaml_source import parse_yaml
from servecast.sweeps.axes import combinations, read_axes


def labels(text: str) -> list[dict[str, Any]]:
    source = parse_yaml(text, Path("sweep.yaml"))
    axes = read_axes(Fields.of_file(source, "axes"))
    return [dict(combination.labels) for combination in combinations(axes)]


def values(text: str) -> list[Any]:
    return [next(iter(row.values())) for row in labels(text)]


def test_every_combination_the_last_axis_fastest() -> None:
    assert labels("gpu: [l40s, h100]\nscheduler.max_num_seqs: [8, 16]") == [
        {"gpu": "l40s", "max_num_seqs": 8},
        {"gpu": "l40s", "max_num_seqs": 16},
        {"gpu": "h100", "max_num_seqs": 8},
        {"gpu": "h100", "max_num_seqs": 16},
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("seed: {from: 1, to: 4, step: 1}", [1, 2, 3, 4]),
        ("seed: {from: 0, to: 5, step: 2}", [0, 2, 4]),
        ("rate: {from: 0.1, to: 0.4, step: 0.1}", [0.1, 0.2, 0.3, 0.4]),
        ("rate: {from: 1, to: 2, points: 5}", [1, 1.25, 1.5, 1.75, 2]),
        ("tokens: {from: 256, to: 8192, points: 6, log: true}", [256, 512, 1024, 2048, 4096, 8192]),
        ("rate: {from: 1, to: 10, points: 3, log: true}", [1, 3.16227766017, 10]),
        ("blocks: {from: 1, to: 10, points: 3, log: true, whole: true}", [1, 3, 10]),
        ("replica.dtype: [fp8, null]", ["fp8", None]),
        ("scheduler.admission: [none, {max_queue: 5}]", ["none", "{max_queue: 5}"]),
    ],
)
def test_values(text: str, expected: list[Any]) -> None:
    assert values(text) == expected


def test_whole_numbers_stay_whole() -> None:
    assert all(isinstance(value, int) for value in values("seed: {from: 1, to: 4, step: 1}"))


def test_zipped_axes_move_together() -> None:
    text = "layout: {zip: {gpu: [l40s, h100], replica.tensor_parallel_size: [4, 1]}}\nseed: [0, 1]"
    assert labels(text)[1:3] == [
        {"gpu": "l40s", "tensor_parallel_size": 4, "seed": 1},
        {"gpu": "h100", "tensor_parallel_size": 1, "seed": 0},
    ]


def test_cases_have_names() -> None:
    source = parse_yaml("traffic: {cases: {chat: {slo: 'ttft:500', seed: 3}, none: {}}}", Path("sweep.yaml"))
    chat, none = combinations(read_axes(Fields.of_file(source, "axes")))
    assert (chat.labels, none.labels) == ({"traffic": "chat"}, {"traffic": "none"})
    assert [(change.path, change.value) for change in chat.changes] == [(("slo",), "ttft:500"), (("seed",), 3)]
    assert none.changes == []


def test_columns_are_whole_keys_where_the_last_words_are_alike() -> None:
    text = "workload.lengths.prompt.value: [1]\nworkload.lengths.output.value: [2]\nseed: [3]"
    assert list(labels(text)[0]) == ["workload.lengths.prompt.value", "workload.lengths.output.value", "seed"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("seed: []", r"sweep.yaml:1: seed: must be a list of values, found an empty list"),
        ("seed: 3", r"seed: must be the values of an axis, found 3. Write a list"),
        ("seed: [1, 2, 1]", r"seed: holds 1 twice"),
        ("seed: {from: 1, to: 3}", r"seed.step: either step or points must be given"),
        ("seed: {from: 1, to: 3, step: 1, points: 2}", r"seed.step: either step or points"),
        ("seed: {from: 3, to: 1, step: 1}", r"seed.to: must be above from, which is 3, found 1"),
        ("seed: {from: 1, to: 3, steps: 1}", r"seed.steps: unknown key. Did you mean 'step'"),
        ("seed: {from: 0, to: 3, points: 3, log: true}", r"seed.from: must be above 0 for a range with log"),
        ("seed: {from: 1, to: 3, step: 1, log: true}", r"seed.log: belongs to points"),
        ("seed: {from: 1, to: 1.0e+9, step: 1}", r"seed.step: makes 1,000,000,000 values; at most 10,000"),
        ("seed: {from: 1, to: 9, points: 1}", r"seed.points: must be from 2 to 10000, found 1"),
        ("a: {zip: {seed: [1, 2], gpu: [l40s]}}", r"a.zip: must hold lists of one length, found 2 of seed, 1 of gpu"),
        ("a: {zip: {seed: 1}}", r"a.zip.seed: must be a list of values, found 1"),
        ("a: {zip: {}}", r"a.zip: must hold keys with values"),
        ("a: {cases: {}}", r"a.cases: must hold labels"),
        ("a: {cases: {x: 3}}", r"a.cases.x: must hold keys of its own, found 3"),
        ("a b: {cases: {x: {seed: 1}}}", r"the name of their axis is a column: letters, digits and _, found 'a b'"),
        ("a: {case: {x: {seed: 1}}}", r"a: must be the values of an axis, found a mapping"),
        ("seed: [1]\na: {cases: {x: {seed: 2}}}", r"sweep.yaml:2: a: changes seed, which axis 'seed' changes too"),
        ("a.b: [1]\na: [{}]", r"a: changes a, which axis 'a.b' changes too. Put them into one axis"),
    ],
)
def test_what_is_no_axis(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        labels(text)
