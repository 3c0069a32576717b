"""How far off the predicted times may be: the model error band that goes into every interval."""

from __future__ import annotations

from dataclasses import dataclass

from servecast.configs.accuracy import situation_of
from servecast.hardware.accuracy import expected_error
from servecast.model.simulation import SimulationParameters

# Percent, where nothing was measured that is near enough: a judgement.
_UNKNOWN_TPOT, _UNKNOWN_TTFT = 50.0, 100.0


@dataclass(frozen=True)
class AccuracyBand:
    """Shares by which predicted TPOT and TTFT may be too short or too long. basis: where they are from."""

    tpot: float
    ttft: float
    basis: str


def accuracy_band(parameters: SimulationParameters, load: str) -> AccuracyBand:
    """The band of `parameters` under `load`, as model/regime.py has it."""
    error = expected_error(situation_of(parameters, load))
    basis = " and ".join(dict.fromkeys(error.basis[figure] for figure in ("tpot", "ttft") if figure in error.basis))
    return AccuracyBand(
        tpot=error.pct.get("tpot", _UNKNOWN_TPOT) / 100,
        ttft=error.pct.get("ttft", _UNKNOWN_TTFT) / 100,
        basis=basis or "nothing near enough was measured",
    )
