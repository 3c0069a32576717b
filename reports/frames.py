"""Results as pandas tables: one row a request, one row a step."""

from __future__ import annotations

import numpy as np
import pandas as pd

from servecast.model.metrics import request_times
from servecast.model.records import STATES
from servecast.model.simulation import SimulationResult

_WHOLE_STEP_COLUMNS = (
    "replica",
    "count",
    "decodes",
    "steady_decodes",
    "chunks",
    "prefill_tokens",
    "waiting",
    "running",
    "used_blocks",
)


def requests_frame(result: SimulationResult) -> pd.DataFrame:
    """One row a request, in order of arrival; times in seconds (`_s`) and ms (`_ms`), NaN where there is none.

    reason: why it was rejected, else empty. replica: -1 for a request that never reached one.
    """
    requests, workload = result.requests, result.workload
    times = request_times(result)
    size = len(workload)
    labels = {"priority": workload.priority, "tenant": workload.tenant}
    return pd.DataFrame(
        {
            "id": np.arange(size),
            "arrival_s": requests["arrival_s"],
            "prompt_tokens": workload.prompt_tokens,
            "output_tokens": workload.output_tokens,
            "replica": requests["replica"],
            "state": np.asarray(STATES)[requests["state"]],
            "reason": [result.reasons.get(id, "") for id in range(size)],
            "queue_ms": (requests["scheduled_s"] - requests["queued_s"]) * 1e3,
            "ttft_ms": times["ttft"] * 1e3,
            "tpot_ms": times["tpot"] * 1e3,
            "e2el_ms": times["e2el"] * 1e3,
            "finish_s": requests["finish_s"],
            "preemptions": requests["preemptions"],
            "recomputed_tokens": requests["recomputed_tokens"],
            **{name: column for name, column in labels.items() if column is not None},
        }
    )


def steps_frame(result: SimulationResult) -> pd.DataFrame:
    """One row a step or run of equal steps; the columns are those of model/records.py."""
    frame = pd.DataFrame({name: np.ascontiguousarray(column) for name, column in result.steps.items()})
    return frame.astype(dict.fromkeys(_WHOLE_STEP_COLUMNS, np.int64))
