"""CUDA graphs: captured sizes, padding, and launches where there is no graph."""

from __future__ import annotations

import numpy as np
import pytest

from builders import llama_8b, real_engine
from servecast.hardware.engines import CudaGraphs
from servecast.hardware.gpus import load_gpu
from servecast.model.forward import ForwardPass, build_forward_pass
from servecast.model.graphs import captured_tokens, launch_s, padded

GRAPHS = CudaGraphs(steps=((256, 8), (512, 16)), uncaptured_layer_s=1e-4, eager_layer_s=3e-4)


def forward(*, eager: bool = False) -> ForwardPass:
    return build_forward_pass(
        llama_8b(),
        load_gpu("h100-sxm"),
        real_engine(graphs=GRAPHS),
        dtype="bfloat16",
        kv_cache_dtype="auto",
        tensor_parallel_size=1,
        max_tokens=1024,
        max_rows=256,
        enforce_eager=eager,
    )


def test_vllm_captures_multiples_of_8_then_of_16_up_to_twice_the_requests() -> None:
    assert captured_tokens(GRAPHS, 8) == [1, 2, 4, 8, 16]
    sizes = captured_tokens(GRAPHS, 256)
    assert sizes[-3:] == [480, 496, 512]
    assert {248, 256, 272} < set(sizes)
    assert not {252, 264} & set(sizes)


def test_steps_are_padded_to_the_next_captured_size_and_no_further() -> None:
    tokens = np.array([1.0, 3.0, 5.0, 16.0, 17.0, 40.0])
    assert padded(tokens, [1, 2, 4, 8, 16]).tolist() == [1, 4, 8, 16, 17, 40]
    assert padded(tokens, []).tolist() == tokens.tolist()


def test_larger_steps_and_eager_ones_launch_kernel_by_kernel() -> None:
    tokens = np.array([4.0, 16.0, 17.0])
    assert launch_s(tokens, [4, 16], 10, GRAPHS, eager=False) == pytest.approx([0, 0, 1e-3])
    assert launch_s(tokens, [], 10, GRAPHS, eager=True) == pytest.approx([3e-3] * 3)


def test_requests_that_share_a_captured_size_cost_the_same_but_for_their_attention() -> None:
    priced = forward()
    assert priced.layers_s[9] == priced.layers_s[16] < priced.layers_s[17]


def test_eager_steps_last_as_long_as_their_launches_unless_the_gpu_is_slower() -> None:
    graphs, eager = forward(), forward(eager=True)
    assert eager.layers_s[1] + eager.attention.decode_fixed_s == pytest.approx(32 * 3e-4)
    assert graphs.layers_s[1] < eager.layers_s[1]
    assert eager.layers_s[1024] == graphs.layers_s[1024]
