"""SLO strings: the latency limits that a run is judged by, as people write them.

`ttft:p99<=500ms tpot:p95<=50ms e2el:mean<=20s` limits a statistic over all requests and carries its unit.
`ttft:500 tpot:50` limits each single request, in milliseconds, as the `--goodput` option of vLLM's benchmark
does. Both may be mixed. ITL pools the gaps of all requests, so it has statistics but no value per request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from servecast.hardware.errors import ConfigError, did_you_mean

METRICS = ("ttft", "tpot", "itl", "e2el")
EXAMPLE = "Write limits as ttft:p99<=500ms tpot:p95<=50ms, or per request in ms as ttft:500 tpot:50"

_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
_SEPARATOR = re.compile(r"[\s,;]*")
_WORD = re.compile(r"[A-Za-z_][\w]*")
_STATISTIC = re.compile(r"\s*:\s*([A-Za-z][\w.]*)")
_RELATION = re.compile(r"\s*(<=|≤|<|>=|>|==|=|:)\s*")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_UNIT = re.compile(r"\s*(us|ms|s|min)(?![\w:<])|([A-Za-z%µ]+)(?![\w:<])")
_PERCENTILE = re.compile(r"p(\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class SloLimit:
    """`statistic` of `metric` must be at most `limit_s` seconds.

    metric: one of METRICS. statistic: "mean", "median", a percentile such as "p99" or "p99.9", or None where
    the limit holds for each request by itself.
    """

    metric: str
    statistic: str | None
    limit_s: float

    @property
    def percentile(self) -> float | None:
        """The percentile (0 to 100) that `statistic` means, 50 for the median; None for the others."""
        if self.statistic == "median":
            return 50.0
        if self.statistic is None or self.statistic == "mean":
            return None
        return float(self.statistic[1:])

    def __str__(self) -> str:
        if self.statistic is None:
            in_ms = _as_milliseconds(self.limit_s)
            return f"{self.metric}:{in_ms}" if in_ms is not None else f"{self.metric}:{self.limit_s!r}s"
        return f"{self.metric}:{self.statistic}<={_as_duration(self.limit_s)}"


@dataclass(frozen=True)
class Slo:
    """All limits, in the order written. `parse_slo(str(slo))` equals `slo`."""

    limits: tuple[SloLimit, ...]

    @property
    def request_limits_s(self) -> Mapping[str, float]:
        """Metric -> the strictest of its limits, in seconds. A request is good when it meets all of them.

        Limits on a statistic count here too: with `ttft:p99<=500ms` a request above 500 ms is not good.
        ITL is left out: a request has no ITL of its own.
        """
        strictest: dict[str, float] = {}
        for limit in self.limits:
            if limit.metric == "itl":
                continue
            strictest[limit.metric] = min(limit.limit_s, strictest.get(limit.metric, limit.limit_s))
        return MappingProxyType(strictest)

    def __str__(self) -> str:
        return " ".join(map(str, self.limits))


def parse_slo(text: str) -> Slo:
    """Read an SLO string. Raises ConfigError that names the position and what would be right."""
    limits: list[SloLimit] = []
    position = _skip(_SEPARATOR, text, 0)
    while position < len(text):
        limit, end = _parse_limit(text, position)
        if any((limit.metric, limit.statistic) == (other.metric, other.statistic) for other in limits):
            raise _error(text, position, f"limits {limit.metric} {limit.statistic or 'per request'} a second time")
        limits.append(limit)
        position = _skip(_SEPARATOR, text, end)
    if not limits:
        raise ConfigError(f"no limit in {text!r}", hint=EXAMPLE)
    return Slo(tuple(limits))


def _parse_limit(text: str, start: int) -> tuple[SloLimit, int]:
    metric, position = _parse_metric(text, start)
    statistic, position = _parse_statistic(text, position)
    if metric == "itl" and statistic is None:
        hint = "Write itl:p99<=50ms, or limit tpot per request"
        raise _error(text, start, "itl pools the gaps of all requests and cannot be limited per request", hint)
    relation = _RELATION.match(text, position)
    if relation is None:
        raise _error(text, position, f"{metric} has no limit", EXAMPLE)
    if relation[1] not in ("<=", "≤", ":"):
        raise _error(text, relation.start(1), f"cannot use {relation[1]!r}", "Limits are upper bounds: write <=")
    if relation[1] == ":" and statistic is not None:
        raise _error(text, relation.start(1), f"{metric}:{statistic} needs <= before its limit", EXAMPLE)
    limit_s, end = _parse_duration(text, relation.end(), unit_required=relation[1] != ":")
    return SloLimit(metric, statistic, limit_s), end


def _parse_metric(text: str, start: int) -> tuple[str, int]:
    word = _WORD.match(text, start)
    if word is None:
        raise _error(text, start, "expected a metric", EXAMPLE)
    metric = word[0].lower()
    if metric not in METRICS:
        raise _error(text, start, f"unknown metric {word[0]!r}", did_you_mean(metric, METRICS))
    return metric, word.end()


def _parse_statistic(text: str, start: int) -> tuple[str | None, int]:
    found = _STATISTIC.match(text, start)
    if found is None:
        return None, start
    name = found[1].lower()
    if name in ("mean", "median"):
        return name, found.end()
    percentile = _PERCENTILE.fullmatch(name)
    if percentile is None or not 0 < float(percentile[1]) <= 100:
        hint = "Valid: a percentile above p0 and up to p100 (p50, p95, p99.9), mean, median"
        raise _error(text, found.start(1), f"unknown statistic {found[1]!r}", hint)
    # p99.0 and p099 mean p99: one spelling, so that equal limits compare equal.
    return f"p{float(percentile[1]):.15g}", found.end()


def _parse_duration(text: str, start: int, *, unit_required: bool) -> tuple[float, int]:
    """Seconds and the end position. Without `unit_required` a bare number is in milliseconds."""
    number = _NUMBER.match(text, start)
    if number is None:
        raise _error(text, start, "expected a number", EXAMPLE)
    unit = _UNIT.match(text, number.end())
    if unit is not None and unit[1] is None:
        raise _error(text, unit.start(), f"unknown unit {unit[2]!r}", "Valid: us, ms, s, min")
    if unit is None and unit_required:
        raise _error(text, start, f"{number[0]} has no unit", f"Write {number[0]}ms or {number[0]}s")
    limit_s = _to_seconds(float(number[0]), "ms" if unit is None else unit[1])
    if not 0 < limit_s < float("inf"):
        raise _error(text, start, f"a limit must be above 0, found {number[0]}")
    return limit_s, number.end() if unit is None else unit.end()


def _to_seconds(value: float, unit: str) -> float:
    # Dividing by 1000 rounds once and correctly; multiplying by 0.001, which is not exact, would round twice.
    return value / 1000 if unit == "ms" else value * _SECONDS[unit]


def _as_milliseconds(seconds: float) -> str | None:
    """The shortest number of milliseconds that reads back as exactly `seconds`, or None if there is none."""
    for digits in (6, 15, 17):
        text = f"{seconds * 1000:.{digits}g}"
        if _to_seconds(float(text), "ms") == seconds:
            return text
    return None


def _as_duration(seconds: float) -> str:
    in_ms = _as_milliseconds(seconds)
    if in_ms is None or (seconds >= 10 and seconds.is_integer()):
        return f"{seconds:g}s" if float(f"{seconds:g}") == seconds else f"{seconds!r}s"
    return f"{in_ms}ms"


def _skip(pattern: re.Pattern[str], text: str, start: int) -> int:
    found = pattern.match(text, start)
    return start if found is None else found.end()


def _error(text: str, position: int, problem: str, hint: str | None = None) -> ConfigError:
    """`position` counts from 0; the message counts from 1."""
    rest = text[position:].strip()
    where = f"at character {position + 1} ({rest[:20]!r})" if rest else "at the end"
    return ConfigError(f"SLO {text!r}: {problem} {where}", hint=hint)
