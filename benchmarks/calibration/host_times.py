"""Fits the host times of an engine profile (step, peer, request, sampling) to some measured runs, tests them on others.

    python benchmarks/calibration/host_times.py DATA/e2e vllm-0.10

Runs and what is assumed of them: benchmarks/accuracy/rules.yaml. The profile is simulated without host times and once
more with 1 ms a step. What a further step costs a token follows from the two; the other times scale with it: by the
other GPUs of the replica, the requests in a step, and their logits. Then robust non-negative least squares on the
relative error of the time between tokens.

FITS says which runs train. All other runs of the profile are the test; the two are never of the same layout and model.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import least_squares

from servecast.configs.architectures import load_architecture
from servecast.configs.measured import MeasuredRun, read_rules, read_runs
from servecast.hardware.engines import EngineProfile, HostTimes
from servecast.hardware.gpus import Gpu, load_gpu
from servecast.sweeps.validation.predict import Prediction, predict

Floats = NDArray[np.float64]
FILES = ("serving_measured.csv", "serving_open_and_offline.csv")
RULES = Path(__file__).parents[1] / "accuracy" / "rules.yaml"
MILLISECOND = 1e-3


@dataclass(frozen=True)
class Fit:
    """free: fields of HostTimes. trains: whether a row of `rows_frame` trains."""

    free: tuple[str, ...]
    trains: Callable[[pd.Series], bool]
    what: str


FITS = {
    "vllm-0.10": Fit(("step_s", "peer_s", "request_s"), lambda row: row["gpu"] == "h100-sxm", "H100"),
    "vllm-0.12": Fit(("step_s", "request_s"), lambda row: row["gpus"] == 2, "TP2"),
    "vllm-0.15": Fit(
        ("step_s", "sampling_bytes"),
        lambda row: (
            row["model"] == "llama-3.1-8b" and row["gpus"] == 1 and row["output"] < 1000 and row["budget"] > 1024
        ),
        "Llama-3.1-8B on one GPU, 247 to 251 output tokens, budget above 1,024",
    ),
    "sglang-0.5": Fit(("step_s", "request_s"), lambda row: row["gpus"] == 2, "TP2"),
    "trtllm-1.0": Fit(("step_s", "peer_s", "request_s"), lambda row: row["model"] == "llama-3.1-8b", "Llama-3.1-8B"),
}


def with_host(profile: EngineProfile, _gpu: Gpu, host: HostTimes) -> EngineProfile:
    return replace(profile, host=replace(host, server_s=profile.host.server_s))


def rows_frame(predictions: list[Prediction]) -> pd.DataFrame:
    """Time between tokens in ms: measured, and of each variant; and what the host times scale with."""
    rows = []
    for prediction in predictions:
        run, cells = prediction.run, prediction.run.cells
        if prediction.problem is not None:
            continue
        output, figures = _number(cells, "osl", "output_len"), prediction.figures
        architecture = load_architecture(prediction.model)
        rows.append(
            {
                "gpu": prediction.gpu,
                "model": prediction.model,
                "gpus": int(_number(cells, "tp_size", "tp")),
                "output": output,
                "budget": _number(cells, "max_num_batched_tokens", default=np.inf),
                "measured": _between_tokens(run, output),
                "vocab": architecture.vocab_size,
                "bytes_per_s": load_gpu(prediction.gpu).memory_bytes_per_s,
                "batch": _batch(cells, _between_tokens(run, output) * output),
                **{name: values["tpot"] for name, values in figures.items()},
            }
        )
    return pd.DataFrame(rows)


def _between_tokens(run: MeasuredRun, output: float) -> float:
    """From E2EL and TTFT where both were measured: the TPOT of some runs divides by another number of tokens."""
    figures = run.figures
    if "e2el" in figures and "ttft" in figures:
        return (figures["e2el"] - figures["ttft"]) / (output - 1)
    return figures["tpot"]


def _batch(cells: Mapping[str, str], stay_ms: float) -> float:
    """Requests at once: the clients, or arrivals times stay (Little)."""
    clients = _number(cells, "concurrency", default=np.nan)
    return clients if clients > 0 else _number(cells, "request_rate") * stay_ms / 1e3


def _number(cells: Mapping[str, str], *names: str, default: float | None = None) -> float:
    text = next((cells[name] for name in names if cells.get(name)), None)
    if text is None and default is not None:
        return default
    return float(text or "nan")


def _usable(run: MeasuredRun) -> bool:
    return "tpot" in run.figures and bool(run.cells.get("concurrency") or run.cells.get("request_rate"))


def fit(rows: pd.DataFrame, free: tuple[str, ...]) -> HostTimes:
    per_step = rows["slower"] - rows["none"]
    scale = {"step_s": 1.0, "peer_s": rows["gpus"] - 1, "request_s": rows["batch"]}
    scale["sampling_bytes"] = rows["batch"] * rows["vocab"] / rows["bytes_per_s"]
    effects = np.stack([(per_step * scale[name] / rows["measured"]).to_numpy(float) for name in free], axis=1)
    missing = ((rows["measured"] - rows["none"]) / rows["measured"]).to_numpy(float)
    size = 1 / np.abs(effects).max(axis=0)

    def residuals(x: Floats) -> Floats:
        return np.asarray(effects @ x - missing)

    found = least_squares(residuals, size * 0.1, bounds=(0, np.inf), x_scale=size, loss="soft_l1", f_scale=0.03).x
    times = dict(zip(free, (float(x) * MILLISECOND for x in found), strict=True))
    return replace(HostTimes(0.0, 0.0, 0.0), **times)


def error(rows: pd.DataFrame) -> str:
    ratio = (rows["fitted"] / rows["measured"] - 1) * 100
    return f"{ratio.abs().median():.1f} %/{ratio.abs().quantile(0.9):.1f} %, bias {ratio.median():+.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("engine", choices=FITS)
    parser.add_argument("--jobs", type=int, default=-1, help="processes; default: one a core")
    arguments = parser.parse_args()
    rules, chosen = read_rules(RULES), FITS[arguments.engine]
    runs = [run for name in FILES for run in read_runs(arguments.folder / name, rules)]
    runs = [run for run in runs if run.settings.get("engine") == arguments.engine and _usable(run)]
    nothing = HostTimes(0.0, 0.0, 0.0)
    variants = {"none": nothing, "slower": replace(nothing, step_s=MILLISECOND)}
    rows = rows_frame(predict(runs, _variants(variants), jobs=arguments.jobs))
    training = rows.apply(chosen.trains, axis=1)
    host = fit(rows[training], chosen.free)
    rows["fitted"] = rows_frame(predict(runs, _variants({"none": host}), jobs=arguments.jobs))["none"]
    print(
        f"host: {{step_ms: {host.step_s * 1e3:.3g}, request_us: {host.request_s * 1e6:.3g}, "
        f"peer_us: {host.peer_s * 1e6:.3g}, sampling_bytes: {host.sampling_bytes:.3g}}}"
    )
    print(f"trained on {training.sum()} runs ({chosen.what}): {error(rows[training])}")
    for key, group in rows[~training].groupby(["gpu", "model", "gpus"]):
        print(f"tested on {len(group)} runs of {key}: {error(group)}")


def _variants(hosts: Mapping[str, HostTimes]) -> dict[str, Callable[[EngineProfile, Gpu], EngineProfile]]:
    return {name: partial(with_host, host=host) for name, host in hosts.items()}


if __name__ == "__main__":
    main()
