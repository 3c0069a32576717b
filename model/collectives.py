"""Seconds that the GPUs of a replica take to sum a message: the all-reduce of docs/model.md, by what joins them.

`bytes_` per GPU may be an array (then so is the result).
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from servecast.hardware.engines import AllReduceTable, KernelCoefficients, NvlinkAllReduce, PcieShare, RingAllReduce
from servecast.hardware.gpus import Gpu
from servecast.model.kernels import Floats

# vLLM's own kernel on NVSwitch machines (A100, H100, H200, B200): 4.2 to 6.7 us, 0.05 to 0.17 us a peer, two-shot
# 0.73 to 0.80 of the link.
_LINK_LATENCY_S = 5e-6
_LINK_PEER_LATENCY_S = 0.1e-6
_LINK_SHARE = 0.75
# MI355X with eight GPUs, vLLM's kernel (vllm-project/vllm#39080): 6.3 us for 24 KiB to 24.2 us for 1.5 MiB, which is
# 0.17 to 0.29 of each pair's link.
_MESH_LATENCY_S = 6.3e-6
_MESH_SHARE = 0.28
# RCCL on MI300X: 310 to 330 of 448 GB/s (AMD's "Understanding RCCL Bandwidth and xGMI Performance", 2025). Its latency
# is that of NCCL with two GPUs on NVLink.
_MESH_LARGE_LATENCY_S = 25e-6
_MESH_LARGE_SHARE = 0.71


def collective_seconds(bytes_: Floats, gpus: int, gpu: Gpu, kernels: KernelCoefficients) -> Floats:
    """All-reduce of `bytes_` over `gpus` GPUs: as the GPU's file states it for this server, else as measured, else over
    the datasheet's link, else over PCIe.
    """
    form = kernels.all_reduce
    if gpus in gpu.all_reduce:
        return ring_seconds(bytes_, gpus, RingAllReduce(gpu.all_reduce))
    # Over PCIe more GPUs than were measured are another machine's matter: its topology decides.
    if isinstance(form, AllReduceTable | NvlinkAllReduce) or (
        isinstance(form, RingAllReduce) and gpus <= max(form.per_gpus)
    ):
        return all_reduce_seconds(bytes_, gpus, form)
    link = gpu.link
    if link is None or link.domain_gpus < gpus:
        latency, speed = pcie_ring(gpus, gpu, kernels)
        return ring_seconds(bytes_, gpus, RingAllReduce({gpus: (latency, speed)}))
    if link.peer_bytes_per_s is not None:
        return mesh_all_reduce_seconds(bytes_, gpus, link.peer_bytes_per_s)
    return link_all_reduce_seconds(bytes_, gpus, link.bytes_per_s)


def all_reduce_seconds(bytes_: Floats, gpus: int, form: AllReduceTable | NvlinkAllReduce | RingAllReduce) -> Floats:
    """Sum `bytes_` (per GPU) over `gpus` GPUs of one server."""
    if isinstance(form, AllReduceTable):
        return _table_seconds(bytes_, *form.per_gpus[_measured_number(gpus, form.per_gpus)])
    if isinstance(form, RingAllReduce):
        return ring_seconds(bytes_, gpus, form)
    ring = 2.0 * (gpus - 1) / gpus * bytes_
    oneshot = (gpus - 1) * bytes_ / form.small_oneshot_bytes_per_s
    twoshot = form.small_twoshot_extra_s + ring / form.small_twoshot_bytes_per_s
    small = form.small_a_s + form.small_b_s_per_peer * (gpus - 1) + np.minimum(oneshot, twoshot)
    return np.where(bytes_ <= form.small_max_bytes, small, ring_seconds(bytes_, gpus, form.large))


def ring_seconds(bytes_: Floats, gpus: int, form: RingAllReduce) -> Floats:
    """With the figures for the largest measured number of GPUs up to `gpus` (else for the smallest)."""
    fixed, speed = form.per_gpus[_measured_number(gpus, form.per_gpus)]
    return fixed + 2.0 * (gpus - 1) / gpus * bytes_ / speed


def link_all_reduce_seconds(bytes_: Floats, gpus: int, bytes_per_s: float) -> Floats:
    """Over an NVLink that nobody measured: typical of the measured ones, as a share of the datasheet's one way."""
    latency = _LINK_LATENCY_S + _LINK_PEER_LATENCY_S * (gpus - 1)
    return latency + 2.0 * (gpus - 1) / gpus * bytes_ / (_LINK_SHARE * bytes_per_s)


def mesh_all_reduce_seconds(bytes_: Floats, gpus: int, peer_bytes_per_s: float) -> Floats:
    """Each pair of GPUs has a link of its own: both halves of the sum send one `gpus`-th over each, at once."""
    over_each_link = 2.0 / gpus * bytes_ / peer_bytes_per_s
    small = _MESH_LATENCY_S + over_each_link / _MESH_SHARE
    return np.minimum(small, _MESH_LARGE_LATENCY_S + over_each_link / _MESH_LARGE_SHARE)


def pcie_ring(gpus: int, gpu: Gpu, kernels: KernelCoefficients) -> tuple[float, float]:
    """Latency in s and bytes/s of the median of measured PCIe servers, for a GPU with `gpu`'s lanes."""
    share = pcie_share(gpus, kernels)
    return share.latency_s, share.share * gpu.pcie_bytes_per_s


def pcie_share(gpus: int, kernels: KernelCoefficients) -> PcieShare:
    """Of servers with `gpus` GPUs, or with the next smaller measured number."""
    return kernels.pcie[_measured_number(gpus, kernels.pcie)]


def _measured_number(gpus: int, measured: Collection[int]) -> int:
    return max((number for number in measured if number <= gpus), default=min(measured))


def _table_seconds(bytes_: Floats, sizes: tuple[float, ...], seconds: tuple[float, ...]) -> Floats:
    """Straight lines between the logarithms; constant below the table, at the last two sizes' bandwidth above it."""
    between = np.exp(np.interp(np.log(bytes_), np.log(sizes), np.log(seconds)))
    slope = (seconds[-1] - seconds[-2]) / (sizes[-1] - sizes[-2])
    return np.asarray(between + slope * np.maximum(bytes_ - sizes[-1], 0.0))
