"""All-reduces over NCCL: a process for each GPU, which all run one message at a time."""

from __future__ import annotations

import os
import signal
import socket
from dataclasses import dataclass
from typing import Any

from servecast.hardware.measure.loop import CannotMeasureError
from servecast.hardware.measure.plan import AllReduce
from servecast.hardware.measure.torch_operations import package_version

_WAIT_S = 120.0


class AllReduceGroup:
    """Processes on the first `gpus` GPUs; `close` ends them."""

    def __init__(self, gpus: int) -> None:
        import torch.multiprocessing as processes

        self.gpus = gpus
        context = processes.get_context("spawn")
        self._asked = [context.SimpleQueue() for _ in range(gpus)]
        self._answers = context.Queue()
        port = _free_port()
        self._workers = [
            context.Process(target=_process, args=(rank, gpus, port, self._asked[rank], self._answers), daemon=True)
            for rank in range(gpus)
        ]
        for worker in self._workers:
            worker.start()

    def operation(self, item: AllReduce) -> _AllReduceOperation:
        """The all-reduce of `item`, timed as the slowest GPU sees it."""
        return _AllReduceOperation(self, item.bytes)

    def run_s(self, bytes_: int) -> float:
        """One all-reduce. Raises CannotMeasureError if a process failed."""
        import queue

        for asked in self._asked:
            asked.put(bytes_)
        try:
            answers = [self._answers.get(timeout=_WAIT_S) for _ in range(self.gpus)]
        except queue.Empty:
            raise CannotMeasureError(f"the processes of {self.gpus} GPUs do not answer") from None
        failed = next((answer for answer in answers if isinstance(answer, str)), None)
        if failed is not None:
            raise CannotMeasureError(failed)
        return float(max(answers))

    def close(self) -> None:
        for asked in self._asked:
            asked.put(None)
        for worker in self._workers:
            worker.join(timeout=10)
            if worker.is_alive():
                worker.terminate()


@dataclass(frozen=True)
class _AllReduceOperation:
    group: AllReduceGroup
    bytes_: int
    backend: str = "nccl"
    kernel_source: str = "NCCL"
    # a message was just computed: its caches are warm in an engine, too
    cache: str = ""

    @property
    def version(self) -> str:
        return f"torch {package_version('torch')}"

    def run_s(self) -> float:
        return self.group.run_s(self.bytes_)


def _process(*arguments: Any) -> None:
    """Ctrl-C is for the process that measures; it ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _work(*arguments)


def _work(rank: int, gpus: int, port: int, asked: Any, answers: Any) -> None:
    """Reduces a message of as many bytes as it is asked for, and answers seconds, or what went wrong."""
    try:
        timer = _Timer(rank, gpus, port)
    except Exception as error:
        # Whatever NCCL raises is the answer to the first question.
        while asked.get() is not None:
            answers.put(f"no group of {gpus} GPUs: {error}".splitlines()[0])
        return
    while (bytes_ := asked.get()) is not None:
        try:
            answers.put(timer.run_s(bytes_))
        except RuntimeError as error:
            answers.put(str(error).splitlines()[0])
    timer.close()


class _Timer:
    def __init__(self, rank: int, gpus: int, port: int) -> None:
        import torch
        from torch import distributed

        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        torch.cuda.set_device(rank)
        distributed.init_process_group("nccl", rank=rank, world_size=gpus)
        self._torch, self._distributed = torch, distributed
        self._message = torch.zeros(0, dtype=torch.bfloat16, device=f"cuda:{rank}")

    def run_s(self, bytes_: int) -> float:
        torch = self._torch
        if self._message.numel() * 2 != bytes_:
            self._message = torch.randn(bytes_ // 2, dtype=torch.bfloat16, device=self._message.device)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._distributed.barrier()
        torch.cuda.synchronize()
        start.record()
        self._distributed.all_reduce(self._message)
        end.record()
        end.synchronize()
        # sums would overflow after some rounds
        self._message.mul_(0.5 ** (self._distributed.get_world_size().bit_length() - 1))
        return float(start.elapsed_time(end)) * 1e-3

    def close(self) -> None:
        self._distributed.destroy_process_group()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
