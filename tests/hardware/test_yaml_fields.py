"""Typed fields of a YAML mapping: right values come back, wrong ones are named with their line."""

from __future__ import annotations

from pathlib import Path

import pytest

from servecast.hardware.errors import ConfigError
from servecast.hardware.yaml_fields import Fields
from servecast.hardware.yaml_source import parse_yaml


def fields_of(text: str) -> Fields:
    return Fields.of_file(parse_yaml(text, Path("gpu.yaml")), "a GPU")


def test_right_values_come_back_typed() -> None:
    fields = fields_of("size: 80\nsms: 132\nlink: {name: NVLink4}\ntags: [a, b]\nfast: true\nempty:\n")

    assert fields.number("size") == 80.0
    assert fields.count("sms") == 132
    assert fields.section("link").text("name") == "NVLink4"
    assert fields.texts("tags") == ("a", "b")
    assert fields.flag("fast") is True
    assert not fields.has("empty")
    assert fields.text("empty", "none") == "none"
    assert fields.texts("absent") == ()
    assert fields.text_map("absent") == {}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("-3", "must be a number above 0, found -3"),
        ("0", "must be a number above 0, found 0"),
        (".nan", "must be a number above 0, found nan"),
        (".inf", "must be a number above 0, found inf"),
        ("true", "must be a number above 0, found True"),
        ("80 GB", "must be a number above 0, found '80 GB'"),
        ("1e12", "found '1e12'. Write powers of ten with a decimal point"),
        ("", "is missing; it must be a number above 0"),
    ],
)
def test_wrong_numbers_are_named_with_line_and_dotted_key(value: str, words: str) -> None:
    fields = fields_of(f"name: x\nlink:\n  speed: {value}\n").section("link")

    with pytest.raises(ConfigError) as caught:
        fields.number("speed")

    assert str(caught.value).startswith("gpu.yaml:3: link.speed: ")
    assert words in str(caught.value)


def test_zero_can_be_allowed() -> None:
    assert fields_of("t0: 0.0").number("t0", zero=True) == 0.0


def test_unquoted_version_number_is_answered_with_quotes() -> None:
    with pytest.raises(ConfigError, match=r'Put it in quotes: "0\.19"'):
        fields_of("version: 0.19").text("version")


@pytest.mark.parametrize("wrong", ["1.5", "0", "many", "true"])
def test_count_takes_whole_numbers_from_one(wrong: str) -> None:
    with pytest.raises(ConfigError, match="must be a whole number, 1 or more"):
        fields_of(f"sms: {wrong}").count("sms")


def test_other_types_name_what_would_be_right() -> None:
    fields = fields_of("fast: maybe\ntags: h100\nlink: fast\n")

    with pytest.raises(ConfigError, match="must be true or false, found 'maybe'"):
        fields.flag("fast")
    with pytest.raises(ConfigError, match=r"must be a list of names, as \[first, second\], found 'h100'"):
        fields.texts("tags")
    with pytest.raises(ConfigError, match="must hold keys of its own, found 'fast'"):
        fields.section("link")


def test_unknown_key_is_answered_with_a_near_miss() -> None:
    with pytest.raises(ConfigError, match=r"gpu.yaml:2: memry: unknown key. Did you mean 'memory'"):
        fields_of("name: x\nmemry: 80\n").only(("name", "memory"))


def test_file_without_keys_is_refused() -> None:
    with pytest.raises(ConfigError, match="must hold the fields of a GPU"):
        fields_of("- a\n- b\n")
