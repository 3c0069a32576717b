"""An NVIDIA or AMD GPU as PyTorch sees it: timing with events and cold caches, and what machine it is."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from servecast.hardware.errors import ConfigError
from servecast.hardware.measure.loop import CannotMeasureError, Operation
from servecast.hardware.measure.plan import AllReduce, Attention, Copy, Gemm, Item, Machine
from servecast.hardware.measure.torch_all_reduce import AllReduceGroup
from servecast.hardware.measure.torch_operations import (
    TorchOperation,
    attention,
    copy,
    gemm,
    package_version,
)

FLUSHED = "flushed"
# Read before each timed run: more than any GPU's caches hold, and long enough a work for the GPU that all kernels of
# the run are queued behind it before it ends. Written, it would leave lines to be written back while the run is timed.
_FLUSH_BYTES = 512 * 2**20


@dataclass(frozen=True)
class _Timed:
    """A TorchOperation with its timer."""

    operation: TorchOperation
    timer: Callable[[Callable[[], Any]], float]
    cache: str = FLUSHED

    @property
    def backend(self) -> str:
        return self.operation.backend

    @property
    def version(self) -> str:
        return self.operation.version

    @property
    def kernel_source(self) -> str:
        return self.operation.kernel_source

    def run_s(self) -> float:
        return self.timer(self.operation.run)


class TorchDevice:
    """GPU number `index` of this machine; the all-reduces use the first ones of all. Use it as a context manager."""

    def __init__(self, index: int) -> None:
        """Raises ConfigError without PyTorch or such a GPU."""
        self._torch = torch = _torch()
        if not torch.cuda.is_available():
            raise ConfigError("PyTorch finds no GPU here", key="measure")
        if index >= torch.cuda.device_count():
            raise ConfigError(f"there are {torch.cuda.device_count()} GPUs here, found {index}", key="--device")
        self._index, self._device = index, f"cuda:{index}"
        torch.cuda.set_device(index)
        self._flush = torch.zeros(_FLUSH_BYTES // 4, dtype=torch.float32, device=self._device)
        self._properties = torch.cuda.get_device_properties(index)
        self._group: AllReduceGroup | None = None

    def __enter__(self) -> TorchDevice:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._close_group()

    @property
    def machine(self) -> Machine:
        """FP8: NVIDIA from compute capability 8.9 on."""
        capable = self._torch.version.cuda is not None and self._torch.cuda.get_device_capability(self._index) >= (8, 9)
        return Machine(self._properties.total_memory, self._torch.cuda.device_count(), capable)

    def facts(self) -> dict[str, str]:
        """What machine this is, for the head of the table."""
        return {
            "gpu": self._properties.name,
            "gpus": str(self._torch.cuda.device_count()),
            "sm_count": str(self._properties.multi_processor_count),
            "memory_gib": f"{self._properties.total_memory / 2**30:.2f}",
            "l2_mib": f"{getattr(self._properties, 'L2_cache_size', 0) / 2**20:.1f}",
            **_nvidia_smi(str(getattr(self._properties, "uuid", ""))),
            "cuda": str(self._torch.version.cuda or self._torch.version.hip),
            "torch": package_version("torch"),
            "vllm": package_version("vllm") or "none",
            "flash_attn": package_version("flash_attn") or "none",
            "host": f"{platform.machine()}, Python {platform.python_version()}",
            "empty_events_us": f"{self._time_s(lambda: None) * 1e6:.3g}",
        }

    def prepare(self, item: Item) -> Operation:
        """See Device. What the item before it held is freed."""
        if isinstance(item, AllReduce):
            return self._all_reduce(item)
        self._close_group()
        self._torch.cuda.empty_cache()
        try:
            operation = self._operation(item)
            operation.run()
            self._torch.cuda.synchronize()
        except RuntimeError as error:
            # Out of memory is one of these, and so is a shape that a kernel does not take.
            raise CannotMeasureError(str(error).splitlines()[0]) from None
        return _Timed(operation, self._time_s)

    def _operation(self, item: Gemm | Attention | Copy) -> TorchOperation:
        if isinstance(item, Gemm):
            return gemm(item, self._torch, self._device)
        if isinstance(item, Attention):
            return attention(item, self._torch, self._device)
        return copy(item, self._torch, self._device)

    def _time_s(self, run: Callable[[], Any]) -> float:
        start, end = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._flush.sum()
        start.record()
        run()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3

    def _all_reduce(self, item: AllReduce) -> Operation:
        if self._group is None or self._group.gpus != item.num_gpus:
            self._close_group()
            self._group = AllReduceGroup(item.num_gpus)
        return self._group.operation(item)

    def _close_group(self) -> None:
        if self._group is not None:
            self._group.close()
            self._group = None


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise ConfigError("needs PyTorch", key="measure", hint="pip install 'servecast[measure]'") from None
    return torch


def _nvidia_smi(uuid: str) -> dict[str, str]:
    """Driver, clocks and power limit, where the tool is there."""
    names = {
        "driver": "driver_version",
        "sm_clock_mhz": "clocks.sm",
        "sm_clock_max_mhz": "clocks.max.sm",
        "memory_clock_mhz": "clocks.mem",
        "power_limit": "power.limit",
    }
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return dict.fromkeys(names, "unknown")
    query = [tool, f"--query-gpu={','.join(names.values())}", "--format=csv,noheader", "-i", f"GPU-{uuid}"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return dict.fromkeys(names, "unknown")
    return dict(zip(names, (cell.strip() for cell in done.stdout.split(",")), strict=False))
