"""How far off a prediction may be: error bands from measured runs, looked up for the situation of a run.

`accuracy.yaml` holds one band a line, made by benchmarks/accuracy/bands.py from the errors of all measured runs: 9 of
10 runs of that kind lie within. A run takes the band of the nearest kind that has MIN_RUNS runs or more; `_found` has
the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from servecast.hardware.yaml_fields import Fields
from servecast.hardware.yaml_source import read_yaml

FIGURES = ("tpot", "ttft", "throughput")
# Fewer runs say too little: the next rung of the ladder is taken.
MIN_RUNS = 5
# Runs with the coefficients that ship; the same runs with those that a GPU without measurements would get.
MEASURED, UNMEASURED = "measured", "unmeasured"
# Nobody's runs with pipeline stages are at hand: a judgement, not a measurement.
_STAGES_FACTOR = 2.0
# Nor runs whose weights kernels unpack, as the GPU does not multiply in their format: a judgement too.
_UNPACKED_FACTOR = 2.0
# The default coefficients were fitted to the very GPUs whose runs tell their errors. Kernels of a GPU left out of that
# fit err 1.4 to 2.4 times as much as those of a measured one (engines/kernels/default.yaml, 90th percentiles).
_DATASHEET_FACTOR = 1.5

_KIND_NAMES = {"moe": "mixture of experts", "mla": "latent attention"}
# Kind of a model -> kinds whose runs tell what is hard about it: models with latent attention have experts too.
_RARE_KINDS = {"moe": ("moe",), "mla": ("moe", "mla")}

_FILE = Path(__file__).with_name("accuracy.yaml")
_KEYS = ("scope", "kind", "link", "gpu", "engine", "dtype", "load", "figure", "n", "median", "p90", "band", "in_sample")


@dataclass(frozen=True)
class Situation:
    """What decides which measured runs are nearest.

    engine: its family ("vllm"). dtype: of the weights, "16bit" for both 16-bit types. kind: "dense", "moe" or "mla".
    load: "light", "knee" or "overload". link: between GPUs of a layer: "one" (a single GPU), "fast" or "pcie". stages:
    of the pipeline. calibration, calibrated_on: as in KernelCoefficients. unpacked: kernels unpack the weights and
    multiply in 16 bit.
    """

    gpu: str
    engine: str
    dtype: str
    kind: str
    load: str
    link: str
    stages: int
    calibration: str
    calibrated_on: str | None = None
    unpacked: bool = False


@dataclass(frozen=True)
class Band:
    """Errors of measured runs of a kind, in percent. where: what they have in common; a missing key is any.

    band: 9 of 10 further runs of that kind are expected within. in_sample: a number of the model was chosen by errors
    of some of these very runs.
    """

    scope: str
    where: Mapping[str, str]
    figure: str
    n: int
    median: float
    p90: float
    band: float
    in_sample: bool


@dataclass(frozen=True)
class ExpectedError:
    """pct: figure -> band in percent of the measured value; a figure without evidence is missing. n: runs behind it.

    label: "validated" (runs of this GPU and engine were measured), "kernels" (only its kernels), "sibling" or
    "datasheet". basis: in words, by figure. widened: why a band is wider than its own runs say.
    """

    label: str
    pct: Mapping[str, float]
    n: Mapping[str, int]
    basis: Mapping[str, str]
    widened: tuple[str, ...]


@dataclass(frozen=True)
class _Rung:
    """Bands that have exactly this in common."""

    scope: str
    where: Mapping[str, str]


@dataclass(frozen=True)
class _Ladder:
    """Rungs from the nearest to the farthest. why: what widens the band; factor: by which."""

    rungs: Sequence[_Rung]
    why: str = ""
    factor: float = 1.0


def expected_error(situation: Situation, bands: Sequence[Band] | None = None) -> ExpectedError:
    """The error to expect of TPOT, TTFT and throughput. bands: default those that ship."""
    known = shipped_bands() if bands is None else bands
    pct, n, basis = {}, {}, {}
    widened: dict[str, None] = {}
    for figure in FIGURES:
        found = list(_found(situation, figure, known))
        if found:
            ladder, band = max(found, key=lambda pair: pair[0].factor * pair[1].band)
            pct[figure] = round(band.band * ladder.factor, 1)
            n[figure], basis[figure] = band.n, describe(band)
            if ladder.why:
                widened[ladder.why] = None
    if situation.stages > 1:
        pct = {figure: round(value * _STAGES_FACTOR, 1) for figure, value in pct.items()}
        widened["twice the band without pipeline stages: none were measured"] = None
    if situation.unpacked:
        pct = {figure: round(value * _UNPACKED_FACTOR, 1) for figure, value in pct.items()}
        widened["twice the band of 16-bit weights: runs with weights that kernels unpack were not measured"] = None
    return ExpectedError(_label(situation, known), pct, n, basis, tuple(widened))


def _found(situation: Situation, figure: str, bands: Sequence[Band]) -> Iterator[tuple[_Ladder, Band]]:
    """What each ladder says; the widest counts. Runs of this GPU and engine that test the model need no stand-ins."""
    own = _own(situation)
    tested = _first(own.rungs, figure, [band for band in bands if not band.in_sample])
    if tested is not None:
        yield own, tested
    for ladder in (*((own, *_stand_ins(situation)) if tested is None else ()), *_extras(situation)):
        band = _first(ladder.rungs, figure, bands)
        if band is not None:
            yield ladder, band


def describe(band: Band) -> str:
    """`measured runs on h100-sxm, vllm, fp8, light load`."""
    where = band.where
    words = [f"on {where['gpu']}" if "gpu" in where else "on all measured GPUs"]
    words += [where[key] for key in ("engine", "dtype") if key in where]
    words += [f"{where['load']} load"] if "load" in where else []
    words += [_KIND_NAMES[where["kind"]]] if "kind" in where else []
    words += ["tensor parallel over PCIe"] if where.get("link") == "pcie" else []
    tail = " (by coefficients of other GPUs)" if band.scope == UNMEASURED else ""
    tail += " (in-sample)" if band.in_sample else ""
    return f"measured runs {', '.join(words)}{tail}"


def _close(situation: Situation) -> list[dict[str, str]]:
    """What runs have in common with this one but for the GPU, from near to far."""
    near = {"engine": situation.engine, "dtype": "16bit" if situation.unpacked else situation.dtype}
    return [near | {"load": situation.load}, near, {"engine": situation.engine}]


def _own(situation: Situation) -> _Ladder:
    return _Ladder([_Rung(MEASURED, {"gpu": situation.gpu, **where}) for where in _close(situation)])


def _stand_ins(situation: Situation) -> Iterator[_Ladder]:
    """Other GPUs, in place of runs of this one."""
    close = _close(situation)
    yield _Ladder([_Rung(MEASURED, where) for where in (*close, {})], "no run of this engine on this GPU was measured")
    if situation.calibration == "datasheet":
        default = [_Rung(UNMEASURED, where) for where in (*close, {})]
        yield _Ladder(default, "nothing was measured on this GPU", _DATASHEET_FACTOR)
        # All formats together: that runs of one format were few or easy makes nothing surer on a GPU that nobody knows.
        yield _Ladder(default[-2:], "nothing was measured on this GPU", _DATASHEET_FACTOR)
    elif situation.calibrated_on is not None:
        sibling = [_Rung(MEASURED, {"gpu": situation.calibrated_on, **where}) for where in close]
        yield _Ladder(sibling, f"not measured itself: coefficients of {situation.calibrated_on}")


def _extras(situation: Situation) -> Iterator[_Ladder]:
    """What is harder to predict than dense models on GPUs that are linked fast, on any GPU."""
    engine = {"engine": situation.engine}
    for kind in _RARE_KINDS.get(situation.kind, ()):
        wheres = [{"gpu": situation.gpu, **engine}, engine, {}]
        yield _Ladder([_Rung(MEASURED, {"kind": kind, **where}) for where in wheres], _KIND_NAMES[kind])
    if situation.link == "pcie":
        rungs = [_Rung(MEASURED, {"link": "pcie", **where}) for where in (engine, {})]
        yield _Ladder(rungs, "tensor parallel over PCIe")


def _label(situation: Situation, bands: Sequence[Band]) -> str:
    runs = _Rung(MEASURED, {"gpu": situation.gpu, "engine": situation.engine})
    if not situation.unpacked and _first([runs], "tpot", bands) is not None:
        return "validated"
    if situation.calibration == "datasheet":
        return "datasheet"
    return "kernels" if situation.calibrated_on is None else "sibling"


def _first(rungs: Sequence[_Rung], figure: str, bands: Sequence[Band]) -> Band | None:
    """The band of the first rung with enough runs; those a number was fitted to only where no rung has others."""
    for in_sample in (False, True):
        for rung in rungs:
            for band in bands:
                same = band.scope == rung.scope and band.figure == figure and band.where == rung.where
                if same and band.in_sample == in_sample and band.n >= MIN_RUNS:
                    return band
    return None


@cache
def shipped_bands() -> tuple[Band, ...]:
    """The bands of accuracy.yaml."""
    return read_bands(_FILE)


def read_bands(file: Path) -> tuple[Band, ...]:
    """Raises ConfigError with line and key."""
    source = read_yaml(file)
    fields = Fields.of_file(source, "error bands")
    fields.only(("bands",))
    lines = fields.values.get("bands")
    if not isinstance(lines, list) or not all(isinstance(line, dict) for line in lines):
        raise fields.error("bands", "must be a list of bands")
    return tuple(_band(Fields(source, ("bands", number), line)) for number, line in enumerate(lines))


def _band(fields: Fields) -> Band:
    fields.only(_KEYS)
    return Band(
        scope=fields.text("scope"),
        where={key: fields.text(key) for key in ("kind", "link", "gpu", "engine", "dtype", "load") if fields.has(key)},
        figure=fields.text("figure"),
        n=fields.count("n"),
        median=fields.number("median", zero=True),
        p90=fields.number("p90", zero=True),
        band=fields.number("band", zero=True),
        in_sample=fields.has("in_sample") and fields.flag("in_sample"),
    )
