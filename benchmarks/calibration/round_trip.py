"""Calibrate, then validate: coefficients fitted to half of the measured shapes, held against the other half.

    python benchmarks/calibration/round_trip.py DATA/ops
    python benchmarks/calibration/round_trip.py DATA/ops --write docs/calibration.md

DATA/ops holds the kernel tables of aiconfigurator-core 0.12.0 (Apache-2.0) as CSV. Every fit starts from the universal
default, as if nobody had measured the GPU. A shape is a weight matrix (GEMM), a kind of heads (attention) or a message
size (all-reduce), so that no shape is on both sides. `refused`: half of the shapes determines no coefficient.
`32 GEMMs` are fits to 32 points drawn at random, held against all other points: the median of 20 draws, and the worst.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from public_tables import TABLES, read_tables

from servecast.configs.kernel_tables.group import Group
from servecast.configs.kernel_tables.groups import kernel_groups
from servecast.hardware.engines import load_engine
from servecast.hardware.gpus import load_gpu
from servecast.model.calibration.fitting import ErrorPair, error_pair, fit, fold_numbers

ENGINE = "vllm-0.19"
DRAWS, DRAWN = 20, 32
_BEGIN, _END = "<!-- round trip -->", "<!-- end of round trip -->"


def groups_of(folder: Path, gpu: str) -> list[Group]:
    """What there is to fit, starting from the universal default."""
    unmeasured = replace(load_engine(ENGINE), kernels={})
    return kernel_groups(read_tables(folder, gpu), load_gpu(gpu), unmeasured)[0]


def half_and_half(group: Group) -> tuple[ErrorPair | str, dict[str, ErrorPair], ErrorPair]:
    """Error on the half that was not fitted: in all and by regime; and that of the universal default on it."""
    halves = fold_numbers(group.form.shapes(group.rows), 2)
    fitted = fit(group.form, group.rows.where(halves == 0), group.defaults)
    other = group.rows.where(halves == 1)
    predicted = group.form.seconds(other, fitted.values)
    regimes = group.form.regimes(other, fitted.values)
    by_regime = {name: error_pair(predicted[m], other.seconds[m]) for name, m in regimes.items() if m.any()}
    default = error_pair(group.form.seconds(other, group.defaults), other.seconds)
    return error_pair(predicted, other.seconds) if fitted.free else "refused", by_regime, default


def few_points(group: Group) -> list[ErrorPair]:
    """Errors on all other points of fits to DRAWN points each."""
    errors = []
    for seed in range(DRAWS):
        drawn = np.zeros(len(group.rows), dtype=bool)
        drawn[np.random.default_rng(seed).choice(len(group.rows), DRAWN, replace=False)] = True
        fitted = fit(group.form, group.rows.where(drawn), group.defaults)
        rest = group.rows.where(~drawn)
        errors.append(error_pair(group.form.seconds(rest, fitted.values), rest.seconds))
    return errors


def lines(folder: Path) -> Iterator[str]:
    """Two Markdown tables."""
    kinds: list[str] = []
    few: list[str] = []
    for gpu in TABLES:
        for group in groups_of(folder, gpu):
            error, by_regime, default = half_and_half(group)
            regimes = ", ".join(f"{name} {e}" for name, e in by_regime.items())
            kinds.append(f"| {gpu} | {group.name} | {len(group.rows):,} | {error} | {default} | {regimes} |")
            if group.name.startswith("gemm"):
                draws = few_points(group)
                medians = [draw.median_pct for draw in draws]
                p90 = float(np.median([draw.p90_pct for draw in draws]))
                few.append(f"| {gpu} | {group.name} | {np.median(medians):.1f}%/{p90:.1f}% | {max(medians):.1f}% |")
    yield from (
        "| GPU | group | points | half of the shapes | universal default | by regime |",
        "|---|---|---|---|---|---|",
        *kinds,
        "",
        f"| GPU | group | {DRAWN} GEMMs | worst median of {DRAWS} draws |",
        "|---|---|---|---|",
        *few,
    )


def _insert(file: Path, text: str) -> None:
    page = file.read_text(encoding="utf-8")
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    file.write_text(f"{before}{_BEGIN}\n\n{text}\n\n{_END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the tables into this page")
    arguments = parser.parse_args()
    text = "\n".join(lines(arguments.folder))
    print(text)
    if arguments.write is not None:
        _insert(arguments.write, text)


if __name__ == "__main__":
    main()
