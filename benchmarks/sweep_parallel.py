"""How well a sweep uses two cores: wall time of one and two jobs, start-up included, for points of about a second and
of a few milliseconds.

    python benchmarks/sweep_parallel.py [--points 200] [--short-points 2000]

Efficiency: the time of one job over twice that of two. Overhead: what a point takes beyond its own work, with one job,
that is validation, keys, storage (a transaction a point, on the disk before the next) and, with two, dispatch.
"""

from __future__ import annotations

import argparse
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONG_REQUESTS = 15_000
SHORT_REQUESTS = 5


def write_sweep(folder: Path, points: int, requests: int) -> Path:
    file = folder / "sweep.yaml"
    file.write_text(
        f"scenario: {ROOT / 'configs' / 'quickstart.yaml'}\n"
        f"set: {{workload.num_requests: {requests}}}\n"
        f"axes: {{seed: {{from: 1, to: {points}, step: 1}}}}\n"
        "metrics: [p99_ttft_ms]\n"
    )
    return file


def measure(points: int, requests: int, jobs: int) -> tuple[float, float]:
    """Wall time of the command, and what the points took themselves, in seconds."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        file = write_sweep(folder, points, requests)
        command = [
            sys.executable,
            "-m",
            "servecast",
            "sweep",
            str(file),
            "--jobs",
            str(jobs),
            "--out",
            str(folder / "out"),
        ]
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        wall = time.perf_counter() - start
        with closing(sqlite3.connect(folder / "out" / "results.sqlite")) as database:
            ((work,),) = database.execute("SELECT sum(seconds) FROM outcomes")
    return wall, work


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--short-points", type=int, default=2000)
    arguments = parser.parse_args()
    print(
        "| points | ms of work each | 1 job (s) | 2 jobs (s) | faster by | efficiency | overhead, 1 job (ms a point) |"
    )
    print("|---|---|---|---|---|---|---|")
    for points, requests in ((arguments.points, LONG_REQUESTS), (arguments.short_points, SHORT_REQUESTS)):
        (alone, work), (together, _) = (measure(points, requests, jobs) for jobs in (1, 2))
        overhead = (alone - work) / points * 1e3
        print(
            f"| {points:,} | {work / points * 1e3:,.1f} | {alone:,.1f} | {together:,.1f} | {alone / together:.2f} | "
            f"{alone / together / 2:.2f} | {overhead:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
