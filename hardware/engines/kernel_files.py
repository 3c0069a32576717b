"""Reads kernel coefficients: one YAML file a GPU, in which each group of coefficients stands once per engine.

    gemm_fp8:
      vllm: {t0_us: 5.57, e_c: 0.532, ..., heldout: 8.8%/25.5%, source: ...}
      sglang: {...}

`any` in place of an engine's name is for kernels that all engines share. A file may instead say
`calibrated_on: <GPU>`: this GPU has the silicon of one that was measured. Units in the files are those of the
fits (us, GB/s); in Python they are SI. A user's engine profile may hold groups of its own (`kernels:`), which go
before those of the files, group by group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from servecast.hardware.engines.kernel_entries import (
    read_decode,
    read_gemm,
    read_nvlink,
    read_prefill,
    read_residual,
    read_ring,
    read_share,
    read_table,
)
from servecast.hardware.engines.moe_files import (
    ALL_TO_ALL_GROUPS,
    SPECIAL_GROUPS,
    TYPICAL_GROUPS,
    main_group,
    read_special_kernels,
    without_strangers,
)
from servecast.hardware.engines.profile import (
    AllReduceTable,
    KernelCoefficients,
    NvlinkAllReduce,
    RingAllReduce,
)
from servecast.hardware.yaml_fields import Fields
from servecast.hardware.yaml_source import read_yaml

T = TypeVar("T")

_ANY_ENGINE = "any"
# vllm-0.10: what an earlier version did otherwise than the one that "vllm" stands for.
_MEASURED_ENGINES = ("vllm", "vllm-0.10", "sglang", "trtllm", _ANY_ENGINE)
_DEFAULT_STEM = "default"
_GEMM_GROUPS = {"16bit": "gemm_16bit", "fp8": "gemm_fp8", "nvfp4": "gemm_nvfp4"}
_PCIE_GROUPS = {n: f"all_reduce_pcie_n{n}" for n in (2, 4, 8)}
_TABLE_GROUPS = {n: f"all_reduce_table_n{n}" for n in (2, 4, 8)}
_LARGE_GROUPS = {n: f"all_reduce_large_n{n}" for n in (2, 4, 8)}
_SHARE_GROUPS = {n: f"all_reduce_pcie_share_n{n}" for n in (2, 4, 8)}
_NVLINK_GROUPS = ("all_reduce_small", *_LARGE_GROUPS.values())
# Ways to state the all-reduce, of which one holds for a GPU.
_ALL_REDUCE_KINDS = (tuple(_TABLE_GROUPS.values()), _NVLINK_GROUPS, tuple(_PCIE_GROUPS.values()))
_ATTENTION_GROUPS = ("prefill", "decode", "decode_fp8_kv")
# These hold for head size 128; others were measured too: prefill_hd64 ...
_HEAD_SIZES = (64, 256)
_HEAD_GROUPS = tuple(f"{group}_hd{size}" for group in _ATTENTION_GROUPS for size in _HEAD_SIZES)
_ALL_REDUCE_GROUPS = tuple(group for kind in _ALL_REDUCE_KINDS for group in kind)
_GROUPS = (
    *_GEMM_GROUPS.values(),
    *_ATTENTION_GROUPS,
    *_HEAD_GROUPS,
    *_ALL_REDUCE_GROUPS,
    *SPECIAL_GROUPS,
)
# Only the default has these: they hold for servers, whatever the GPU.
_DEFAULT_GROUPS = (*_GROUPS, *_SHARE_GROUPS.values())
# What a GPU's label rests on: the parts of a step that every dense model has on one GPU.
_CORE_GROUPS = ("gemm_16bit", "prefill", "decode")
# What the default gives to a GPU that lacks it.
_FILLED_GROUPS = (*_GEMM_GROUPS.values(), *_CORE_GROUPS, *_SHARE_GROUPS.values(), *TYPICAL_GROUPS)


@dataclass(frozen=True)
class _Known:
    """What is known of a GPU. entries: group -> the entry that holds. label, calibrated_on: of KernelCoefficients."""

    entries: Mapping[str, Fields]
    label: str
    calibrated_on: str | None = None
    why: str | None = None

    def overlaid(self, own: Mapping[str, Fields]) -> _Known:
        """With the user's own entries on top."""
        own_core = [group for group in _CORE_GROUPS if group in own]
        entries = {**self._without_rivals(own), **own}
        if len(own_core) == len(_CORE_GROUPS):
            return _Known(entries, "measured")
        trusted = self.label == "measured" or not own_core
        return replace(self, entries=entries, label=self.label if trusted else "partial")

    def _without_rivals(self, own: Mapping[str, Fields]) -> dict[str, Fields]:
        """The entries but for all-reduces of other kinds than the user's, which would go before them, and variants of
        kernels that the user measured anew, which are of another kernel.
        """
        kinds = [kind for kind in _ALL_REDUCE_KINDS if any(group in own for group in kind)]
        rivals = {group for kind in _ALL_REDUCE_KINDS if kinds and kind not in kinds for group in kind}
        return {
            group: entry
            for group, entry in self.entries.items()
            if group not in rivals and main_group(group) not in own
        }


