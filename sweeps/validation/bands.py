"""Error bands from the errors of measured runs: what hardware/accuracy.yaml holds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from servecast.hardware.accuracy import FIGURES, MEASURED, MIN_RUNS, UNMEASURED

if TYPE_CHECKING:
    import pandas as pd

# A band covers this share of further runs of its kind.
COVERAGE = 0.9
# What the runs of a band have in common, from the nearest kind to the farthest.
_OWN = (("gpu", "engine", "dtype", "load"), ("gpu", "engine", "dtype"), ("gpu", "engine"))
_ELSEWHERE = (("engine", "dtype", "load"), ("engine", "dtype"), ("engine",), ())
_EXPERTS = (("kind", "gpu", "engine"), ("kind", "engine"), ("kind",))
_PCIE = (("link", "engine"), ("link",))


def error_band(errors_pct: Sequence[float]) -> float:
    """The size of error, in percent, that a further run of the same kind stays within with a chance of 0.9.

    From 9 runs on the conformal quantile: the ceil(0.9 * (n + 1))-th smallest size, which holds for whatever
    distribution. Below, the 90 % prediction interval of a normal distribution around no error: RMS * t(0.95, n).
    """
    size = np.sort(np.abs(np.asarray(errors_pct, dtype=np.float64)))
    n = len(size)
    rank = math.ceil(COVERAGE * (n + 1) - 1e-9)
    if rank <= n:
        return float(size[rank - 1])
    from scipy.stats import t

    return float(np.sqrt(np.mean(size**2)) * t.ppf((1 + COVERAGE) / 2, n))


def bands(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """One entry a band of MIN_RUNS runs or more, as in accuracy.yaml.

    rows: of `rows_frame`, with the variant "unmeasured". Runs that stand aside (an engine of long ago, say) count only
    where nothing else was measured: experts, PCIe.
    """
    usable = _without_unsettled(_without_given_throughput(rows[rows["problem"] == ""]))
    dense = (usable["kind"] == "dense") & (usable["link"] != "pcie")
    today = usable[dense & (usable["aside"] == "")]
    entries = list(_bands(today, MEASURED, "", (*_OWN, *_ELSEWHERE)))
    entries += _bands(today, UNMEASURED, "unmeasured_", _ELSEWHERE)
    rare = _with_offline_tpot(usable)
    entries += _bands(rare[rare["kind"] != "dense"], MEASURED, "", _EXPERTS)
    entries += _bands(rare[(rare["kind"] == "dense") & (rare["link"] == "pcie")], MEASURED, "", _PCIE)
    return entries


def _without_given_throughput(rows: pd.DataFrame) -> pd.DataFrame:
    """In an open loop that keeps up, throughput is the load that was given: no error of it says anything."""
    given = (rows["process"].isin(("poisson", "gamma", "constant", "trace"))) & (rows["regime"] != "overload")
    columns = [column for column in rows.columns if column.endswith("error_throughput")]
    return rows.assign(**{column: rows[column].mask(given) for column in columns})


def _with_offline_tpot(rows: pd.DataFrame) -> pd.DataFrame:
    """Offline runs with throughput alone: the time between tokens is its inverse."""
    inverse = (1 / (1 + rows["error_throughput"] / 100) - 1) * 100
    known = rows["error_tpot"].notna() | (rows["process"] != "batch")
    return rows.assign(error_tpot=rows["error_tpot"].where(known, inverse))


def _without_unsettled(rows: pd.DataFrame) -> pd.DataFrame:
    """Without errors that say more of a setting that nobody stated than of the model."""
    changed: dict[str, pd.Series] = {}
    for figure in FIGURES:
        unsettled = rows["unsettled"].str.split().map(lambda names, figure=figure: figure in names).astype(bool)
        columns = [column for column in rows.columns if column.endswith(f"error_{figure}")]
        changed |= {column: rows[column].mask(unsettled) for column in columns}
    return rows.assign(**changed)


def _bands(
    rows: pd.DataFrame, scope: str, prefix: str, groupings: Sequence[tuple[str, ...]]
) -> Iterator[dict[str, Any]]:
    named = rows.drop(columns="engine").rename(columns={"family": "engine", "regime": "load_kind"})
    named = named.drop(columns="load").rename(columns={"load_kind": "load"})
    named["dtype"] = named["dtype"].str.split().str[0]
    for keys in groupings:
        for names, group in named.groupby(list(keys)) if keys else [((), named)]:
            where = dict(zip(keys, map(str, names), strict=True))
            for figure in FIGURES:
                yield from _entries(group, scope, where, figure, f"{prefix}error_{figure}")


def _entries(
    group: pd.DataFrame, scope: str, where: Mapping[str, str], figure: str, column: str
) -> Iterator[dict[str, Any]]:
    """The band of the rows that test the model and, where there are too few, that of all, marked in-sample."""
    if column not in group:
        return
    measured = group[group[column].notna()]
    fitted = measured["fitted"].str.split().map(lambda names: figure in names).astype(bool)
    chosen, in_sample = (measured[~fitted], False) if (~fitted).sum() >= MIN_RUNS else (measured, True)
    if len(chosen) < MIN_RUNS:
        return
    errors = chosen[column].abs()
    entry: dict[str, Any] = {
        "scope": scope,
        **where,
        "figure": figure,
        "n": len(errors),
        "median": round(float(errors.median()), 1),
        "p90": round(float(errors.quantile(0.9)), 1),
        "band": round(error_band(errors.tolist()), 1),
    }
    yield entry | ({"in_sample": True} if in_sample else {})
