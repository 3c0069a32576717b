"""Writes hardware/accuracy.yaml, the error bands that every result carries, from the runs that serving.py predicted.

    python benchmarks/accuracy/serving.py DATA/e2e --out out/accuracy
    python benchmarks/accuracy/bands.py out/accuracy/rows.csv

To be repeated whenever the model changes. How a band follows from errors: sweeps/validation/bands.py.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servecast.sweeps.validation.bands import bands
from servecast.sweeps.validation.errors import read_rows

FILE = Path(__file__).parents[2] / "hardware" / "accuracy.yaml"
HEAD = """\
# Made by benchmarks/accuracy/bands.py; do not edit. Errors of predicted TPOT, TTFT and throughput, in percent of the
# measured, over runs published by ai-dynamo/aiconfigurator (Apache-2.0), inference-sim, llm-d, argonne-lcf (BSD-3),
# NVIDIA TensorRT-LLM (Apache-2.0) and casys-kaist/LLMServingSim (MIT); benchmarks/accuracy/rules.yaml says what was
# assumed. scope: measured, as predicted; unmeasured, with the coefficients that a GPU without measurements gets. n,
# median, p90: of the size of the error. band: 9 of 10 further runs of that kind are expected within. in_sample: a
# number of the model was chosen by errors of some of these very runs.
"""


def line(entry: Mapping[str, Any]) -> str:
    return "  - {" + ", ".join(f"{key}: {json.dumps(value)}" for key, value in entry.items()) + "}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path, help="rows.csv of serving.py --out")
    parser.add_argument("-o", "--output", type=Path, default=FILE)
    arguments = parser.parse_args()
    text = "\n".join([f"{HEAD}bands:", *map(line, bands(read_rows(arguments.rows)))])
    arguments.output.write_text(text + "\n", encoding="utf-8")
    print(f"{arguments.output}: {text.count('- {')} bands")


if __name__ == "__main__":
    main()
