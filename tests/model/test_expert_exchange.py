"""All-to-all of expert parallelism: bytes by hand, measured points."""

from __future__ import annotations

import numpy as np
import pytest

from servecast.hardware.engines import AllToAllCoefficients, load_engine
from servecast.hardware.gpus import load_gpu
from servecast.model.architecture import MoeMlp
from servecast.model.expert_exchange import ExpertExchange, expert_exchange

DEEPSEEK = MoeMlp(256, 8, 2048)
FREE = AllToAllCoefficients(a_s=1e-5, bytes_per_s=1e12)


def test_low_latency_sends_a_copy_for_each_expert() -> None:
    seconds = ExpertExchange(8, "deepep_low_latency", FREE, FREE).seconds(np.array([64.0]), DEEPSEEK, 7168)
    there, back = 8 * 8 * (7168 * (1 + 4 / 128) + 16), 8 * 8 * 7168 * 2
    assert seconds == pytest.approx(2e-5 + (there + back) / 1e12)


def test_high_throughput_sends_a_copy_for_each_gpu() -> None:
    slow = AllToAllCoefficients(a_s=0.0, bytes_per_s=1e12, bytes_per_s_per_sm=1e10)
    seconds = ExpertExchange(8, "deepep_high_throughput", slow, slow).seconds(np.array([8000.0]), DEEPSEEK, 7168)
    copies = 1000 * 8 * (1 - (7 / 8) ** 8)
    assert seconds == pytest.approx(copies * 7168 * 3 * (1 / 1e12 + 1 / 2e11))


def test_eight_h200_as_measured() -> None:
    """DeepEP's low-latency kernels, 128 tokens a GPU, as the fit to SGLang 0.5.12's table has them (8 % / 28 %)."""
    gpu = load_gpu("h200-sxm")
    exchange = expert_exchange(8, "deepep_low_latency", gpu, load_engine("vllm-0.19").kernels_for("h200-sxm"))
    seconds = exchange.seconds(np.array([1024.0]), DEEPSEEK, 7168)
    assert float(seconds[0]) == pytest.approx(108e-6, rel=0.28)


def test_unmeasured_links_are_those_of_the_datasheet() -> None:
    gpu = load_gpu("l40s")
    exchange = expert_exchange(4, "deepep_high_throughput", gpu, load_engine("vllm-0.19").kernels_for("l40s"))
    assert exchange.dispatch.bytes_per_s == pytest.approx(0.8 * gpu.pcie_bytes_per_s)
