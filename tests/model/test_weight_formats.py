"""Formats of weights that a GPU lacks: priced by what its kernels do instead, with a caveat, or refused."""

from __future__ import annotations

import pytest

from builders import llama_8b
from servecast.configs.architectures import load_architecture
from servecast.hardware.errors import ConfigError
from servecast.hardware.gpus import load_gpu
from servecast.model.weight_formats import check_format, format_caveats


def caveats(dtype: str, gpu: str, model: str | None = None) -> str:
    return " ".join(format_caveats(load_architecture(model) if model else llama_8b(), dtype, load_gpu(gpu)))


def test_native_formats_need_no_word() -> None:
    assert caveats("bfloat16", "h100-sxm") == ""
    assert caveats("fp8", "h100-sxm") == ""
    assert caveats("nvfp4", "b200-sxm") == ""
    assert caveats("bfloat16", "h100-sxm", "gpt-oss-120b") == ""


def test_fp8_is_unpacked_on_ampere() -> None:
    assert "A100" in caveats("fp8", "a100-80gb-sxm")
    assert "does not multiply in fp8" in caveats("fp8", "a100-80gb-sxm")
    assert "does not multiply in fp8" in caveats("bfloat16", "a100-80gb-sxm", "deepseek-v3")


def test_weight_only_formats_are_not_measured_anywhere() -> None:
    assert "Matrices in awq" in caveats("awq", "h100-sxm")


def test_turing_serves_bfloat16_models_in_float16() -> None:
    assert "no bfloat16" in caveats("bfloat16", "t4")
    assert caveats("float16", "t4") == ""


def test_nvfp4_is_nvidias() -> None:
    check_format(llama_8b(), "nvfp4", load_gpu("h100-sxm"))
    with pytest.raises(ConfigError, match="no engine serves nvfp4 weights on AMD Instinct MI300X"):
        check_format(llama_8b(), "nvfp4", load_gpu("mi300x"))
