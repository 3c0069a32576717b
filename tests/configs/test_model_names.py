"""How names of checkpoints come apart."""

from __future__ import annotations

import pytest

from servecast.configs.model_names import spellings, split_weights


def test_names_lose_organisation_and_variant() -> None:
    assert list(spellings("meta-llama/Meta-Llama-3.1-8B-Instruct")) == [
        "meta-llama-3.1-8b-instruct",
        "meta-llama-3.1-8b",
        "llama-3.1-8b",
    ]
    assert list(spellings("mistralai/Mistral-7B-Instruct-v0.3"))[-1] == "mistral-7b-v0.3"


def test_variants_are_whole_words() -> None:
    assert list(spellings("org/ChatGLM-Italy-6b"))[-1] == "chatglm-italy-6b"


@pytest.mark.parametrize(
    ("name", "base", "dtype"),
    [
        ("org/X-7B-Instruct-FP8-dynamic", "x-7b-instruct", "fp8"),
        ("X-7B-quantized.w4a16", "x-7b", "w4a16"),
        ("X-7B-AWQ-4bit", "x-7b", "awq"),
        ("X-7B-NVFP4", "x-7b", "nvfp4"),
        ("X-7B", "x-7b", None),
        ("X-7B-bnb-4bit", "x-7b-bnb-4bit", None),
        ("X-fp8-trained-7B", "x-fp8-trained-7b", None),
    ],
)
def test_the_ending_says_how_weights_are_stored(name: str, base: str, dtype: str | None) -> None:
    assert split_weights(name) == (base, dtype)
