"""The items of a plan as PyTorch operations on random data. Any device; timing is torch_device.py's matter.

Attention runs the kernels that vLLM runs if vLLM is installed, else those of the package flash_attn, else PyTorch's
scaled_dot_product_attention, whose cache is not paged; the kernel's name is kept in each row. All of them write the new
tokens' K and V into the cache first, in one kernel, as the engine does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from servecast.hardware.measure.loop import CannotMeasureError
from servecast.hardware.measure.plan import Attention, Copy, Gemm

# Tokens of a page of the KV cache: vLLM's default.
_PAGE = 16
# flash_attn's kernels take pages of a multiple of this.
_FLASH_ATTN_PAGE = 256


@dataclass(frozen=True)
class TorchOperation:
    """run: launches the kernels. backend, version, kernel_source: whose they are."""

    run: Callable[[], Any]
    backend: str
    version: str
    kernel_source: str


def package_version(name: str) -> str:
    """Of an installed distribution; "" if it is not."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _torch(run: Callable[[], Any], source: str) -> TorchOperation:
    return TorchOperation(run, "torch", package_version("torch"), source)


def gemm(item: Gemm, torch: Any, device: str) -> TorchOperation:
    """bfloat16: F.linear. fp8: the conversion of the activations (one kernel), then torch._scaled_mm."""
    x = torch.randn(item.m, item.k, dtype=torch.bfloat16, device=device)
    w = torch.randn(item.n, item.k, dtype=torch.bfloat16, device=device)
    if item.gemm_dtype == "bfloat16":
        return _torch(lambda: torch.nn.functional.linear(x, w), "torch.nn.functional.linear")
    fp8, one = torch.float8_e4m3fn, torch.ones((), dtype=torch.float32, device=device)
    w8 = w.to(fp8)

    def run() -> Any:
        return torch._scaled_mm(x.to(fp8), w8.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)

    return _torch(run, "cast + torch._scaled_mm")


def copy(item: Copy, torch: Any, device: str) -> TorchOperation:
    """Pieces of one large buffer, each to its place in another; the host's is pinned."""
    source = _buffer(item, torch, "cpu" if item.copy == "host_to_device" else device, pinned=device != "cpu")
    target = _buffer(item, torch, "cpu" if item.copy == "device_to_host" else device, pinned=device != "cpu")

    def run() -> None:
        for piece in range(item.pieces):
            target[piece].copy_(source[piece], non_blocking=True)

    return _torch(run, "copy_")


def _buffer(item: Copy, torch: Any, place: str, *, pinned: bool) -> Any:
    shape = (item.pieces, item.bytes)
    empty = torch.empty(shape, dtype=torch.uint8, device=place, pin_memory=pinned and place == "cpu")
    return empty.random_(0, 255)


def attention(item: Attention, torch: Any, device: str) -> TorchOperation:
    """The best kernel that is installed."""
    for maker in (_vllm_attention, _flash_attention, _sdpa):
        operation = maker(item, torch, device)
        if operation is not None:
            return operation
    raise CannotMeasureError("no attention kernel with grouped heads: PyTorch 2.5 or newer is needed")


@dataclass(frozen=True)
class _Inputs:
    """Random q, new K and V, and a cache of `slots` tokens for each sequence, K and V in one tensor [2, slots ...].

    context: tokens of each sequence, the new ones included. write: puts the new K and V into the cache.
    """

    q: Any
    cache: Any
    context: int
    slots: int
    write: Callable[[], Any]


