"""How a checkpoint stores its weights: the `quantization_config` of the common tools in our own words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from servecast.configs.hf_config_fields import ConfigFields
from servecast.configs.hf_config_ignored import ignored_parts
from servecast.hardware.errors import did_you_mean
from servecast.model.architecture import Layer, Quantization

_IGNORED = (
    *("ignore", "ignored_layers", "modules_to_not_convert", "exclude_modules", "exclude", "modules_to_not_quantize"),
)
_KEYS = ("quantization_config", "compression_config")


def read_quantization(sections: tuple[ConfigFields, ...], layers: tuple[Layer, ...]) -> Quantization | None:
    """Of the innermost section that has one; None for a 16-bit checkpoint.

    Raises ConfigError for tools and bit widths that are not known.
    """
    for section in sections:
        config = section.section(*_KEYS)
        if config is not None and config.values:
            return _read(config, layers)
    return None


def _read(config: ConfigFields, layers: tuple[Layer, ...]) -> Quantization:
    inner = config.section("quantization") or config  # ModelOpt nests
    algorithm = inner.text("quant_algo")
    default = "modelopt" if algorithm else ""
    method = config.text("quant_method", default=default).lower().replace("compressed_tensors", "compressed-tensors")
    reader = _READERS.get(method)
    if reader is None:
        problem = f"{method!r} is not supported" if method else "is missing; it must name a way of quantisation"
        raise config.error("quant_method", problem, did_you_mean(method, _READERS))
    quantization = reader(inner)
    ignored = ignored_parts(inner, _ignore_list(inner), layers) | quantization.ignored
    return Quantization(quantization.dtype, quantization.group_size, ignored, _kv_cache_dtype(inner))


def _ignore_list(config: ConfigFields) -> list[str]:
    """All lists that a tool may write; null and empty ones count for nothing."""
    names: list[str] = []
    for key in _IGNORED:
        items = config.items(key)
        wrong = next((item for item in items if not isinstance(item, str)), None)
        if wrong is not None:
            raise config.error(key, f"must list names of modules, found {wrong!r}")
        names += items
    return names


def _kv_cache_dtype(config: ConfigFields) -> str | None:
    """FP8 where the checkpoint has scales for keys and values."""
    scheme = config.section("kv_cache_scheme") if isinstance(config.get("kv_cache_scheme"), dict) else None
    if scheme is not None and scheme.count("num_bits", default=16) == 8:
        return "fp8"
    algorithm = config.text("kv_cache_quant_algo")
    return "fp8" if "fp8" in algorithm.lower() else None


def _awq(config: ConfigFields) -> Quantization:
    _only_bits(config, "bits", "w_bit", allowed=(4,))
    return Quantization("awq", _group(config, "group_size", "q_group_size"))


def _gptq(config: ConfigFields) -> Quantization:
    bits = _only_bits(config, "bits", allowed=(4, 8))
    if bits == 8:
        return _weight_only_8(config)
    return Quantization("gptq", _group(config, "group_size"))


def _auto_round(config: ConfigFields) -> Quantization:
    bits = _only_bits(config, "bits", allowed=(4, 8))
    return _weight_only_8(config) if bits == 8 else Quantization("w4a16", _group(config, "group_size"))


def _fp8(config: ConfigFields) -> Quantization:
    """One scale a row, or one a square block of which the file states both sides."""
    block = config.items("weight_block_size")
    if not block:
        return Quantization("fp8")
    if len(block) != 2 or any(not isinstance(side, int) or side < 1 for side in block) or len(set(block)) != 1:
        raise config.error("weight_block_size", f"must be two equal numbers, found {block!r}")
    return Quantization("fp8", block[0])


def _mxfp4(_: ConfigFields) -> Quantization:
    """Only experts have kernels for it."""
    return Quantization("mxfp4", 32, frozenset({"attention", "mlp", "shared_experts"}))


def _modelopt(config: ConfigFields) -> Quantization:
    algorithm = config.text("quant_algo", default="FP8").upper()
    if algorithm == "NVFP4":
        return Quantization("nvfp4", _group(config, "group_size") or 16)
    if algorithm.startswith("FP8"):
        return Quantization("fp8")
    if algorithm.startswith("W4A16"):
        return Quantization("w4a16", _group(config, "group_size"))
    raise config.error("quant_algo", f"{algorithm!r} is not supported", "Supported: FP8, NVFP4, W4A16_AWQ")


def _compressed_tensors(config: ConfigFields) -> Quantization:
    """A scheme for each group of modules. With several, that of the experts or the MLP, where most weights are."""
    groups = config.section("config_groups")
    schemes = []
    for name in groups.values if groups is not None else ():
        group = groups.section(name) if groups is not None else None
        weights = None if group is None else group.section("weights")
        if group is not None and weights is not None:
            schemes.append((group, weights))
    if not schemes:
        raise config.error("config_groups", "has no group with a scheme for its weights")
    chosen = next((pair for pair in schemes if _is_for_mlp(pair[0])), schemes[0])
    found = {_scheme(config, *pair) for pair in schemes}
    quantization = _scheme(config, *chosen)
    if len(found) > 1:
        config.note(f"modules are quantised in {len(found)} ways; all are taken as {quantization.dtype}")
    return quantization


def _is_for_mlp(group: ConfigFields) -> bool:
    return any(word in str(target) for target in group.items("targets") for word in ("mlp", "expert"))


def _scheme(config: ConfigFields, group: ConfigFields, weights: ConfigFields) -> Quantization:
    bits, kind = weights.count("num_bits"), weights.text("type", default="int")
    size = _group(weights, "group_size")
    if (bits, kind) == (8, "float"):
        block = weights.items("block_structure")
        return Quantization("fp8", block[0] if block and isinstance(block[0], int) else None)
    if (bits, kind) == (8, "int"):
        return Quantization("int8") if group.find("input_activations") is not None else _weight_only_8(weights)
    if (bits, kind) == (4, "int"):
        return Quantization("w4a16", size)
    if (bits, kind) == (4, "float"):
        is_mx = "mxfp4" in config.text("format") or size == 32
        return Quantization("mxfp4" if is_mx else "nvfp4", size)
    raise weights.error("num_bits", f"{bits} bit {kind} is not supported", "Supported: 4 and 8, int and float")


def _weight_only_8(config: ConfigFields) -> Quantization:
    config.note("8-bit weights with 16-bit activations are taken as int8 with 8-bit activations")
    return Quantization("int8")


def _only_bits(config: ConfigFields, *names: str, allowed: tuple[int, ...]) -> int:
    bits = config.count(*names, default=4)
    if bits not in allowed:
        listed = " or ".join(map(str, allowed))
        raise config.error(config.find(*names) or names[0], f"{bits} bit is not supported", f"Supported: {listed}")
    return bits


def _group(config: ConfigFields, *names: str) -> int | None:
    """None also for -1, one scale a row."""
    name = config.find(*names)
    value: Any = config.get(*names)
    if name is None or value == -1:
        return None
    return config.count(name)


_READERS: Mapping[str, Callable[[ConfigFields], Quantization]] = {
    "awq": _awq,
    "awq_marlin": _awq,
    "gptq": _gptq,
    "gptq_marlin": _gptq,
    "auto-round": _auto_round,
    "fp8": _fp8,
    "fbgemm_fp8": _fp8,
    "compressed-tensors": _compressed_tensors,
    "mxfp4": _mxfp4,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
}
