"""Which parts of a model an ignore list leaves at 16 bit: lists name modules, of which there are thousands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from servecast.configs.hf_config_fields import ConfigFields
from servecast.model.architecture import LatentAttention, Layer, MoeMlp

_GQA = ("q_proj", "k_proj", "v_proj", "o_proj")
_MLA = ("q_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj")
_MLA_WITH_QUERY_RANK = ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj")
_MLP = ("gate_proj", "up_proj", "down_proj")

# Names that a part goes by inside a layer. One expert stands for all.
_MLP_NAMES = ("mlp", "feed_forward", "block_sparse_moe")
_NAMES = {
    "attention": ("self_attn", "attention", "attn"),
    "mlp": _MLP_NAMES,
    "experts": tuple(f"{name}.experts.0" for name in _MLP_NAMES),
    "shared_experts": tuple(
        f"{name}.{shared}" for name in _MLP_NAMES for shared in ("shared_experts", "shared_expert")
    ),
}
# Patterns are written for whole paths, of which the beginning differs between models.
_PREFIXES = ("model.", "language_model.model.", "model.language_model.", "language_model.", "")

# Entries about other parts, whose paths may look like those of a layer.
_ELSEWHERE = ("vision", "visual", "audio", "projector", "mtp", "lm_head", "embed")

_MOSTLY = 0.5


def ignored_parts(config: ConfigFields, entries: list[str], layers: tuple[Layer, ...]) -> frozenset[str]:
    """Parts, in the words of `Quantization.ignored`, of which the list spares more than half of the matrices.

    Parts that are spared in some layers only get a note, as they are treated as one.
    """
    if not entries:
        return frozenset()
    matcher = _Matcher(config, entries)
    ignored = set()
    for part in _NAMES:
        share = _share(matcher, part, layers)
        if share > _MOSTLY:
            ignored.add(part)
        if 0 < share < 1:
            kept = "16 bit" if share > _MOSTLY else "quantised"
            words = part.replace("_", " ")
            config.note(f"the ignore list spares {share:.0%} of the {words} matrices; all are taken as {kept}")
    return frozenset(ignored)


class _Matcher:
    """Tells whether any entry covers a module: by name, by a part of its path, by wildcard, by `re:` pattern."""

    def __init__(self, config: ConfigFields, entries: list[str]) -> None:
        own = [entry for entry in entries if not any(word in entry for word in _ELSEWHERE)]
        self._patterns = [_compiled(config, entry[3:]) for entry in own if entry.startswith("re:")]
        plain = [_from_layers(entry) for entry in own if not entry.startswith("re:")]
        self._wild = [entry for entry in plain if "*" in entry]
        self._paths = {entry for entry in plain if "*" not in entry and entry.startswith("layers.")}
        self._inside = [f".{entry}." for entry in plain if "*" not in entry and not entry.startswith("layers.")]

    def covers(self, module: str) -> bool:
        """`module`: its path from `layers.` on."""
        if any(path in self._paths for path in _parents(module)):
            return True
        if any(inside in f".{module}." for inside in self._inside):
            return True
        if any(fnmatchcase(path, entry) for entry in self._wild for path in _parents(module)):
            return True
        return any(pattern.match(prefix + module) for pattern in self._patterns for prefix in _PREFIXES)


def _share(matcher: _Matcher, part: str, layers: tuple[Layer, ...]) -> float:
    """Share of the part's matrices that are covered, under the name by which most are."""
    best = 0.0
    for name in _NAMES[part]:
        modules = [f"layers.{i}.{name}.{matrix}" for i, layer in enumerate(layers) for matrix in _matrices(part, layer)]
        if modules:
            best = max(best, sum(map(matcher.covers, modules)) / len(modules))
    return best


def _matrices(part: str, layer: Layer) -> tuple[str, ...]:
    """Names of the matrices of `part`; none if the layer has no such part."""
    mlp = layer.mlp
    if part == "attention":
        if not isinstance(layer.attention, LatentAttention):
            return _GQA
        return _MLA if layer.attention.q_lora_rank is None else _MLA_WITH_QUERY_RANK
    if isinstance(mlp, MoeMlp):
        return _MLP if part == "experts" or (part == "shared_experts" and mlp.shared_intermediate_size) else ()
    return _MLP if part == "mlp" else ()


def _from_layers(entry: str) -> str:
    """The entry without what stands before `layers.`, which differs between models."""
    start = entry.find("layers.")
    return entry[start:] if start >= 0 else entry


def _parents(module: str) -> Iterator[str]:
    """The module's path and those of the modules around it."""
    while module:
        yield module
        module = module.rpartition(".")[0]


def _compiled(config: ConfigFields, pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise config.error("ignore", f"{pattern!r} is no regular expression: {error}") from None
