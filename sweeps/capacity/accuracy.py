"""How far off the predicted times may be: the model error band that goes into every interval."""

from __future__ import annotations

from dataclasses import dataclass

from servecast.model.simulation import SimulationParameters

# TPOT, TTFT: 90 % of predictions lie within, for measured coefficients as docs/accuracy.md shows; for the others by
# judgement, wider where less was measured.
_BY_CALIBRATION = {
    "measured": (0.10, 0.20),
    "partial": (0.15, 0.25),
    "sibling": (0.15, 0.25),
    "datasheet": (0.25, 0.35),
}


@dataclass(frozen=True)
class AccuracyBand:
    """Shares by which predicted TPOT and TTFT may be too short or too long. basis: where they are from."""

    tpot: float
    ttft: float
    basis: str


def accuracy_band(parameters: SimulationParameters) -> AccuracyBand:
    """The band for the GPU and engine of `parameters`."""
    calibration = parameters.engine.kernels_for(parameters.gpu.key).calibration
    tpot, ttft = _BY_CALIBRATION[calibration]
    return AccuracyBand(tpot, ttft, f"calibration: {calibration}")