class KernelFiles(Mapping[str, KernelCoefficients]):
    """GPU key -> coefficients for one engine; a file is read when its GPU is first asked for.

    folders: searched in order. engines: whose measurements to take, the first that a file has; then `any`.
    own: by GPU key, groups that go before those of the GPU's file.
    """

    def __init__(
        self, folders: Sequence[Path], engines: Sequence[str], own: Mapping[str, Fields] | None = None
    ) -> None:
        self._folders, self._engines = tuple(folders), (*engines, _ANY_ENGINE)
        self._own = {key: self._entries(fields) for key, fields in (own or {}).items()}
        self._read: dict[str, KernelCoefficients] = {}
        self._default_fields = self._fields(_DEFAULT_STEM)
        self._default_entries = self._entries(self._default_fields, _DEFAULT_GROUPS)
        self.default = self._coefficients(self._unmeasured)

    def __getitem__(self, gpu_key: str) -> KernelCoefficients:
        """Raises KeyError for a GPU without a file, ConfigError for a file that is wrong."""
        if gpu_key not in self:
            raise KeyError(gpu_key)
        if gpu_key not in self._read:
            self._read[gpu_key] = self._coefficients(self._of_files(gpu_key).overlaid(self._own.get(gpu_key, {})))
        return self._read[gpu_key]

    def __contains__(self, gpu_key: object) -> bool:
        return gpu_key in self._gpu_keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self._gpu_keys())

    def __len__(self) -> int:
        return len(self._gpu_keys())

    def _gpu_keys(self) -> list[str]:
        return sorted(self._file_keys() | set(self._own))

    def _file_keys(self) -> set[str]:
        return {file.stem for folder in self._folders for file in folder.glob("*.yaml")} - {_DEFAULT_STEM}

    def _fields(self, stem: str) -> Fields:
        candidates = [folder / f"{stem}.yaml" for folder in self._folders]
        file = next((file for file in candidates if file.is_file()), candidates[-1])
        return Fields.of_file(read_yaml(file), "a GPU's kernel coefficients")

    @property
    def _unmeasured(self) -> _Known:
        return _Known(self._default_entries, "datasheet")

    def _of_files(self, gpu_key: str) -> _Known:
        if gpu_key not in self._file_keys():
            return self._unmeasured
        fields = self._fields(gpu_key)
        if fields.has("calibrated_on"):
            return self._sibling(fields)
        entries = self._entries(fields)
        return _Known(entries, self._label(entries))

    def _sibling(self, fields: Fields) -> _Known:
        """The entries of the GPU named there; its all-reduce too, if the link is the same.

        Labelled as that GPU is, rather than "sibling", if not all of its core groups were measured.
        """
        fields.only(("calibrated_on", "same_link", "why"))
        key = fields.text("calibrated_on")
        if key not in self._file_keys() or self._fields(key).has("calibrated_on"):
            raise fields.error("calibrated_on", f"must be a GPU with measurements of its own, found {key!r}")
        base = self._of_files(key)
        dropped = () if fields.flag("same_link") else (*_ALL_REDUCE_GROUPS, *ALL_TO_ALL_GROUPS)
        return _Known(
            entries={group: entry for group, entry in base.entries.items() if group not in dropped},
            label="sibling" if base.label == "measured" else base.label,
            calibrated_on=key,
            why=fields.text("why"),
        )

    def _coefficients(self, known: _Known) -> KernelCoefficients:
        """Core groups that are not known are the default's, and so are GEMMs of other formats, experts' kernels and
        latent attention.
        """
        default = {group: entry for group, entry in self._default_entries.items() if group in _FILLED_GROUPS}
        entries = {**default, **known.entries}
        typical = frozenset(group for group, entry in entries.items() if entry is self._default_entries.get(group))
        coefficients = _coefficients(self._default_fields, entries, known.label, typical)
        if known.calibrated_on is None:
            return coefficients
        sources = {**coefficients.sources, "calibrated_on": known.why or ""}
        return replace(coefficients, sources=sources, calibrated_on=known.calibrated_on)

    def _entries(self, fields: Fields, groups: Sequence[str] = _GROUPS) -> dict[str, Fields]:
        """Group -> the entry that holds for our engines; a group that none of them has is left out."""
        fields.only((*groups, "fitted_with"))
        found = {group: self._choose(fields.section(group)) for group in groups if fields.has(group)}
        return without_strangers({group: entry for group, entry in found.items() if entry is not None})

    def _choose(self, group: Fields) -> Fields | None:
        """The entry of the first of our engines that `group` has, if any."""
        group.only((*self._engines, *_MEASURED_ENGINES))
        engine = next((engine for engine in self._engines if group.has(engine)), None)
        return None if engine is None else group.section(engine)

    def _label(self, own: Mapping[str, Fields]) -> str:
        family = self._engines[0].partition("-")[0]
        engines = (*(engine for engine in self._engines if engine.partition("-")[0] == family), _ANY_ENGINE)
        measured = all(group in own and own[group].path[-1] in engines for group in _CORE_GROUPS)
        return "measured" if measured else "partial"


