"""How well the sizes that `servecast measure` takes determine the coefficients: fits to these rows of public tables.

    python benchmarks/calibration/plan.py DATA/ops

DATA/ops holds the kernel tables of aiconfigurator-core 0.12.0 (Apache-2.0) as CSV. From each group of rows those of the
plan are fitted, starting from the universal default, and held against all other rows: median / 90th percentile, beside
the error of the default. Rows that the tables lack, or have only from a warm cache, are missing from the fit. NVFP4
and all-reduces are left out: the one is not measured, the others' sizes are those of the tables.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from public_tables import TABLES
from round_trip import groups_of

from servecast.configs.kernel_tables.group import Group
from servecast.hardware.measure.plan import Attention, Gemm, items
from servecast.model.calibration.attention import AttentionRows
from servecast.model.calibration.fitting import Rows, error_pair, fit
from servecast.model.calibration.gemm import GemmRows


def in_plan(group: Group) -> np.ndarray:
    """Which rows of `group` the plan has."""
    rows = group.rows
    planned = {_key(item) for item in items() if isinstance(item, Gemm | Attention)}
    return np.array([key in planned for key in _keys(group.name, rows)])


def _key(item: Gemm | Attention) -> tuple[object, ...]:
    if isinstance(item, Gemm):
        return item.m, item.n, item.k
    kind = "prefill" if item.step == 0 else "decode"
    tokens = item.isl if item.step == 0 else item.step + 1
    return kind, item.batch_size, tokens, item.num_heads, item.num_key_value_heads


def _keys(name: str, rows: Rows) -> list[tuple[object, ...]]:
    if isinstance(rows, GemmRows):
        return [tuple(map(int, key)) for key in zip(rows.m, rows.n, rows.k, strict=True)]
    assert isinstance(rows, AttentionRows)
    kind = "prefill" if name == "prefill" else "decode"
    sizes = zip(rows.batch, rows.tokens, rows.heads, rows.kv_heads, strict=True)
    return [(kind, *map(int, size)) for size in sizes]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    print("| GPU | group | points of the plan | error on the others | universal default | stay at their default |")
    print("|---|---|---|---|---|---|")
    folder = parser.parse_args().folder
    for gpu in TABLES:
        for group in groups_of(folder, gpu):
            if group.name.startswith(("all_reduce", "gemm_nvfp4")):
                continue
            taken = in_plan(group)
            found = fit(group.form, group.rows.where(taken), group.defaults)
            rest = group.rows.where(~taken)
            error = error_pair(group.form.seconds(rest, found.values), rest.seconds)
            default = error_pair(group.form.seconds(rest, group.defaults), rest.seconds)
            kept = ", ".join(found.kept) or "-"
            print(f"| {gpu} | {group.name} | {taken.sum()} | {error} | {default} | {kept} |")


if __name__ == "__main__":
    main()
