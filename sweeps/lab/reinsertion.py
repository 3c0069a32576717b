"""Where the preempted wait: the finding, and what becomes of long prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from servecast.model.metrics import request_times, summarise
from servecast.model.simulation import SimulationParameters, run_simulation
from servecast.sweeps.lab.rows import Row, select

# The cohort edge of the experiment, tokens.
_LONG_TOKENS = 1000


def measure(parameters: SimulationParameters, _labels: Mapping[str, Any]) -> dict[str, Any]:
    """The summary, and of prompts above _LONG_TOKENS: how many, how many finished before the last request arrived, and
    the longest E2EL (s).
    """
    result = run_simulation(parameters)
    long = result.workload.prompt_tokens > _LONG_TOKENS
    finish, last = result.requests["finish_s"][long], np.nanmax(result.requests["arrival_s"])
    return summarise(result) | {
        "long_prompts": int(long.sum()),
        "long_done_under_load": int((finish < last).sum()),
        "long_worst_e2el_s": float(np.nanmax(request_times(result)["e2el"][long])),
    }


def finding(rows: Sequence[Row]) -> list[str]:
    lines, worst = [], "long E2EL worst (s)"
    for part in ("room for a chunk", "room for all of it"):
        for place in ("front", "back"):
            found = select(rows, part=part, reinsert=place)
            waits = ", ".join(f"{row[worst]:,.0f}" for row in found)
            lengths = ", ".join(f"{row['requests']:,}" for row in found)
            total, done, livelocked = (
                sum(row[key] for row in found) for key in ("long prompts", "done while others came", "livelocked")
            )
            lines.append(
                f"{part}, {place}: {done} of {total} long prompts done while others came, {livelocked} livelocked; the "
                f"worst took {waits} s in runs of {lengths} requests."
            )
    return lines
