"""The public Python API: simulate a scenario and look at what came out."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from servecast.configs.build import build_simulation
from servecast.configs.scenario import Scenario
from servecast.hardware.errors import ConfigError
from servecast.model.caveats import caveats
from servecast.model.metrics import summarise
from servecast.model.simulation import Progress, SimulationResult, run_simulation
from servecast.version import version

if TYPE_CHECKING:
    import pandas as pd


class Run:
    """The outcome of one simulation. `result` holds the flat records that everything else is computed from."""

    def __init__(self, scenario: Scenario, result: SimulationResult) -> None:
        self.scenario = scenario
        self.result = result

    @cached_property
    def summary(self) -> dict[str, Any]:
        """All figures, as in summary.json: vLLM's keys first, times in ms; `accuracy` and `provenance` at the end."""
        return summarise(self.result) | {"accuracy": self._accuracy(), "provenance": self._provenance()}

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

    def _accuracy(self) -> dict[str, Any]:
        parameters = self.result.parameters
        kernels = parameters.engine.kernels_for(parameters.gpu.key)
        return {
            "calibration": kernels.calibration,
            "gpu": parameters.gpu.key,
            "engine": parameters.engine.key,
            "kernel_residuals": dict(kernels.residuals),
            "caveats": list(caveats(parameters)),
        }

    def _provenance(self) -> dict[str, Any]:
        return {
            "version": version(),
            "seed": self.scenario.seed,
            "notes": list(self.result.workload.notes),
            "scenario": self.scenario.effective(),
        }

    def __repr__(self) -> str:
        return f"Run({self.scenario.name!r}, {len(self.result.workload)} requests)"


def simulate(scenario: Scenario, progress: Progress | None = None) -> Run:
    """Simulate `scenario`. `progress` is called now and then with (requests ended, requests).

    Raises ConfigError for settings that make no sense and DoesNotFitError if the model does not fit the GPUs.
    """
    parameters = build_simulation(scenario)
    try:
        return Run(scenario, run_simulation(parameters, progress))
    except ConfigError as error:
        # A model without a price, say: the simulator knows no files, the scenario does.
        raise scenario.origin.locate(error) from None
