"""Prints `by_tokens` of the GEMM entries of hardware/engines/kernels/<gpu>.yaml: measured over predicted by tokens.

    python benchmarks/calibration/token_factors.py DATA/ops h100_sxm

DATA/ops holds gemm_aic_<gpu>.csv.gz, kernel tables of aiconfigurator-core 0.12.0 (Apache-2.0).

Libraries choose the kernel of a GEMM by its number of tokens: on H200 vLLM's FP8 kernel for 17 to 32 tokens takes 20 %
longer than that for 9 to 16, and 33 to 64 tokens are cheaper again. No smooth form has that. So each range of tokens
gets the median ratio of measured to predicted over the weight shapes. Four fifths of the shapes make it; the error on
the fifth that was held out is printed without and with it.

Weights of vLLM's 16-bit measurements were uninitialised memory, which makes large GEMMs, limited by power, too fast.
Above 256 tokens vLLM's factors are therefore those of the other two libraries, which call the same kernels.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from servecast.hardware.engines import load_engine
from servecast.hardware.engines.profile import TOKEN_EDGES
from servecast.hardware.gpus import load_gpu
from servecast.model.precision import gemm_form

GPUS = {
    "a100_sxm": "a100-80gb-sxm",
    "h100_sxm": "h100-sxm",
    "h200_sxm": "h200-sxm",
    "b200_sxm": "b200-sxm",
    "l40s": "l40s",
    "rtx_pro_6000_server": "rtx-pro-6000",
}
PROFILES = {"vllm": "vllm-0.19", "sglang": "sglang-0.5", "trtllm": "trtllm-1.0"}
WEIGHT_BYTES = {"bfloat16": 2.0, "fp8": 1.0, "nvfp4": 0.5625}
# Weights of which six copies stay in the L2 cache were not read from memory by the benchmark.
COPIES, L2_MARGIN = 6, 1.5
NARROWEST = 1024
LIMITED_BY_POWER_TOKENS = 256


def ratios(folder: Path, name: str, engine: str, dtype: str) -> pd.DataFrame:
    """Measured over predicted, without factors, of each point; its range of tokens; whether it is held out."""
    gpu = load_gpu(GPUS[name])
    form = gemm_form(dtype, gpu, load_engine(PROFILES[engine]).kernels_for(GPUS[name]))
    form = replace(form, coefficients=replace(form.coefficients, by_tokens=()))
    table = pd.read_csv(folder / f"gemm_aic_{name}.csv.gz")
    table = table[(table["backend"] == engine) & (table["gemm_dtype"] == dtype)]
    table = table[table[["n", "k"]].min(axis=1) >= NARROWEST]
    table = table[table["n"] * table["k"] * COPIES * WEIGHT_BYTES[dtype] > L2_MARGIN * gpu.l2_mb * 1e6]
    m, n, k = (table[column].to_numpy(float) for column in "mnk")
    return pd.DataFrame(
        {
            "ratio": table["latency_us"].to_numpy(float) / (np.asarray(form.seconds(m, n, k).total_s) * 1e6),
            "range": np.searchsorted(TOKEN_EDGES, m),
            "held_out": ((n * 7919 + k * 104729) % 10 >= 8),
        }
    )


def factors(rows: pd.DataFrame) -> pd.Series:
    """By range; a range without measurements has its lower neighbour's."""
    medians = rows[~rows["held_out"]].groupby("range")["ratio"].median()
    return medians.reindex(range(len(TOKEN_EDGES) + 1)).ffill().bfill()


def error(ratio: pd.Series) -> str:
    absolute = (1 / ratio - 1).abs() * 100
    return f"{absolute.median():.1f}%/{absolute.quantile(0.9):.1f}%"


def report(folder: Path, name: str, engine: str, dtype: str) -> None:
    rows = ratios(folder, name, engine, dtype)
    if rows.empty:
        return
    by_range = factors(rows)
    if engine == "vllm" and dtype == "bfloat16":
        others = pd.concat([ratios(folder, name, other, dtype) for other in ("sglang", "trtllm")])
        large = TOKEN_EDGES.index(LIMITED_BY_POWER_TOKENS) + 1
        by_range[large:] = factors(others)[large:]
    held_out = rows[rows["held_out"]]
    with_factors = held_out["ratio"] / held_out["range"].map(by_range)
    print(f"{dtype} {engine}: by_tokens: {by_range.round(3).tolist()}")
    print(f"  held out: {error(held_out['ratio'])} without, {error(with_factors)} with")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("gpu", choices=sorted(GPUS))
    arguments = parser.parse_args()
    for dtype in WEIGHT_BYTES:
        for engine in PROFILES:
            try:
                report(arguments.folder, arguments.gpu, engine, dtype)
            except KeyError:
                print(f"{dtype} {engine}: no coefficients")


if __name__ == "__main__":
    main()
