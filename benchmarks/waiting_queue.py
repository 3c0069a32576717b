"""What a long waiting queue costs a step, for each policy: time of a step with 10,000 waiting over that with 10.

    python benchmarks/waiting_queue.py

A replica of 64 places serves requests of 100 output tokens; as many wait as stated, and each that finishes is
followed by a new one. Medians of five.
"""

from __future__ import annotations

import statistics
import time

from servecast.model.block_pool import BlockPool
from servecast.model.policies import POLICIES, PolicyParameters
from servecast.model.prefix_cache import CachingBlockPool
from servecast.model.request import Request
from servecast.model.scheduler import Scheduler
from servecast.model.scheduler_parameters import SchedulerParameters

STEPS = 2000


def seconds_per_step(policy: str, waiting: int) -> float:
    """Of `STEPS` steps planned and completed one by one."""
    pool = (CachingBlockPool if policy == "longest_prefix" else BlockPool)(20_000, 16)
    settings = SchedulerParameters(max_num_seqs=64, policy=PolicyParameters(policy))
    scheduler = Scheduler(settings, pool, max_model_len=8192)
    for id in range(waiting + 64):
        scheduler.add(a_request(id))
    number = waiting + 64
    start = time.perf_counter()
    for step_number in range(STEPS):
        step = scheduler.schedule(float(step_number))
        assert step is not None  # there is always somebody to run
        for _ in scheduler.complete(step, step_number + 1.0):
            scheduler.add(a_request(number))
            number += 1
    return (time.perf_counter() - start) / STEPS


def a_request(id: int) -> Request:
    content = ((id % 50, 320),)
    return Request(id, 320 + id % 97, 100, priority=id % 3, content=content)


def main() -> None:
    print("| policy | us a step, 10 waiting | 10,000 waiting | ratio |\n|---|---|---|---|")
    for policy in POLICIES:
        short, long = (
            statistics.median(seconds_per_step(policy, waiting) for _ in range(5)) * 1e6 for waiting in (10, 10_000)
        )
        print(f"| {policy} | {short:.1f} | {long:.1f} | {long / short:.2f} |")


if __name__ == "__main__":
    main()
