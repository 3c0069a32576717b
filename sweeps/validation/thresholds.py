"""Limits on errors: `tpot=10,ttft:p90=25` for the exit code of `servecast validate`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from servecast.configs.measured import METRICS
from servecast.hardware.errors import ConfigError, did_you_mean
from servecast.sweeps.validation.errors import statistics

if TYPE_CHECKING:
    import pandas as pd

_STATISTICS = ("median", "p90", "worst")
_PART = re.compile(r"(?P<figure>\w+)(?::(?P<statistic>\w+))?=(?P<limit>[\d.]+)%?")


@dataclass(frozen=True)
class Threshold:
    """statistic: of the size of the errors of all runs compared. limit_pct: the most that it may be."""

    figure: str
    statistic: str
    limit_pct: float

    def verdict(self, rows: pd.DataFrame) -> dict[str, Any]:
        """Whether the errors of `rows` stay within. Raises ConfigError where no run has the figure."""
        errors = rows.loc[rows["problem"] == "", f"error_{self.figure}"].dropna()
        if not len(errors):
            raise ConfigError(f"no run that could be simulated has a measured {self.figure}", key="--threshold")
        value = statistics(errors)[self.statistic]
        return {
            "figure": self.figure,
            "statistic": self.statistic,
            "limit_pct": self.limit_pct,
            "value_pct": value,
            "met": value <= self.limit_pct,
        }


def parse_thresholds(text: str) -> list[Threshold]:
    """`tpot=10,ttft:p90=25`: figure, statistic (median if left out) and limit in percent. Raises ConfigError."""
    return [_threshold(part.strip()) for part in text.split(",")]


def _threshold(part: str) -> Threshold:
    found = _PART.fullmatch(part)
    if found is None:
        raise ConfigError(f"cannot be read: {part!r}", key="--threshold", hint="Such as tpot=10,ttft:p90=25")
    figure, statistic = found["figure"], found["statistic"] or "median"
    for name, known in ((figure, tuple(METRICS)), (statistic, _STATISTICS)):
        if name not in known:
            raise ConfigError(f"unknown {name!r} in {part!r}", key="--threshold", hint=did_you_mean(name, known))
    try:
        return Threshold(figure, statistic, float(found["limit"]))
    except ValueError:
        raise ConfigError(f"{found['limit']!r} is no number", key="--threshold") from None