def _inputs(item: Attention, torch: Any, device: str, page: int) -> _Inputs:
    context = item.isl + item.step
    slots = -(-context // page) * page
    new = item.batch_size * item.isl

    def random(*shape: int) -> Any:
        return torch.randn(*shape, dtype=torch.bfloat16, device=device)

    q = random(new, item.num_heads, item.head_dim)
    fresh = random(2, new, item.num_key_value_heads, item.head_dim)
    cache = random(2, item.batch_size * slots, item.num_key_value_heads, item.head_dim)
    sequences = torch.arange(item.batch_size, device=device).repeat_interleave(item.isl)
    places = sequences * slots + item.step + torch.arange(item.isl, device=device).repeat(item.batch_size)
    return _Inputs(q, cache, context, slots, lambda: cache.index_copy_(1, places, fresh))


def _paged(item: Attention, torch: Any, device: str, page: int) -> tuple[_Inputs, dict[str, Any]]:
    """The inputs, and the arguments that tell a paged kernel where they are."""
    inputs = _inputs(item, torch, device, page)
    pages = inputs.slots // page
    shape = (item.batch_size * pages, page, item.num_key_value_heads, item.head_dim)
    # pages in random order, as an engine that has run for a while has them
    order = torch.randperm(shape[0], device=device).to(torch.int32).view(item.batch_size, pages)
    starts = torch.arange(item.batch_size + 1, device=device, dtype=torch.int32) * item.isl
    lengths = torch.full((item.batch_size,), inputs.context, device=device, dtype=torch.int32)
    return inputs, {
        "k": inputs.cache[0].view(shape),
        "v": inputs.cache[1].view(shape),
        "block_table": order,
        "starts": starts,
        "lengths": lengths,
    }


def _vllm_attention(item: Attention, torch: Any, device: str) -> TorchOperation | None:
    interface = _imported("vllm.vllm_flash_attn.flash_attn_interface")
    if interface is None or device == "cpu":
        return None
    newest = next((v for v in (4, 3, 2) if interface.is_fa_version_supported(v)), None)
    if newest not in (2, 3):
        return None
    inputs, paged = _paged(item, torch, device, _PAGE)

    def run() -> Any:
        inputs.write()
        return interface.flash_attn_varlen_func(
            inputs.q,
            paged["k"],
            paged["v"],
            max_seqlen_q=item.isl,
            cu_seqlens_q=paged["starts"],
            max_seqlen_k=inputs.context,
            seqused_k=paged["lengths"],
            causal=True,
            block_table=paged["block_table"],
            fa_version=newest,
        )

    return TorchOperation(run, "vllm", package_version("vllm"), f"vllm_flash_attn_fa{newest}")


def _flash_attention(item: Attention, torch: Any, device: str) -> TorchOperation | None:
    package = _imported("flash_attn")
    if package is None or device == "cpu":
        return None
    inputs, paged = _paged(item, torch, device, _FLASH_ATTN_PAGE)
    q = inputs.q.view(item.batch_size, item.isl, item.num_heads, item.head_dim)

    def run() -> Any:
        inputs.write()
        return package.flash_attn_with_kvcache(
            q,
            paged["k"],
            paged["v"],
            cache_seqlens=paged["lengths"],
            block_table=paged["block_table"],
            causal=True,
        )

    return _torch(run, f"flash_attn {package_version('flash_attn')}")


def _sdpa(item: Attention, torch: Any, device: str) -> TorchOperation | None:
    """A cache without pages, each sequence in one piece."""
    inputs = _inputs(item, torch, device, 1)
    new = (item.batch_size, item.isl, item.num_heads, item.head_dim)
    old = (item.batch_size, inputs.slots, item.num_key_value_heads, item.head_dim)
    q = inputs.q.view(new).transpose(1, 2)
    k, v = (inputs.cache[i].view(old).transpose(1, 2) for i in (0, 1))

    def run() -> Any:
        inputs.write()
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=item.step == 0, enable_gqa=True)

    try:
        run()
    except TypeError:
        # enable_gqa came with PyTorch 2.5
        return None
    return _torch(run, "scaled_dot_product_attention")


def _imported(name: str) -> Any:
    try:
        return import_module(name)
    except Exception:
        # A package that is installed for another CUDA version raises anything but ImportError.
        return None
