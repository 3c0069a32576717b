"""Start-up logs of vLLM: the pool, and what is said of memory besides."""

from __future__ import annotations

from pathlib import Path

import pytest

from servecast.configs.startup_log import StartupLog, read_startup_log
from servecast.hardware.errors import ConfigError

V1 = """\
INFO [gpu_model_runner.py:3000] Model loading took 14.9889 GiB memory and 5.1 seconds
INFO [gpu_worker.py:298] Available KV cache memory: 54.70 GiB
INFO [kv_cache_utils.py:1087] GPU KV cache size: 448,096 tokens
INFO [kv_cache_utils.py:1091] Maximum concurrency for 8,192 tokens per request: 54.70x
"""
V0 = """\
INFO model_runner.py:1072] Loading model weights took 14.9595 GB
INFO gpu_executor.py:122] # GPU blocks: 27969, # CPU blocks: 2048
"""


def read(tmp_path: Path, text: str) -> StartupLog:
    (tmp_path / "start.log").write_text(text)
    return read_startup_log(tmp_path / "start.log")


def test_a_log_that_names_tokens(tmp_path: Path) -> None:
    log = read(tmp_path, V1)

    assert (log.tokens, log.blocks, log.kv_gib, log.weights_gib) == (448_096, None, 54.70, 14.9889)
    assert log.pool_blocks(16) == 28_006


def test_an_older_log_that_names_blocks(tmp_path: Path) -> None:
    log = read(tmp_path, V0)

    assert (log.blocks, log.kv_gib, log.weights_gib) == (27_969, None, 14.9595)
    assert log.pool_blocks(16) == 27_969


def test_the_last_start_counts(tmp_path: Path) -> None:
    assert read(tmp_path, V1 + V1.replace("448,096", "400,000")).tokens == 400_000


@pytest.mark.parametrize("text", ["", "INFO hello\n"])
def test_another_file_is_one_message(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"start.log: is no start-up log of vLLM: it names no KV pool"):
        read(tmp_path, text)


def test_missing_file_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        read_startup_log(tmp_path / "absent.log")
