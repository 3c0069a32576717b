"""Fits kernel coefficients to public tables and prints them as entries of hardware/engines/kernels/<gpu>.yaml.

    python benchmarks/calibration/refit.py DATA/ops h100-sxm
    python benchmarks/calibration/refit.py DATA/ops h100-sxm --engine sglang-0.5 --group gemm_fp8

DATA/ops holds the kernel tables of aiconfigurator-core 0.12.0 (Apache-2.0) as CSV. The fits are those of `servecast
calibrate`; where a GPU lacks a coefficient, the universal default is where the search starts. Of the entries that ship,
those that name this script in their source were made so; the others come from the publication, whose fits count each
measured point once and pool 8-bit and 16-bit all-reduces:

- Most points have 1024 to 4353 tokens, so FP8 prompts of 8192 tokens and more come out 17 to 19 % too slow on H100.
  Here every octave of tokens counts the same, and the output-tile starvation has a free exponent q.
- NCCL reduces 16-bit messages in the NVLink switch and 8-bit ones not: pooled, the all-reduce over eight H100 comes
  out 29 % too slow for what a forward pass sends. Here 16-bit messages stand alone, for each number of GPUs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from public_tables import TABLES, read_tables

from servecast.configs.kernel_tables.groups import kernel_groups
from servecast.hardware.engines import load_engine
from servecast.hardware.gpus import load_gpu
from servecast.model.calibration.fitting import fit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("gpu", choices=sorted(TABLES))
    parser.add_argument("--engine", default="vllm-0.19")
    parser.add_argument("--group", help="only this group of coefficients")
    arguments = parser.parse_args()
    gpu, engine = load_gpu(arguments.gpu), load_engine(arguments.engine)
    groups, notes = kernel_groups(read_tables(arguments.folder, gpu.key), gpu, engine)
    for group in groups:
        if arguments.group not in (None, group.name):
            continue
        found = fit(group.form, group.rows, group.defaults)
        values = ", ".join(f"{c.name}: {found.values[c.name]:.3g}" for c in group.form.coefficients)
        print(f"{group.name}:\n  {engine.engine}:\n    {{{values},\n     heldout: {found.heldout},")
        print(f'     source: "{group.source}"}}')
        for name, why in found.kept.items():
            print(f"    # {name} stays where it was: {why}")
    print("\n".join(notes))


if __name__ == "__main__":
    main()
