"""Names that people give to one and the same model: with an organisation, a variant, a way of storing the weights."""

from __future__ import annotations

import re
from collections.abc import Iterator

from servecast.hardware.catalogue import normalised

# Words of a checkpoint's name that change its training, not its shapes.
_VARIANT = re.compile(r"-(?:instruct|chat|it|pt|hf|base)(?=-|$)")

# What a name ends in when the weights are quantised, and the dtype that it means.
_WEIGHTS = {
    "fp8": "fp8",
    "w8a8": "int8",
    "w4a16": "w4a16",
    "awq": "awq",
    "gptq": "gptq",
    "nvfp4": "nvfp4",
    "mxfp4": "mxfp4",
}
_WEIGHTS_ENDING = re.compile(rf"-(?:quantized\.)?({'|'.join(_WEIGHTS)})(?:-(?:dynamic|block|int4|4bit))?$")


def spellings(name: str) -> Iterator[str]:
    """`name` as written, then without its organisation, then without what marks a variant; in lower case."""
    yield (short := normalised(name).rpartition("/")[2])
    yield (plain := _VARIANT.sub("", short))
    yield plain.removeprefix("meta-")


def split_weights(name: str) -> tuple[str, str | None]:
    """`name` without an ending such as `-FP8-dynamic` or `-quantized.w4a16`, and the weights dtype that it means."""
    short = normalised(name).rpartition("/")[2]
    found = _WEIGHTS_ENDING.search(short)
    return (short, None) if found is None else (short[: found.start()], _WEIGHTS[found.group(1)])
