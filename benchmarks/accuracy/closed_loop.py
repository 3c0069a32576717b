"""Predicted against measured TPOT and mean TTFT of closed-loop runs: Llama-3.1-70B FP8 on vLLM, H100 and H200.

    python benchmarks/accuracy/closed_loop.py DATA/e2e/serving_measured.csv [--gpu h100-sxm] [--rows]

The measured rows are those of aiconfigurator's silicon_sample.csv (Apache-2.0). As stated there: `concurrency` clients,
10 prompts a client, input and output lengths uniform in 0.8 to 1.0 of the nominal ones, all clients start at once.
Nothing in the engine profile is fitted to the H100 rows. The one number that closed-loop rows informed is the server
time of a request: `--server-times` shows the error over it; the H200 rows choose it, so those are no test of the mean
TTFT.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from servecast.configs.build import build_simulation
from servecast.configs.load import scenario_from
from servecast.configs.scenario import Scenario
from servecast.model.metrics import summarise
from servecast.model.simulation import run_simulation

GPUS = {"h100_sxm": "h100-sxm", "h200_sxm": "h200-sxm", "b200_sxm": "b200-sxm"}
ENGINE = "vllm-0.10"
PROMPTS_PER_CLIENT = 10


def measured_rows(file: Path, gpu: str) -> pd.DataFrame:
    """The vLLM rows of Llama-3.1-70B in FP8 on `gpu`."""
    rows = pd.read_csv(file)
    chosen = (rows["backend"] == "vllm") & (rows["model_path"] == "meta-llama/Llama-3.1-70B")
    rows = rows[chosen & (rows["precision"] == "fp8") & (rows["system"].map(GPUS) == gpu)]
    return rows.sort_values(["tp_size", "isl", "osl", "concurrency"]).reset_index(drop=True)


def scenario(row: pd.Series, gpu: str, kv_cache_dtype: str) -> Scenario:
    """The settings of a row, as far as they are stated; vLLM's defaults for the rest."""
    concurrency, isl, osl = int(row["concurrency"]), int(row["isl"]), int(row["osl"])
    lengths = {
        name: {"distribution": "uniform", "low": int(0.8 * nominal), "high": nominal}
        for name, nominal in (("prompt", isl), ("output", osl))
    }
    return scenario_from(
        {
            "model": "llama-3.1-70b",
            "gpu": gpu,
            "engine": ENGINE,
            "replica": {
                "tensor_parallel_size": int(row["tp_size"]),
                "dtype": "fp8",
                "kv_cache_dtype": kv_cache_dtype,
                "max_model_len": isl + osl + 200,
            },
            "scheduler": {"max_num_seqs": 512},
            "workload": {
                "num_requests": PROMPTS_PER_CLIENT * concurrency,
                "arrivals": {"process": "closed_loop", "concurrency": concurrency},
                "lengths": lengths,
            },
        }
    )


def predict(rows: pd.DataFrame, gpu: str, kv_cache_dtype: str, server_ms: float | None = None) -> pd.DataFrame:
    """`rows` with predicted figures and their errors in percent; server_ms: in place of the profile's."""
    summaries = [summary(scenario(row, gpu, kv_cache_dtype), server_ms) for _, row in rows.iterrows()]
    table = rows[["tp_size", "isl", "osl", "concurrency", "measured_tpot_ms", "measured_ttft_ms"]].copy()
    for metric in ("tpot", "ttft"):
        table[f"{metric}_ms"] = [summary[f"mean_{metric}_ms"] for summary in summaries]
        table[f"{metric}_error_pct"] = (table[f"{metric}_ms"] / table[f"measured_{metric}_ms"] - 1) * 100
    return table


def summary(scenario: Scenario, server_ms: float | None) -> dict[str, Any]:
    parameters = build_simulation(scenario)
    if server_ms is not None:
        host = replace(parameters.engine.host, server_s=server_ms / 1e3)
        parameters = replace(parameters, engine=replace(parameters.engine, host=host))
    return summarise(run_simulation(parameters))


def statistics(table: pd.DataFrame) -> Iterator[str]:
    for metric, name in (("tpot", "TPOT"), ("ttft", "mean TTFT")):
        errors = table[f"{metric}_error_pct"]
        absolute = errors.abs()
        yield (
            f"{name}: median error {absolute.median():.1f} %, p90 {absolute.quantile(0.9):.1f} %, "
            f"worst {absolute.max():.1f} %, bias {errors.median():+.1f} %"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--gpu", choices=sorted(GPUS.values()), default="h100-sxm")
    parser.add_argument("--kv-cache-dtype", default="auto", help="auto or fp8; the rows do not state it")
    parser.add_argument("--rows", action="store_true", help="print every row")
    parser.add_argument("--server-times", action="store_true", help="show the error over the server time")
    arguments = parser.parse_args()
    rows = measured_rows(arguments.file, arguments.gpu)
    if arguments.server_times:
        for server_ms in (5, 10, 15, 20, 25, 30):
            errors = predict(rows, arguments.gpu, arguments.kv_cache_dtype, server_ms)["ttft_error_pct"]
            off, bias = errors.abs().median(), errors.median()
            print(f"server {server_ms} ms: mean TTFT off by {off:.1f} %, bias {bias:+.1f} %")
        return
    table = predict(rows, arguments.gpu, arguments.kv_cache_dtype)
    if arguments.rows:
        print(table.round(2).to_string(index=False))
    print(f"{arguments.gpu}, {ENGINE}, Llama-3.1-70B FP8: {len(table)} rows")
    print("\n".join(statistics(table)))


if __name__ == "__main__":
    main()
