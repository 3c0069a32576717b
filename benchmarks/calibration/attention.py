"""Fits prefill and decode attention of an engine; prints entries of hardware/engines/kernels/<gpu>.yaml.

    python benchmarks/calibration/attention.py DATA/ops h100_sxm trtllm

DATA/ops holds attn_prefill_aic_<gpu>.csv.gz and attn_decode_aic_<gpu>.csv.gz, tables of aiconfigurator-core 0.12.0
(Apache-2.0): head size 128, one query and KV head count a row, batches of equal lengths. Robust least squares on
log(predicted / measured); a third of the head counts is held out and tells the error.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import least_squares

from servecast.hardware.gpus import load_gpu

Floats = NDArray[np.float64]
GPUS = {
    "a100_sxm": "a100-80gb-sxm",
    "h100_sxm": "h100-sxm",
    "h200_sxm": "h200-sxm",
    "b200_sxm": "b200-sxm",
    "l40s": "l40s",
    "rtx_pro_6000_server": "rtx-pro-6000",
}
HEAD_SIZE = 128
# A KV cache between these shares of the L2 cache was partly read from there.
IN_MEMORY, IN_CACHE_BYTES = 1.5, 1e6
HELD_OUT = 3


def read(file: Path, tokens: str, engine: str, kv_cache: str) -> pd.DataFrame:
    """Median time of each shape, whose column `tokens` says how long it is; `held_out` by head counts."""
    table = pd.read_csv(file)
    table = table[(table["backend"] == engine) & (table["head_dim"] == HEAD_SIZE)]
    table = table[table["kv_cache_dtype"] == kv_cache]
    shape = ["batch_size", tokens, "num_heads", "num_key_value_heads"]
    if "attn_dtype" in table:
        table = table[table["attn_dtype"] == "bfloat16"]
    table = table.groupby(shape, as_index=False)["latency_us"].median()
    table.columns = pd.Index(["b", "tokens", "h", "hk", "us"])
    table["held_out"] = (table["h"] * 7 + table["hk"] * 3) % HELD_OUT == 0
    return table


def decode(folder: Path, name: str, engine: str, kv_cache: str = "bfloat16") -> None:
    gpu = load_gpu(GPUS[name])
    table = read(folder / f"attn_decode_aic_{name}.csv.gz", "step", engine, kv_cache)
    kv_bytes = 2.0 if kv_cache == "bfloat16" else 1.0
    b, context, h, hk = (table[c].to_numpy(float) for c in ("b", "tokens", "h", "hk"))
    context = context + 1
    cache = 2 * b * hk * context * HEAD_SIZE * kv_bytes
    kept = (cache >= IN_MEMORY * gpu.l2_mb * 1e6) | (cache <= IN_CACHE_BYTES)
    traffic_us = (cache + 4 * b * h * HEAD_SIZE) / gpu.memory_bytes_per_s * 1e6

    def predict(x: Floats) -> Floats:
        return np.asarray(x[0] + traffic_us / x[1] + x[2] * b * hk / gpu.sm_count + x[3] * context / 1000)

    names = ("t0_us", "e_m", "c_item_us", "c_ctx_us_per_1k")
    start, low, high = (10.0, 0.9, 2.0, 0.1), (0.0, 0.3, 0.0, 0.0), (60.0, 1.1, 20.0, 5.0)
    report("decode" if kv_bytes == 2 else "decode_fp8_kv", names, predict, table, kept, (start, low, high))


def prefill(folder: Path, name: str, engine: str) -> None:
    gpu = load_gpu(GPUS[name])
    table = read(folder / f"attn_prefill_aic_{name}.csv.gz", "isl", engine, "bfloat16")
    b, s, h, hk = (table[c].to_numpy(float) for c in ("b", "tokens", "h", "hk"))
    peak, bandwidth = gpu.peak_flops["16bit"] * 1e-6, gpu.memory_bytes_per_s * 1e-6

    def predict(x: Floats) -> Floats:
        compute = 2 * b * h * HEAD_SIZE * s * (s + x[3]) / (x[1] * peak)
        memory = b * s * HEAD_SIZE * (4 * h + 8 * hk) / (x[2] * bandwidth)
        tail = x[4] * 4 * 128 * HEAD_SIZE * s * gpu.sm_count / (x[1] * peak)
        return np.asarray(x[0] + compute + memory + tail)

    names = ("t0_us", "e_c", "e_m", "s_half", "c_tail")
    start, low, high = (10.0, 0.6, 0.9, 300.0, 0.1), (0.0, 0.2, 0.3, 0.0, 0.0), (60.0, 1.1, 1.1, 3000.0, 5.0)
    report("prefill", names, predict, table, np.ones(len(table), bool), (start, low, high))


def report(
    group: str,
    names: tuple[str, ...],
    predict: Callable[[Floats], Floats],
    table: pd.DataFrame,
    kept: NDArray[np.bool_],
    bounds: tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]],
) -> None:
    measured, held_out = table["us"].to_numpy(float), table["held_out"].to_numpy()
    fitted, start = kept & ~held_out, np.array(bounds[0])
    if not fitted.any():
        return
    x = least_squares(
        lambda x: np.log(predict(x) / measured)[fitted],
        start,
        bounds=bounds[1:],
        loss="soft_l1",
        f_scale=0.1,
        x_scale=start,
    ).x
    ratio = (predict(x) / measured)[kept & held_out]
    error = np.abs(ratio - 1) * 100
    values = ", ".join(f"{name}: {value:.3g}" for name, value in zip(names, x, strict=True))
    print(f"{group}: {{{values},")
    print(
        f"  heldout: {np.median(error):.1f}%/{np.quantile(error, 0.9):.1f}%}}  # bias {np.median(ratio) - 1:+.1%}, "
        f"{len(error)} of {kept.sum()} points held out"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("gpu", choices=sorted(GPUS))
    parser.add_argument("engine", choices=["vllm", "sglang", "trtllm"])
    arguments = parser.parse_args()
    prefill(arguments.folder, arguments.gpu, arguments.engine)
    for kv_cache in ("bfloat16", "fp8"):
        decode(arguments.folder, arguments.gpu, arguments.engine, kv_cache)


if __name__ == "__main__":
    main()
