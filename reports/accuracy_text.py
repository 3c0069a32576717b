"""How far the figures of a result may be trusted, in words and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from servecast.reports.report import Section
from servecast.reports.tables import Column, Table
from servecast.reports.units import COUNT, PERCENT

_FIGURES = {"tpot": "TPOT", "ttft": "TTFT", "throughput": "throughput"}
_CALIBRATIONS = {
    "measured": "kernel coefficients measured on this GPU",
    "partial": "some kernel coefficients measured on this GPU",
    "sibling": "kernel coefficients of a similar GPU",
    "datasheet": "datasheet figures with average efficiencies: expect a wider error",
}
_BAND_COLUMNS = (
    Column("figure", "figure"),
    Column("pct", "error band", PERCENT, note="9 of 10 measured runs of the nearest kind lay within"),
    Column("n", "measured runs", COUNT),
    Column("basis", "which runs"),
)


def band_share(accuracy: Mapping[str, Any], metric: str) -> float | None:
    """The error to expect of `metric` (ttft, tpot, throughput) as a share of it, None where nothing is known."""
    percent = accuracy.get(f"{metric}_pct")
    return None if percent is None else float(percent) / 100


def within_band(value: float, share: float | None) -> tuple[float, float]:
    """What may be measured where `value` is predicted: as many times more or less, so that it stays above 0."""
    return (value, value) if share is None else (value / (1 + share), value * (1 + share))


def accuracy_line(accuracy: Mapping[str, Any]) -> str:
    """`Accuracy: TPOT within 6 %, TTFT within 15 % (9 of 10 measured runs on h100-sxm, vllm, fp8; n=30).`"""
    known = [(key, name) for key, name in _FIGURES.items() if accuracy[f"{key}_pct"] is not None]
    if not known:
        return "Accuracy: no measured run is near enough to say."
    bands = ", ".join(f"{name} within {accuracy[f'{key}_pct']:.0f} %" for key, name in known)
    first, _ = known[0]
    basis = f"{accuracy['basis'][first]}; n={accuracy['n'][first]}"
    widened = f"; {'; '.join(accuracy['widened'])}" if accuracy["widened"] else ""
    return f"Accuracy: {bands} (9 of 10 {basis}{widened})."


def band_sentence(accuracy: Mapping[str, Any]) -> str:
    """The error to expect, and what stands behind it."""
    bands = [(name, band_share(accuracy, key)) for key, name in _FIGURES.items()]
    known = [f"{name} {share:.0%}" for name, share in bands if share is not None]
    label = accuracy["calibration"]
    words = f" ({_CALIBRATIONS[label]})" if label in _CALIBRATIONS else ""
    if not known:
        return f"Error band unknown: no measured run is near enough. Calibration: {label}{words}."
    return f"Error of the model, within which 9 of 10 measured runs of the nearest kind lay: {', '.join(known)}."


def accuracy_section(accuracy: Mapping[str, Any]) -> Section:
    """Label, error bands, residuals of the kernels, and what is weak ground."""
    label = accuracy.get("label", accuracy["calibration"])
    where = f"GPU {accuracy['gpu']}, engine profile {accuracy['engine']}."
    points = [f"The band is widened: {reason}." for reason in accuracy.get("widened", ())]
    return Section(
        "Accuracy",
        [f"Label: {label}. {where} {band_sentence(accuracy)}"],
        points=[*points, *accuracy["caveats"]],
        tables=list(_tables(accuracy)),
    )


def _tables(accuracy: Mapping[str, Any]) -> Iterator[Table]:
    rows = [
        {
            "figure": name,
            "pct": accuracy[f"{key}_pct"],
            "n": accuracy["n"].get(key),
            "basis": accuracy["basis"].get(key),
        }
        for key, name in _FIGURES.items()
        if accuracy.get(f"{key}_pct") is not None
    ]
    if rows:
        yield Table("error-bands", "Error bands", _BAND_COLUMNS, rows)
    residuals = [{"kernels": name, "residual": text} for name, text in accuracy["kernel_residuals"].items()]
    if residuals:
        columns = (Column("kernels", "kernels"), Column("residual", "error, median / p90"))
        yield Table("kernel-residuals", "Error of the kernel coefficients", columns, residuals)


def accuracy_table(by_name: Mapping[str, Mapping[str, Any]]) -> Table:
    """The error bands of several results side by side."""
    rows = [
        {
            "name": name,
            "label": accuracy.get("label", accuracy["calibration"]),
            **{key: accuracy.get(f"{key}_pct") for key in _FIGURES},
            "why": "; ".join(accuracy.get("widened", ())) or None,
        }
        for name, accuracy in by_name.items()
    ]
    columns = [Column("name", "point"), Column("label", "label")]
    columns += [Column(key, name, PERCENT) for key, name in _FIGURES.items()]
    return Table("accuracy", "Error bands", [*columns, Column("why", "widened because")], rows)
