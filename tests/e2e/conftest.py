"""The command line as a user runs it: a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
Servecast = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def servecast() -> Servecast:
    """Runs `servecast` with the given words; returns what it printed and its exit code."""

    def command(*words: object, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
        arguments = [sys.executable, "-m", "servecast", *map(str, words)]
        return subprocess.run(arguments, capture_output=True, text=True, cwd=cwd, timeout=120, check=False)

    return command


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """A small scenario file that takes a moment."""
    file = tmp_path / "small.yaml"
    file.write_text(
        """model: llama-3.1-8b
gpu: h100-sxm
replica:
  tensor_parallel_size: 1
  max_model_len: 8192
workload:
  num_requests: 50
  arrivals: {process: poisson, request_rate: 5}
  lengths:
    prompt: {distribution: fixed, value: 100}
    output: {distribution: uniform, low: 1, high: 20}
"""
    )
    return file
