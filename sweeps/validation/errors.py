"""Errors of predictions: one row a run, and statistics by group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servecast.configs.measured import METRICS, MeasuredRun
from servecast.hardware.accuracy import Situation
from servecast.sweeps.validation.predict import Prediction

if TYPE_CHECKING:
    import pandas as pd

GROUP = ("gpu", "engine", "model", "dtype")
# Columns of rows.csv that hold text, also where all of them are empty.
_TEXTS = (
    *("place", "source", "gpu", "engine", "model", "dtype", "layout", "family", "kind", "link", "regime"),
    *("problem", "left_out", "note", "fitted", "unsettled", "aside", "process", "load"),
)


def rows_frame(predictions: Sequence[Prediction]) -> pd.DataFrame:
    """One row a run: where it is from and what it is; for each figure X `measured_X`, the variants' `predicted_X`,
    `roofline_X` ..., and their errors `error_X`, `roofline_error_X` ... in percent of the measured.

    Runs without a prediction are rows too; `problem` says why. Figures that are left out have no error; `left_out`
    says why.
    """
    import pandas as pd

    frame = pd.DataFrame([_row(prediction) for prediction in predictions])
    return frame.reindex(columns=[*frame.columns, *(f"error_{m}" for m in METRICS if f"error_{m}" not in frame)])


def read_rows(file: Path) -> pd.DataFrame:
    """What `rows_frame` made, from the CSV file that it was written to."""
    import pandas as pd

    return pd.read_csv(file, dtype=dict.fromkeys(_TEXTS, str)).fillna(dict.fromkeys(_TEXTS, ""))


def _row(prediction: Prediction) -> dict[str, Any]:
    run = prediction.run
    row: dict[str, Any] = {
        "place": run.place,
        "source": run.source,
        "fitted": " ".join(run.fitted),
        "unsettled": " ".join(run.unsettled),
        "aside": run.aside,
        **{key: getattr(prediction, key) for key in (*GROUP, "layout")},
        **_situation(prediction.situation),
        "problem": prediction.problem or "",
        "left_out": "; ".join(f"{name}: {why}" for name, why in run.left_out.items()),
        "note": run.note,
        "process": run.settings.get("workload", {}).get("arrivals", {}).get("process", ""),
        "load": _load(run.settings.get("workload", {})),
    }
    compared = _with_throughput(run.compared, run)
    row |= {f"measured_{name}": value for name, value in {**run.figures, **compared}.items()}
    for variant, figures in prediction.figures.items():
        prefix = "" if variant == "predicted" else f"{variant}_"
        for name, value in _with_throughput(figures, run).items():
            row[f"{variant}_{name}"] = value
            if name in compared:
                row[f"{prefix}error_{name}"] = (value / compared[name] - 1) * 100
    return row


def _situation(situation: Situation | None) -> dict[str, str]:
    if situation is None:
        return dict.fromkeys(("family", "kind", "link", "regime"), "")
    return {
        "family": situation.engine,
        "kind": situation.kind,
        "link": situation.link,
        "regime": situation.load,
    }


def _with_throughput(figures: Mapping[str, float], run: MeasuredRun) -> dict[str, float]:
    """`figures`, and in a closed loop without a measured one the throughput (tokens/s) that TTFT and TPOT imply: a
    request ends at TTFT + TPOT * (output tokens - 1), and each client has one under way.
    """
    workload = run.settings.get("workload", {})
    clients = workload.get("arrivals", {}).get("concurrency")
    if clients is None or "throughput" in run.figures or not {"ttft", "tpot"} <= figures.keys():
        return dict(figures)
    output = workload["lengths"]["output"]
    tokens = output.get("value") or (output["low"] + output["high"]) / 2
    implied = clients * tokens / (figures["ttft"] + figures["tpot"] * (tokens - 1)) * 1e3
    return {**figures, "throughput": implied}


def _load(workload: dict[str, Any]) -> str:
    """`512/256 tokens, 16 clients`, for people."""
    arrivals, lengths = workload.get("arrivals", {}), workload.get("lengths", {})
    parts = [
        str(part.get("value") or part.get("high"))
        for part in (lengths.get("prompt", {}), lengths.get("output", {}))
        if part
    ]
    words = ["/".join(parts)] if parts else []
    process = arrivals.get("process", "")
    if process == "closed_loop":
        words.append(f"{arrivals['concurrency']} clients")
    elif process == "batch":
        words.append(f"{workload.get('num_requests')} at once")
    elif "request_rate" in arrivals:
        words.append(f"{arrivals['request_rate']:g}/s")
    elif process:
        words.append(process)
    return ", ".join(words)


def error_table(rows: pd.DataFrame, by: Sequence[str] = GROUP, metrics: Sequence[str] | None = None) -> pd.DataFrame:
    """One row a group, figure and kind of rows (`test`, or `fit`: a number of the model was chosen by that figure):
    n, then median, p90, worst and bias (median with its sign) of the error in percent, then the medians of the other
    variants that `rows` has, over the same runs.
    """
    import pandas as pd

    groups: list[dict[str, Any]] = []
    usable = rows[rows["problem"] == ""]
    for names, group in usable.groupby(list(by), sort=True):
        for metric in metrics or METRICS:
            for role, part in _by_role(group, metric):
                row = dict(zip(by, names, strict=True)) | {"figure": metric, "rows": role}
                groups.append(row | statistics(part[f"error_{metric}"]) | _other_variants(part, metric))
    return pd.DataFrame(groups)


def _by_role(group: pd.DataFrame, metric: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """("test", rows) and ("fit", rows), as far as there are rows with an error of `metric`."""
    compared = group[group[f"error_{metric}"].notna()]
    fitted = compared["fitted"].str.split().map(lambda names: metric in names).astype(bool)
    for role, part in (("test", compared[~fitted]), ("fit", compared[fitted])):
        if len(part):
            yield role, part


def statistics(errors: pd.Series) -> dict[str, float]:
    """n, median, p90 and worst of |errors|, and their median with its sign (bias)."""
    size = errors.abs()
    return {
        "n": len(errors),
        "median": float(size.median()),
        "p90": float(size.quantile(0.9)),
        "worst": float(size.max()),
        "bias": float(errors.median()),
    }


def _other_variants(group: pd.DataFrame, metric: str) -> dict[str, float]:
    ending = f"_error_{metric}"
    columns = [column for column in group.columns if column.endswith(ending)]
    return {f"{column.removesuffix(ending)} median": float(group[column].abs().median()) for column in columns}


def worst_rows(rows: pd.DataFrame, metrics: Sequence[str], count: int) -> pd.DataFrame:
    """The `count` rows with the largest error in one of `metrics`, largest first; `worst` names it."""
    columns = [f"error_{metric}" for metric in metrics]
    errors = rows.loc[rows["problem"] == "", columns].abs().dropna(how="all")
    order = errors.max(axis=1).sort_values(ascending=False).index[:count]
    chosen = rows.loc[order].copy()
    chosen["worst"] = [str(column).removeprefix("error_") for column in errors.loc[order].idxmax(axis=1)]
    return chosen


def left_out(rows: pd.DataFrame) -> list[tuple[str, int]]:
    """(reason, number of runs) for runs and figures that are not compared, most first."""
    reasons = rows.loc[rows["problem"] != "", "problem"].value_counts()
    figures = rows.loc[(rows["problem"] == "") & (rows["left_out"] != ""), "left_out"].value_counts()
    return [(str(why), int(n)) for counts in (reasons, figures) for why, n in counts.items()]


def gpu_ratios(rows: pd.DataFrame, first: str, second: str) -> pd.DataFrame:
    """One row for each kind of work that was measured on both GPUs: errors in percent, as `error_X`, of the ratio
    `first`:`second` of each figure. rows: of `rows_frame`.
    """
    import pandas as pd

    same = ["source", "engine", "model", "dtype", "layout", "load"]
    usable = rows[rows["problem"] == ""]
    one, other = (usable[usable["gpu"] == gpu].drop_duplicates(same).set_index(same) for gpu in (first, second))
    both = one.index.intersection(other.index)
    errors = {
        f"error_{metric}": ((1 + one.loc[both, key] / 100) / (1 + other.loc[both, key] / 100) - 1) * 100
        for metric in METRICS
        if (key := f"error_{metric}") in rows
    }
    return pd.DataFrame(errors, index=both).reset_index()
