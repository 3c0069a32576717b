"""Engine versions and number formats as tables spell them."""

from __future__ import annotations

import pytest

from servecast.configs.measured.words import engine_profile, precision_settings, without_remark
from servecast.hardware.errors import ConfigError


@pytest.mark.parametrize(
    ("engine", "version", "profile"),
    [
        ("vllm", "0.12.0", "vllm-0.12"),
        ("vLLM", "0.16.3rc1", "vllm-0.15"),
        ("vllm", "0.8.5", "vllm-0.10"),
        ("tensorrt-llm", "1.2.0rc6.post1", "trtllm-1.0"),
        ("sglang", "0.5.1.post1", "sglang-0.5"),
        ("vllm-0.15", "", "vllm-0.15"),
        ("vllm", "2024-mid", None),
    ],
)
def test_the_profile_is_the_newest_that_is_not_newer(engine: str, version: str, profile: str | None) -> None:
    assert engine_profile(engine, version) == profile


def test_an_unknown_engine_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'vllm'"):
        engine_profile("vlm", "0.1")


def test_number_formats() -> None:
    assert precision_settings("") == {"dtype": "bfloat16", "kv_cache_dtype": "auto"}
    assert precision_settings("FP8 (w+a+kv)") == {"dtype": "fp8", "kv_cache_dtype": "fp8"}


def test_remarks_are_not_part_of_a_name() -> None:
    assert without_remark("H100-80GB (JLSE; SXM inferred)") == "H100-80GB"
