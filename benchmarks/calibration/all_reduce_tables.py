"""Prints all-reduce times by size as entries of hardware/engines/kernels/<gpu>.yaml, for each engine that was measured.

    python benchmarks/calibration/all_reduce_tables.py DATA/ops h100_sxm

DATA/ops holds comm_aic.csv.gz, the tables of aiconfigurator-core 0.12.0 (Apache-2.0); 16-bit messages in CUDA graphs.
Engines choose among several kernels by the size of the message, each with limits of its own, so that no one form fits:
the measured times themselves become the table. The error is that of reading a size off its neighbours.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

GPUS = ("a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm")
TABLE_BYTES = (8 * 2**10, 128 * 2**20)
# Entry of the YAML file -> library of the table and its versions, the first that was measured on the GPU.
LIBRARIES = {
    "vllm": ("vllm", ("0.24.0", "0.19.0", "0.14.0")),
    # the same custom kernel as vLLM's before other kernels took over for larger messages
    "sglang, vllm-0.10": ("sglang", ("0.5.10", "0.5.9")),
    "trtllm": ("trtllm", ("1.3.0rc20", "1.0.0")),
}


def all_reduce(folder: Path, name: str) -> None:
    table = pd.read_csv(folder / "comm_aic.csv.gz")
    table = table[(table["gpu"] == name) & (table["op_name"] == "all_reduce") & (table["dtype"] != "int8")]
    table = table[~table["kernel_source"].str.contains("eager") & table["bytes"].between(*TABLE_BYTES)]
    for entry, (library, versions) in LIBRARIES.items():
        rows = table[table["lib"] == library]
        version = next((version for version in versions if version in set(rows["version"])), None)
        for gpus, of_version in rows[rows["version"] == version].groupby("num_gpus"):
            times = of_version.groupby("bytes")["latency_us"].median()
            kib, us = (times.index / 1024).astype(int).tolist(), times.round(1).tolist()
            print(f"all_reduce_table_n{gpus}:\n  {entry}:\n    {{kib: {kib},\n     us: {us},")
            print(f"     heldout: {_left_out(times)}, source: {library} {version}}}")


def _left_out(times: pd.Series) -> str:
    """Error of each inner size when it is read off its neighbours."""
    sizes, seconds = np.log(times.index.to_numpy(float)), np.log(times.to_numpy(float))
    inner = range(1, len(sizes) - 1)
    predicted = [np.interp(sizes[i], np.delete(sizes, i), np.delete(seconds, i)) for i in inner]
    error = np.abs(np.exp(np.array(predicted) - seconds[1:-1]) - 1) * 100
    return f"{np.median(error):.1f}%/{np.quantile(error, 0.9):.1f}%"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("gpu", choices=GPUS)
    arguments = parser.parse_args()
    all_reduce(arguments.folder, arguments.gpu)


if __name__ == "__main__":
    main()
