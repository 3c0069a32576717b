"""The pages of the lab: what belongs to each YAML file in code. Adding one = YAML, module, a line here, a test."""

from __future__ import annotations

from collections.abc import Mapping

from servecast.sweeps.lab import (
    admission,
    budget,
    chunking,
    crossover,
    policies,
    preemption,
    prefix,
    pressure,
    reinsertion,
    starvation,
    thrashing,
    watermark,
)
from servecast.sweeps.lab.rows import Page

PAGES: Mapping[str, Page] = {
    "admission": Page(admission.finding),
    "budget": Page(budget.finding),
    "chunking": Page(chunking.finding, chunking.measure),
    "crossover": Page(crossover.finding, crossover.measure),
    "policies": Page(policies.finding, policies.measure),
    "preemption": Page(preemption.finding),
    "prefix": Page(prefix.finding),
    "pressure": Page(pressure.finding, pressure.measure),
    "reinsertion": Page(reinsertion.finding, reinsertion.measure),
    "starvation": Page(starvation.finding),
    "thrashing": Page(thrashing.finding),
    "watermark": Page(watermark.finding, watermark.measure),
}
