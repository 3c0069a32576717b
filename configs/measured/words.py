"""What the words of a measured table mean here: engine versions and number formats."""

from __future__ import annotations

import re

from servecast.hardware.engines import engine_keys
from servecast.hardware.errors import ConfigError, did_you_mean

# Number formats as tables spell them, in lower case -> (weights, KV cache).
_PRECISIONS = {
    "": ("bfloat16", "auto"),
    "bf16": ("bfloat16", "auto"),
    "bfloat16": ("bfloat16", "auto"),
    "fp16": ("float16", "auto"),
    "float16": ("float16", "auto"),
    "fp16/fp16": ("float16", "auto"),
    "weight = fp16, kv cache = fp16": ("float16", "auto"),
    "weight = fp16, kv cache = fp8": ("float16", "fp8"),
    "weight = fp8, kv cache = fp8": ("fp8", "fp8"),
    "bf16 kv=fp8": ("bfloat16", "fp8"),
    "fp8 (w+a+kv)": ("fp8", "fp8"),
    "fp8": ("fp8", "auto"),
    "int8": ("int8", "auto"),
    "fp4": ("nvfp4", "auto"),
    "nvfp4": ("nvfp4", "auto"),
    "mxfp4": ("mxfp4", "auto"),
    "w4a16": ("w4a16", "auto"),
    "awq": ("awq", "auto"),
    "gptq": ("gptq", "auto"),
}
_ENGINES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "trtllm", "tensorrt-llm": "trtllm"}
_VERSION = re.compile(r"(\d+)\.(\d+)")
_REMARK = re.compile(r"\s*\(.*\)\s*$")


def without_remark(name: str) -> str:
    """`H100-80GB (inferred)` -> `H100-80GB`."""
    return _REMARK.sub("", name)


def precision_settings(words: str) -> dict[str, str]:
    """`dtype` and `kv_cache_dtype` of a replica. Raises ConfigError for words that are not known."""
    known = _PRECISIONS.get(words.lower())
    if known is None:
        named = [name for name in _PRECISIONS if name]
        raise ConfigError(f"unknown number format {words!r}", key="precision", hint=did_you_mean(words, named))
    return {"dtype": known[0], "kv_cache_dtype": known[1]}


def engine_profile(engine: str, version: str) -> str | None:
    """The profile of the newest version that is not above the one stated; the oldest if all are above it.

    None where the version is not stated. Raises ConfigError for an engine that is not known.
    """
    key = engine.lower()
    if key in engine_keys():
        return key
    name = _ENGINES.get(key)
    if name is None:
        raise ConfigError(f"unknown engine {engine!r}", key="engine", hint=did_you_mean(engine, _ENGINES))
    stated = _release(version)
    if stated is None:
        return None
    profiles = sorted((_release(key) or (0, 0), key) for key in engine_keys() if key.startswith(f"{name}-"))
    reached = [key for release, key in profiles if release <= stated]
    return reached[-1] if reached else profiles[0][1]


def _release(text: str) -> tuple[int, int] | None:
    found = _VERSION.search(text)
    return None if found is None else (int(found.group(1)), int(found.group(2)))
