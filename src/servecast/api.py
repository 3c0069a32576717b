"""The public Python API: simulate a scenario and look at what came out."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from servecast.configs.accuracy import accuracy
from servecast.configs.build import build_simulation
from servecast.configs.fields import describe
from servecast.configs.load import scenario_from
from servecast.configs.scenario import Scenario
from servecast.hardware.errors import ConfigError
from servecast.hardware.prices import Price, PriceBook, load_prices
from servecast.model.admission import ADMISSION_REASONS
from servecast.model.cost import energy, token_costs
from servecast.model.metrics import summarise
from servecast.model.simulation import Progress, SimulationResult, run_simulation, without_admission
from servecast.version import version

if TYPE_CHECKING:
    import pandas as pd


# What admission control is judged by.
_ADMISSION_FIGURES = ("request_goodput", "goodput_share", "request_throughput", "p99_ttft_ms", "p99_e2el_ms")


class Run:
    """The outcome of one simulation. `result` holds the flat records that everything else is computed from.

    unguarded: the summary of the same traffic without admission control, where the scenario has such and an SLO.
    """

    def __init__(
        self, scenario: Scenario, result: SimulationResult, unguarded: Mapping[str, Any] | None = None
    ) -> None:
        self.scenario = scenario
        self.result = result
        self._unguarded = unguarded

    @cached_property
    def summary(self) -> dict[str, Any]:
        """All figures, as in summary.json: vLLM's keys first, times in ms; `accuracy` and `provenance` at the end.

        `accuracy`: `tpot_pct`, `ttft_pct` and `throughput_pct`, within which 9 of 10 measured runs of the nearest kind
        lay (None where nothing was measured), `label`, `basis` (which runs), `widened`, `caveats`.
        """
        summary = summarise(self.result)
        book = load_prices()
        return summary | {
            "admission": self._admission(summary),
            "cost": self._cost(book),
            "energy": energy(self.result, summary["utilization"], book.power),
            "accuracy": accuracy(self.result.parameters, summary),
            "provenance": provenance(self.scenario, self.result.workload.notes),
        }

    @cached_property
    def requests(self) -> pd.DataFrame:
        """One row a request: lengths, TTFT, TPOT, E2EL (ms), state, preemptions."""
        from servecast.reports.frames import requests_frame

        return requests_frame(self.result)

    @cached_property
    def steps(self) -> pd.DataFrame:
        """One row an engine step, or run of equal decode steps."""
        from servecast.reports.frames import steps_frame

        return steps_frame(self.result)

    @cached_property
    def series(self) -> pd.DataFrame:
        """The run over time in at most a thousand rows: tokens, queue, KV usage, preemptions."""
        from servecast.reports.series import series_frame

        return series_frame(self.result)

    @cached_property
    def distributions(self) -> pd.DataFrame:
        """Quantiles of the latencies (ms), by cohort and metric."""
        from servecast.reports.distributions import distributions_frame

        return distributions_frame(self.result)

    def _admission(self, summary: Mapping[str, Any]) -> dict[str, Any] | None:
        """What the admission rule brings; None without a rule or an SLO."""
        if self._unguarded is None:
            return None
        return {
            "rule": self.result.parameters.scheduler.admission.rule,
            "rejected": sum(summary["rejected"].get(reason, 0) for reason in ADMISSION_REASONS),
            "with": {key: summary[key] for key in _ADMISSION_FIGURES},
            "without": {key: self._unguarded[key] for key in _ADMISSION_FIGURES},
        }

    def _cost(self, book: PriceBook) -> dict[str, Any]:
        price = hourly_price(self.scenario, self.result.parameters.gpu.key, book)
        cost = token_costs(self.result, None if price is None else price.usd)
        return cost | {"price": None if price is None else price.figures(datetime.date.today())}

    def __repr__(self) -> str:
        return f"Run({self.scenario.name!r}, {len(self.result.workload)} requests)"


def provenance(scenario: Scenario, notes: Sequence[str]) -> dict[str, Any]:
    """What it takes to repeat a result. notes: what was odd about the input."""
    return {
        "version": version(),
        "seed": scenario.seed,
        "notes": list(notes),
        "scenario": scenario.effective(),
    }


def hourly_price(scenario: Scenario, gpu_key: str, book: PriceBook) -> Price | None:
    """The scenario's own price of a GPU, else the on-demand one of `book`; None where neither is known."""
    own = scenario.price
    if own is not None:
        return Price("on-demand", own.usd_per_gpu_hour, own.source, None, own.source)
    return book.of(gpu_key).price("on-demand")


def simulate(scenario: Scenario, progress: Progress | None = None) -> Run:
    """Simulate `scenario`. `progress` is called now and then with (requests ended, requests).

    With admission control and an SLO, the same traffic is simulated once more without the rule, for `admission` of the
    summary. Raises ConfigError for settings that make no sense and DoesNotFitError if the model does not fit the GPUs.
    """
    if not isinstance(scenario, Scenario):
        problem = f"simulate needs a scenario, found {describe(scenario)}"
        raise ConfigError(problem, hint="load_scenario(path) reads one")
    parameters = build_simulation(scenario)
    try:
        if parameters.slo is None or parameters.scheduler.admission.rule == "none":
            return Run(scenario, run_simulation(parameters, progress))
        first, second = (None, None) if progress is None else _two_halves(progress)
        unguarded = summarise(run_simulation(without_admission(parameters), first))
        return Run(scenario, run_simulation(parameters, second), unguarded)
    except ConfigError as error:
        # A model without a price, say: the simulator knows no files, the scenario does.
        raise scenario.origin.locate(error) from None


def _two_halves(progress: Progress) -> tuple[Progress, Progress]:
    """`progress` of the first and the second of two simulations of the same requests."""
    return (
        lambda done, total: progress(done, 2 * total),
        lambda done, total: progress(total + done, 2 * total),
    )


def summary_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The summary of the scenario with these `settings` (plain data), without its provenance: the work of a sweep."""
    summary = simulate(scenario_from(settings)).summary
    return {name: value for name, value in summary.items() if name != "provenance"}
