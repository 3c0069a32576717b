"""Small sweep files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

SCENARIO = """
model: llama-3.1-8b
gpu: h100-sxm
replica: {max_model_len: 8192}
workload:
  num_requests: 20
  arrivals: {process: poisson, request_rate: 5}
  lengths:
    prompt: {distribution: fixed, value: 100}
    output: {distribution: uniform, low: 2, high: 20}
"""

WriteSweep = Callable[[str], Path]


@pytest.fixture
def write_sweep(tmp_path: Path) -> WriteSweep:
    """Writes a sweep file: its base scenario is small.yaml beside it; the text given holds the other keys."""
    (tmp_path / "small.yaml").write_text(SCENARIO)

    def write(text: str) -> Path:
        file = tmp_path / "sweep.yaml"
        file.write_text("scenario: small.yaml\n" + text)
        return file

    return write