def _coefficients(
    fields: Fields, entries: Mapping[str, Fields], label: str, typical: frozenset[str]
) -> KernelCoefficients:
    for group in _CORE_GROUPS:
        if group not in entries:
            raise fields.error(group, "is missing")
    fp8_kv = entries.get("decode_fp8_kv")
    described = {group: entry for group, entry in entries.items() if group not in _SHARE_GROUPS.values()}
    return KernelCoefficients(
        calibration=label,
        gemm={kind: read_gemm(entries[group], kind) for kind, group in _GEMM_GROUPS.items() if group in entries},
        prefill=read_prefill(entries["prefill"]),
        decode=read_decode(entries["decode"]),
        decode_fp8_kv=None if fp8_kv is None else read_decode(fp8_kv),
        all_reduce=_all_reduce(entries),
        residuals={group: read_residual(entry) for group, entry in described.items()},
        sources={group: entry.text("source") for group, entry in described.items()},
        pcie={gpus: read_share(entries[group]) for gpus, group in _SHARE_GROUPS.items() if group in entries},
        prefill_by_head=_by_head(entries, "prefill", read_prefill),
        decode_by_head=_by_head(entries, "decode", read_decode),
        decode_fp8_kv_by_head=_by_head(entries, "decode_fp8_kv", read_decode),
        typical=typical,
        **read_special_kernels(entries),
    )


def _by_head(entries: Mapping[str, Fields], group: str, read: Callable[[Fields], T]) -> dict[int, T]:
    sizes = {size: entries.get(f"{group}_hd{size}") for size in _HEAD_SIZES}
    return {size: read(entry) for size, entry in sizes.items() if entry is not None}


def _all_reduce(entries: Mapping[str, Fields]) -> AllReduceTable | NvlinkAllReduce | RingAllReduce | None:
    """A table if there is one, else NVLink if both of its regimes are known, else PCIe if any number of GPUs is."""
    tables = {gpus: read_table(entries[group]) for gpus, group in _TABLE_GROUPS.items() if group in entries}
    if tables:
        return AllReduceTable(tables)
    large, pcie = _rings(entries, _LARGE_GROUPS), _rings(entries, _PCIE_GROUPS)
    if large is not None and "all_reduce_small" in entries:
        return read_nvlink(entries["all_reduce_small"], large)
    return pcie


def _rings(entries: Mapping[str, Fields], groups: Mapping[int, str]) -> RingAllReduce | None:
    """Those of `groups` (number of GPUs -> name) that were measured; None if none was."""
    rings = {gpus: read_ring(entries[group]) for gpus, group in groups.items() if group in entries}
    return RingAllReduce(rings) if rings else None
