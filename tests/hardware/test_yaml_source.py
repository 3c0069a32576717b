"""Reading YAML with the line of every key; broken files answered with one message."""

from __future__ import annotations

from pathlib import Path

import pytest

from servecast.hardware.errors import ConfigError
from servecast.hardware.yaml_source import parse_yaml, read_yaml

FILE = Path("scenario.yaml")


def test_data_is_plain_python() -> None:
    source = parse_yaml("gpu: h100-sxm\nrates: [1, 2.5]\nreplica: {dtype: fp8, swap: true}\n", FILE)

    assert source.data == {"gpu": "h100-sxm", "rates": [1, 2.5], "replica": {"dtype": "fp8", "swap": True}}


def test_every_key_and_list_item_has_its_line() -> None:
    source = parse_yaml("replica:\n  dtype: fp8\ngpus:\n  - a40\n  - l4\n", FILE)

    assert source.line(("replica",)) == 1
    assert source.line(("replica", "dtype")) == 2
    assert source.line(("gpus", 1)) == 5


def test_a_missing_key_has_the_line_of_its_parent() -> None:
    source = parse_yaml("name: x\nreplica:\n  dtype: fp8\n", FILE)

    assert source.line(("replica", "block_size")) == 2
    assert source.line(("workload", "seed")) == 1


def test_empty_file_is_no_data() -> None:
    assert parse_yaml("", FILE).data is None


def test_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    file = tmp_path / "bom.yaml"
    file.write_bytes(b"\xef\xbb\xbfname: x\n")

    assert read_yaml(file).data == {"name": "x"}


def test_anchors_merge() -> None:
    source = parse_yaml("base: &b {a: 1, b: 2}\nnext:\n  <<: *b\n  c: 3\n", FILE)

    assert source.data["next"] == {"a": 1, "b": 2, "c": 3}


def test_own_keys_override_merged_ones() -> None:
    source = parse_yaml("base: &b {a: 1, b: 2}\nnext:\n  <<: *b\n  b: 3\n", FILE)

    assert source.data["next"] == {"a": 1, "b": 3}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: [1, 2\n", 3, "broken YAML"),
        ("a: 1\n\tb: 2\n", 2, "broken YAML"),
        ("a: 1\nb: 2\na: 3\n", 3, "stands twice"),
        ("a: 1\n? [x, y]\n: 2\n", 2, "must be a word"),
        ("a: 1\nb: !!python/name:os.system\n", 2, "broken YAML"),
    ],
)
def test_wrong_text_is_one_message_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        parse_yaml(text, FILE)

    assert (caught.value.file, caught.value.line) == (FILE, line)


def test_missing_file_folder_and_binary_file(tmp_path: Path) -> None:
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00\x80")

    with pytest.raises(ConfigError, match="no such file"):
        read_yaml(tmp_path / "absent.yaml")
    with pytest.raises(ConfigError, match="is a folder"):
        read_yaml(tmp_path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_yaml(binary)


def told(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, FILE)
    return str(caught.value)


def test_aliases_that_multiply_are_refused() -> None:
    """Ten lines that ask for ten billion values."""
    lines = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 11)]
    assert "aliases (*name) repeat more than 10,000 lists" in told("\n".join(lines))


def test_merges_that_multiply_are_refused() -> None:
    lines = ["a0: &a0 {x: 1}"] + [f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}" for i in range(1, 40)]
    assert "merges (<<) make more than 10,000 keys" in told("\n".join(lines))


def test_plain_aliases_are_fine() -> None:
    assert parse_yaml("a: &a [1, 2]\nb: [*a, *a]\n", FILE).data["b"] == [[1, 2], [1, 2]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x\nstart: 2023-13-45\n", "scenario.yaml:2: broken YAML: month must be in 1..12"),
        ("name: x\na: &a [1, *a]\n", "scenario.yaml:2: broken YAML: an anchor that holds itself"),
        ("name: x\nb: \x07\n", "scenario.yaml:2: broken YAML"),
        ("n: 1:30\n", 'scenario.yaml:1: 1:30 is a number to base 60 in YAML (90). Write 90, or "1:30" if it is text'),
        ("x: 1\n? [1, 2]\n: 3\n", "scenario.yaml:2: a key must be a word, found a list"),
        ("null: 1\n", "scenario.yaml:1: a key must be a word, found nothing"),
    ],
)
def test_what_cannot_be_read_has_its_line(text: str, message: str) -> None:
    assert message in told(text)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text("x: 1")
    first = read_yaml(file)
    assert read_yaml(file) is first
    file.write_text("x: 2")
    assert read_yaml(file).data == {"x": 2}
