"""servecast: which GPUs, how many and with which settings carry an LLM traffic within its latency limits.

from servecast import load_scenario, simulate

run = simulate(load_scenario("configs/quickstart.yaml"))
run.summary["p99_ttft_ms"]
run.requests  # a pandas DataFrame, one row a request
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from servecast.api import Run, simulate
    from servecast.configs.load import load_scenario
    from servecast.configs.scenario import Scenario
    from servecast.hardware.errors import ConfigError, DoesNotFitError, ServecastError

__all__ = ["ConfigError", "DoesNotFitError", "Run", "Scenario", "ServecastError", "load_scenario", "simulate"]

_HOMES = {
    "ConfigError": "servecast.hardware.errors",
    "DoesNotFitError": "servecast.hardware.errors",
    "Run": "servecast.api",
    "Scenario": "servecast.configs.scenario",
    "ServecastError": "servecast.hardware.errors",
    "load_scenario": "servecast.configs.load",
    "simulate": "servecast.api",
}


def __getattr__(name: str) -> Any:
    # Imported on first use, so that `servecast --help` does not wait for NumPy and pydantic.
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
