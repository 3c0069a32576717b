"""`servecast validate`: predicted against measured for files of measured runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from servecast.commands.progress import progress_bar
from servecast.commands.run_files import check_folder
from servecast.configs.measured import METRICS, read_rules, read_runs
from servecast.hardware.errors import ConfigError
from servecast.reports.table_formats import to_csv, to_rich
from servecast.reports.tables import Table
from servecast.reports.validation_tables import TIMES, errors_of_groups, left_out_lines, parity_panels, worst_runs
from servecast.sweeps.validation.errors import error_table, left_out, rows_frame, worst_rows
from servecast.sweeps.validation.predict import predict
from servecast.sweeps.validation.thresholds import Threshold, parse_thresholds

if TYPE_CHECKING:
    import pandas as pd

GROUP = ("gpu", "engine", "model", "regime")
WORST_SHOWN = 5
# Below, starting processes takes longer than the runs.
_WORTH_PROCESSES = 8
_WIDE = 200


@dataclass(frozen=True)
class _Outcome:
    """rows: one a run. figures: those that were compared, most usual first."""

    rows: pd.DataFrame
    figures: Sequence[str]
    errors: Table
    worst: Table
    left_out: Sequence[tuple[str, int]]
    verdicts: Sequence[Mapping[str, Any]]


def validate(
    files: Sequence[Path],
    *,
    defaults: Mapping[str, str],
    rules: Path | None,
    overrides: Sequence[str],
    threshold: str | None,
    jobs: int,
    out: Path | None,
    as_json: bool,
) -> bool:
    """Print the errors; with `out` also write them and the figure. Returns whether all thresholds are met.

    defaults: model, gpu or engine for runs that do not name them. Raises ConfigError, also if no run can be simulated.
    """
    thresholds = [] if threshold is None else parse_thresholds(threshold)
    known = None if rules is None else read_rules(rules)
    runs = [run for file in files for run in read_runs(file, known, defaults, overrides)]
    if out is not None:
        check_folder(out)
    processes = jobs if len(runs) >= _WORTH_PROCESSES else 1
    with progress_bar("measured runs") as report:
        outcome = _compare(rows_frame(predict(runs, jobs=processes, progress=report)), thresholds)
    written = [] if out is None else _write(outcome, out)
    if as_json:
        print(json.dumps(_plain(outcome), indent=2))
    else:
        _show(outcome, Console(highlight=False, width=_WIDE), written, out)
    return all(verdict["met"] for verdict in outcome.verdicts)


def _compare(rows: pd.DataFrame, thresholds: Sequence[Threshold]) -> _Outcome:
    figures = [name for name in METRICS if rows[f"error_{name}"].notna().any()]
    reasons = left_out(rows)
    if not figures:
        raise ConfigError("no run can be compared\n" + "\n".join(left_out_lines(reasons)))
    table = error_table(rows, GROUP)
    return _Outcome(
        rows,
        figures,
        errors_of_groups(table, GROUP),
        worst_runs(worst_rows(rows, figures, WORST_SHOWN), figures[:2]),
        reasons,
        [threshold.verdict(rows) for threshold in thresholds],
    )


def _show(outcome: _Outcome, console: Console, written: Sequence[str], out: Path | None) -> None:
    compared = int((outcome.rows["problem"] == "").sum())
    console.print(f"{compared} of {len(outcome.rows)} runs simulated", style="bold")
    for table in (outcome.errors, outcome.worst):
        console.print(f"\n{table.title}")
        console.print(to_rich(table))
    console.print(outcome.errors.note)
    if outcome.left_out:
        console.print("\nNot compared")
        for line in left_out_lines(outcome.left_out):
            console.print(line, soft_wrap=True)
    for verdict in outcome.verdicts:
        words = "within" if verdict["met"] else "ABOVE"
        value = f"{verdict['figure']} {verdict['statistic']} {verdict['value_pct']:.1f} %"
        console.print(f"{value}: {words} the threshold of {verdict['limit_pct']:g} %")
    if out is not None:
        console.print(f"Written: {out}/{', '.join(written)}")


def _plain(outcome: _Outcome) -> dict[str, Any]:
    return {
        "runs": len(outcome.rows),
        "simulated": int((outcome.rows["problem"] == "").sum()),
        "errors": json.loads(error_table(outcome.rows, GROUP).to_json(orient="records")),
        "worst": json.loads(worst_rows(outcome.rows, outcome.figures, WORST_SHOWN).to_json(orient="records")),
        "not_compared": [{"reason": why, "runs": number} for why, number in outcome.left_out],
        "thresholds": list(outcome.verdicts),
    }


def _write(outcome: _Outcome, folder: Path) -> list[str]:
    from servecast.reports.figures.parity import parity
    from servecast.reports.figures.style import draw, save

    outcome.rows.to_csv(folder / "rows.csv", index=False, float_format="%.6g")
    (folder / "errors.csv").write_text(to_csv(outcome.errors), encoding="utf-8")
    panels = parity_panels(outcome.rows, [figure for figure in outcome.figures if figure in TIMES][:2])
    if not panels:
        return ["rows.csv", "errors.csv"]
    save(draw(parity(panels, "ms")), folder)
    return ["rows.csv", "errors.csv", "parity.svg", "parity.png"]
