"""Predicted against measured serving runs: TPOT, TTFT, throughput and more, by GPU, engine and model.

    python benchmarks/accuracy/serving.py DATA/e2e [--only WORD]... [--rows] [--out DIR] [--jobs N]

DATA/e2e holds serving_measured.csv, serving_open_and_offline.csv, B01_requests.csv, B02_requests.csv,
bench_outputs.json and U01_splitwise_a100_h100.json. rules.yaml beside this script says where each is from, what had to
be assumed, which figures are left out and why, and which figures a number of the model was chosen by ("fit" in the
column `rows`; all other rows are a test).

Beside the model's errors stand those of two others on the same runs: `roofline`, the datasheet with every efficiency 1
and no overheads, and `unmeasured`, the coefficients that a GPU without measurements of its own would get.
`--server-ms 10 20 30` shows what other times that the server takes for a request would give, to choose it.
--only takes the runs whose source, GPU, engine, model or file hold the word; several must all be there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
from published import published_runs

from servecast.configs.measured import MeasuredRun, complete, read_rules, read_runs
from servecast.hardware.engines import EngineProfile
from servecast.hardware.gpus import Gpu
from servecast.reports.table_formats import to_markdown
from servecast.reports.validation_tables import errors_of_groups, left_out_lines
from servecast.sweeps.validation.errors import GROUP, error_table, gpu_ratios, left_out, rows_frame
from servecast.sweeps.validation.predict import COMPARED, MODEL_ONLY, Variant, predict

FILES = ("serving_measured.csv", "serving_open_and_offline.csv", "B01_requests.csv", "B02_requests.csv")
# The GPUs whose ratio is compared where both were measured at the same work: an old engine's times say little, but
# their ratio says how the GPUs compare.
RATIO_OF = ("a100-80gb-sxm", "h100-sxm")
RULES = Path(__file__).with_name("rules.yaml")


def measured_runs(folder: Path, only: list[str]) -> list[MeasuredRun]:
    """All runs of the files in `folder` that hold every word of `only`."""
    rules = read_rules(RULES)
    runs = [run for name in FILES for run in read_runs(folder / name, rules)]
    runs += complete(published_runs(folder), rules)
    return [run for run in runs if all(word.lower() in _words(run) for word in only)]


def _words(run: MeasuredRun) -> str:
    named = (run.settings.get(key, "") for key in ("gpu", "engine", "model"))
    return " ".join((run.place, *run.cells.values(), *named)).lower()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="only runs that hold the word")
    parser.add_argument("--rows", action="store_true", help="print every run too")
    parser.add_argument("--out", type=Path, help="folder for rows.csv, groups.csv and groups.md")
    parser.add_argument("--jobs", type=int, default=-1, help="processes; default: one a core")
    parser.add_argument("--fast", action="store_true", help="the model alone, without the two it is compared with")
    parser.add_argument("--server-ms", type=float, nargs="+", help="beside the model: other server times of a request")
    arguments = parser.parse_args()
    runs = measured_runs(arguments.folder, arguments.only)
    rows = rows_frame(predict(runs, _variants(arguments), jobs=arguments.jobs, progress=_progress))
    by = ("source", *GROUP)
    table = error_table(rows, by)
    if arguments.rows:
        print(rows.drop(columns=["note", "left_out"]).round(2).to_csv(index=False), end="\n\n")
    text = f"{to_markdown(errors_of_groups(table, by))}\n{_left_out_text(rows)}\n{_ratio_text(rows)}"
    print(text)
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        rows.to_csv(arguments.out / "rows.csv", index=False, float_format="%.6g")
        table.to_csv(arguments.out / "groups.csv", index=False, float_format="%.4g")
        (arguments.out / "groups.md").write_text(text, encoding="utf-8")


def _variants(arguments: argparse.Namespace) -> Mapping[str, Variant]:
    if arguments.server_ms:
        return MODEL_ONLY | {f"server {ms:g} ms": partial(_with_server_time, ms=ms) for ms in arguments.server_ms}
    return MODEL_ONLY if arguments.fast else COMPARED


def _with_server_time(profile: EngineProfile, _gpu: Gpu, ms: float) -> EngineProfile:
    return replace(profile, host=replace(profile.host, server_s=ms / 1e3))


def _left_out_text(rows: pd.DataFrame) -> str:
    counts = [f"- {line}" for line in left_out_lines(left_out(rows))]
    return "\n".join([f"{len(rows)} runs. Left out:", *(counts or ["- nothing"])])


def _ratio_text(rows: pd.DataFrame) -> str:
    ratios = gpu_ratios(rows, *RATIO_OF)
    if not len(ratios):
        return ""
    table = error_table(
        ratios.assign(fitted="", problem=""), ("source", "model", "dtype"), ["tpot", "ttft", "throughput"]
    )
    title = "Ratio of the two GPUs, predicted over measured: " + " to ".join(RATIO_OF)
    return f"\n{title}\n\n{to_markdown(errors_of_groups(table, ('source', 'model', 'dtype')))}"


def _progress(done: int, total: int) -> None:
    if done % 20 == 0 or done == total:
        print(f"\r{done}/{total} runs", end="\n" if done == total else "", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
