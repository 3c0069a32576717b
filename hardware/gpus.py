"""The GPU catalogue: one YAML file a GPU, `hardware/<key>.yaml`, or a user's own file of the same form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from servecast.hardware.catalogue import WANTED, is_path, normalised, user_file
from servecast.hardware.errors import ConfigError, did_you_mean
from servecast.hardware.yaml_fields import Fields
from servecast.hardware.yaml_source import read_yaml

PEAK_KINDS = ("16bit", "fp8", "int8", "fp4")

_FOLDER = Path(__file__).parent
# YAML files of this folder that describe no GPU.
_NOT_GPUS = frozenset({"accuracy", "prices"})
_FIGURES = (
    "year",
    "peak_tflops",
    "memory_gb",
    "memory_usable_gib",
    "memory_gb_per_s",
    "sm_count",
    "l2_mb",
    "link",
    "all_reduce",
    "pcie_gb_per_s",
    "tdp_w",
)
_KEYS = ("name", "vendor", "generation", "aliases", *_FIGURES, "notes", "sources")


@dataclass(frozen=True)
class Link:
    """How GPUs of a server reach each other. bytes_per_s: per GPU, one way. domain_gpus: number it joins.

    peer_bytes_per_s: one way between two GPUs where each pair has a link of its own (a mesh), None behind a switch.
    """

    name: str
    bytes_per_s: float
    domain_gpus: int
    peer_bytes_per_s: float | None = None


@dataclass(frozen=True)
class Gpu:
    """One catalogue entry. Peaks are dense (never the 2x sparse figure), in FLOP/s.

    peak_flops: by arithmetic type, keys of PEAK_KINDS; a missing key means no native support.
    memory_usable_gib: what the engine sees as total (torch.cuda.mem_get_info), a little less than nvidia-smi.
    sm_count: streaming multiprocessors, or AMD's compute units. pcie_bytes_per_s: one direction, to the host.
    link: None when GPUs reach each other over PCIe only. all_reduce: as measured on one's own server, number of GPUs ->
    (latency in s, bus bandwidth in bytes/s as nccl-tests define it); empty for the GPUs of the catalogue.
    notes: what a reader should know of the figures.
    sources: key of the figure in the YAML file -> where it is from.
    """

    key: str
    name: str
    vendor: str
    generation: str
    year: int
    peak_flops: Mapping[str, float]
    memory_gb: float
    memory_usable_gib: float
    memory_bytes_per_s: float
    sm_count: int
    l2_mb: float
    link: Link | None
    pcie_bytes_per_s: float
    tdp_w: float
    aliases: tuple[str, ...]
    sources: Mapping[str, str]
    notes: str = ""
    all_reduce: Mapping[int, tuple[float, float]] = field(default_factory=dict)

    @property
    def server_gpus(self) -> int:
        """Most GPUs in a replica: those of a server of eight, or what the link joins if that is more."""
        return 8 if self.link is None else max(8, self.link.domain_gpus)


def gpu_keys() -> list[str]:
    """Keys of the catalogue, sorted."""
    return sorted(file.stem for file in _FOLDER.glob("*.yaml") if file.stem not in _NOT_GPUS)


def gpu_key(name: str) -> str:
    """The catalogue's key for the key or alias `name`; `name` itself if it is neither, as of a user's own GPU."""
    try:
        return load_gpu(name).key
    except ConfigError:
        return name


def load_gpu(key_or_path: str, base_dir: Path | None = None) -> Gpu:
    """A GPU by key or alias (case, blanks and underscores do not matter), or a user's YAML file by path.

    A path ends in .yaml or .yml or holds a path separator; it is relative to `base_dir` (default: the working
    directory). The key of such a GPU is the file's name without the ending; named like one of the catalogue,
    it keeps that one's kernel coefficients. Raises ConfigError for an unknown name, a missing file or a wrong
    field.
    """
    if is_path(key_or_path):
        return _read_gpu(user_file(key_or_path, base_dir))
    wanted = normalised(key_or_path)
    is_key = wanted in gpu_keys()
    return _read_gpu(_FOLDER / f"{wanted}.yaml" if is_key else _file_of_alias(wanted, key_or_path))


def _file_of_alias(wanted: str, as_written: str) -> Path:
    for key in gpu_keys():
        file = _FOLDER / f"{key}.yaml"
        # parsing every file would cost more than all else at start-up; few files hold the word at all
        if wanted in normalised(file.read_text(encoding="utf-8")) and wanted in _read_gpu(file).aliases:
            return file
    raise ConfigError(f"unknown GPU {as_written!r}", hint=did_you_mean(wanted, gpu_keys()))


def _read_gpu(file: Path) -> Gpu:
    fields = Fields.of_file(read_yaml(file, WANTED["gpu"]), "a GPU")
    fields.only(_KEYS)
    return Gpu(
        key=file.stem,
        name=fields.text("name"),
        vendor=fields.text("vendor", "unknown"),
        generation=fields.text("generation", "unknown"),
        year=fields.count("year"),
        peak_flops=_peaks(fields.section("peak_tflops")),
        memory_gb=fields.number("memory_gb"),
        memory_usable_gib=_usable_gib(fields),
        memory_bytes_per_s=fields.number("memory_gb_per_s") * 1e9,
        sm_count=fields.count("sm_count"),
        l2_mb=fields.number("l2_mb"),
        link=_link(fields.section("link")) if fields.has("link") else None,
        pcie_bytes_per_s=fields.number("pcie_gb_per_s") * 1e9,
        tdp_w=fields.number("tdp_w"),
        aliases=tuple(normalised(alias) for alias in fields.texts("aliases")),
        sources=_sources(fields),
        notes=fields.text("notes", ""),
        all_reduce=_all_reduce(fields.section("all_reduce")) if fields.has("all_reduce") else {},
    )


def _peaks(fields: Fields) -> dict[str, float]:
    fields.only(PEAK_KINDS)
    # every GPU multiplies 16-bit matrices; the other kinds may be missing
    fields.number("16bit")
    return {kind: fields.number(kind) * 1e12 for kind in PEAK_KINDS if fields.has(kind)}


def _usable_gib(fields: Fields) -> float:
    """At most the size on the label, whose GB are GiB on all cards but those whose makers round down."""
    usable = fields.number("memory_usable_gib")
    if usable > fields.number("memory_gb"):
        problem = f"must be at most memory_gb ({fields.number('memory_gb'):g}), found {usable:g}"
        raise fields.error("memory_usable_gib", problem)
    return usable


def _link(fields: Fields) -> Link:
    fields.only(("name", "gb_per_s", "domain_gpus", "peer_gb_per_s"))
    return Link(
        name=fields.text("name"),
        bytes_per_s=fields.number("gb_per_s") * 1e9,
        domain_gpus=fields.count("domain_gpus"),
        peer_bytes_per_s=fields.number("peer_gb_per_s") * 1e9 if fields.has("peer_gb_per_s") else None,
    )


def _all_reduce(fields: Fields) -> dict[int, tuple[float, float]]:
    """`{2: {latency_us: 7, bus_gb_per_s: 20}, ...}` by number of GPUs."""
    measured: dict[int, tuple[float, float]] = {}
    for gpus in fields.values:
        if isinstance(gpus, bool) or not isinstance(gpus, int) or gpus < 2:
            raise fields.error(gpus, f"must be a number of GPUs, 2 or more, found {gpus!r}")
        entry = fields.section(gpus)
        entry.only(("latency_us", "bus_gb_per_s"))
        measured[gpus] = (entry.number("latency_us", zero=True) * 1e-6, entry.number("bus_gb_per_s") * 1e9)
    return measured


def _sources(fields: Fields) -> dict[str, str]:
    """Source by figure; `default` in the file stands for every figure without one of its own."""
    if not fields.has("sources"):
        return {}
    section = fields.section("sources")
    section.only((*_FIGURES, "default"))
    default = section.text("default", "")
    by_figure = {figure: section.text(figure, default) for figure in _FIGURES if fields.has(figure)}
    return {figure: source for figure, source in by_figure.items() if source}
