"""Predicted against measured TTFT, TPOT and E2EL of open-loop runs: vLLM 0.15.1 on H100, Poisson arrivals.

    python benchmarks/accuracy/open_loop.py DATA/e2e/serving_open_and_offline.csv [--rows] [--limit N]

The measured rows are from inference-sim's public repositories (sources blis_training and blis_sim2real). As stated
there: 100 distinct prompts are cycled, so that from request 101 on nearly the whole prompt is a hit in the prefix
cache; max_model_len 4096. Lengths are given as means and simulated as fixed. Nothing was fitted to these rows here;
the engine profile's host time of a step (0.5 ms) and server time (6 ms) come from a feasibility check against the
same runs, so they are no independent test of the mean TTFT.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from servecast import simulate
from servecast.configs.load import scenario_from
from servecast.configs.scenario import Scenario

SOURCES = ("blis_training", "blis_sim2real")
METRICS = {
    "ttft_mean_ms": "mean_ttft_ms",
    "ttft_p99_ms": "p99_ttft_ms",
    "tpot_mean_ms": "mean_tpot_ms",
    "e2e_mean_ms": "mean_e2el_ms",
}


def measured_rows(file: Path) -> pd.DataFrame:
    rows = pd.read_csv(file)
    rows = rows[rows["source"].isin(SOURCES) & rows["gpu_sku"].str.startswith("H100") & rows["request_rate"].notna()]
    return rows[rows["mode"].str.startswith("open")].reset_index(drop=True)


def scenario(row: pd.Series) -> Scenario:
    """The settings of a row; the KV pool is the recorded one where it is known."""
    replica = {"tensor_parallel_size": int(row["tp"]), "max_model_len": 4096}
    if row["precision"] == "fp8":
        replica["dtype"] = "fp8"
    if row["kv_tokens"] > 0:
        replica["kv_pool_blocks"] = int(row["kv_tokens"]) // 16
    scheduler = {"enable_prefix_caching": True}
    for key in ("max_num_batched_tokens", "max_num_seqs"):
        if row[key] > 0:
            scheduler[key] = int(row[key])
    return scenario_from(
        {
            "model": row["model"],
            "gpu": "h100-sxm",
            "engine": "vllm-0.15",
            "replica": replica,
            "scheduler": scheduler,
            "workload": {
                "num_requests": int(row["n_requests"]),
                "arrivals": {"process": "poisson", "request_rate": float(row["request_rate"])},
                "prompts": {"distinct": 100},
                "lengths": {
                    "prompt": {"distribution": "fixed", "value": round(row["input_len"])},
                    "output": {"distribution": "fixed", "value": round(row["output_len"])},
                },
            },
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rows", action="store_true", help="print every row")
    parser.add_argument("--limit", type=int, help="only the first N rows")
    arguments = parser.parse_args()
    rows = measured_rows(arguments.file).head(arguments.limit)
    dense = ~rows["model"].str.contains("Mixtral")
    if not dense.all():
        print(f"{(~dense).sum()} rows of Mixtral left out: mixtures of experts have no step cost yet")
    rows = rows[dense]
    table = rows[["model", "tp", "request_rate", "input_len", "output_len"]].copy()
    summaries = [simulate(scenario(row)).summary for _, row in rows.iterrows()]
    for column, key in METRICS.items():
        table[column.removesuffix("_ms")] = [
            (s[key] / m - 1) * 100 for s, m in zip(summaries, rows[column], strict=True)
        ]
    if arguments.rows:
        print(table.round(1).to_string(index=False))
    print(f"{len(table)} rows; errors in percent of the measured value")
    for column in METRICS:
        errors = table[column.removesuffix("_ms")].dropna()
        absolute = errors.abs()
        print(
            f"{column}: {len(errors)} rows, median {absolute.median():.1f} %, p90 {absolute.quantile(0.9):.1f} %, "
            f"bias {errors.median():+.1f} %"
        )


if __name__ == "__main__":
    main()
