"""How long the command takes and how much memory: wall time (median of three) and peak memory of each case, as a table.

    python benchmarks/speed.py [--trace AZURE_TRACE.csv.gz] [--million]

Each case is a process of its own, start-up included. The trace is azure_llm_2023_conv.csv of AzurePublicDataset
(CC-BY 4.0).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
RUN = ["run", str(ROOT / "configs" / "quickstart.yaml"), "--json"]
POISSON = [
    *RUN,
    *("--set", "workload.arrivals.request_rate=8"),
    "--set",
    "workload.lengths={prompt: {distribution: fixed, value: 512}, output: {distribution: fixed, value: 256}}",
]


def cases(trace: Path | None, million: bool) -> dict[str, list[str]]:
    chosen = {
        "servecast --help": ["--help"],
        "quickstart (2,000 requests)": RUN,
        "100,000 requests, 8 req/s, 512/256": [*POISSON, "--set", "workload.num_requests=100000"],
    }
    if trace is not None:
        replay = f"workload={{arrivals: {{process: trace, path: {trace.resolve()}}}}}"
        for gpu in ("h100-sxm", "a100-80gb-sxm"):
            settings = [f"gpu={gpu}", "model=llama-2-13b", "scheduler.max_num_batched_tokens=4096", replay]
            chosen[f"Azure 2023 conversations (19,366 requests), llama-2-13b on {gpu}"] = [
                *RUN,
                *(word for setting in settings for word in ("--set", setting)),
            ]
    if million:
        chosen["1,000,000 requests, 8 req/s, 512/256"] = [*POISSON, "--set", "workload.num_requests=1000000"]
    return chosen


def measure(arguments: list[str]) -> tuple[float, float]:
    """Seconds and peak MiB of `servecast` with `arguments`; its output is thrown away."""
    start = time.perf_counter()
    nothing = os.open(os.devnull, os.O_WRONLY)
    command = [sys.executable, "-m", "servecast", *arguments]
    process = os.posix_spawn(sys.executable, command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, nothing, 1)])
    _, status, usage = os.wait4(process, 0)
    os.close(nothing)
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"failed: {' '.join(command)}")
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--million", action="store_true", help="one million requests too (a minute)")
    arguments = parser.parse_args()
    print("| case | seconds | peak MiB |\n|---|---|---|")
    for name, words in cases(arguments.trace, arguments.million).items():
        times, memories = zip(*(measure(words) for _ in range(3)), strict=True)
        print(f"| {name} | {statistics.median(times):.2f} | {max(memories):.0f} |", flush=True)


if __name__ == "__main__":
    main()
