"""`servecast measure`: time the kernels of a GPU of one's own, for `servecast calibrate`."""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from servecast.commands.files import check_writable
from servecast.commands.progress import progress_bar
from servecast.hardware.errors import ConfigError, did_you_mean
from servecast.hardware.gpus import gpu_key, gpu_keys
from servecast.hardware.measure.loop import Device, LeftOut, measure
from servecast.hardware.measure.plan import KINDS, Item, items
from servecast.hardware.measure.table import MeasurementTable
from servecast.reports.table_formats import to_rich
from servecast.version import version

_WIDE = 160


def show_plan(only: Sequence[str]) -> None:
    """Print what would be measured. Raises ConfigError for an unknown kind."""
    from servecast.reports.measure_text import plan_table

    plan = items(_kinds(only))
    console = Console(highlight=False, width=_WIDE)
    console.print(to_rich(plan_table(plan)))
    console.print(f"{len(plan)} measurements; those that do not fit the GPU are left out, with the reason")


def run_measure(out: Path, only: Sequence[str], device: int) -> None:
    """Measure and write the table `out`, or go on with it. Raises ConfigError."""
    kinds = _kinds(only)
    check_writable(out, "-o")
    from servecast.hardware.measure.torch_device import TorchDevice

    with TorchDevice(device) as gpu:
        facts = gpu.facts()
        started = {"servecast": version(), "started": f"{datetime.datetime.now():%Y-%m-%d %H:%M}"}
        measure_into(out, items(kinds), gpu, facts | started, time.perf_counter)
    known = gpu_key(facts["gpu"])
    name = known if known in gpu_keys() else "GPU"
    print(f"Next: servecast calibrate {out} --gpu {name} --engine vllm-0.19 -o {out.with_suffix('.yaml')}")


def measure_into(
    out: Path, plan: Sequence[Item], device: Device, facts: dict[str, str], clock: Callable[[], float]
) -> None:
    """Measure what `out` does not have yet, a row at a time. An interruption keeps the rows and is passed on."""
    notes = Console(file=sys.stderr, highlight=False, soft_wrap=True)
    done = left_out = 0
    with MeasurementTable(out, facts) as table, progress_bar("measure") as report:
        wanted = table.left(plan)
        report(len(plan) - len(wanted), len(plan))
        try:
            for outcome in measure(wanted, device, clock):
                if isinstance(outcome, LeftOut):
                    left_out += 1
                    notes.print(f"left out: {outcome.item}: {outcome.why}")
                else:
                    table.add(outcome)
                    done += 1
                report(len(plan) - len(wanted) + done + left_out, len(plan))
        except KeyboardInterrupt:
            kept = len(plan) - len(wanted) + done
            notes.print(f"{kept} of {len(plan)} measurements are in {out}; the same command goes on from there")
            raise
    before = len(plan) - len(wanted)
    print(f"Written: {out}: {done} measurements, {before} from before, {left_out} left out")


def _kinds(only: Sequence[str]) -> Sequence[str]:
    for kind in only:
        if kind not in KINDS:
            raise ConfigError(f"unknown kind {kind!r}", key="--only", hint=did_you_mean(kind, KINDS))
    return only or KINDS
