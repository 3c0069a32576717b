"""How numbers are written for people: significant digits by unit, thousands separated, the unit in the header."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import Any

NOTHING = "-"

# Below this a number is written with so many decimals that nobody reads them.
_MOST_DECIMALS = 6


@dataclass(frozen=True)
class Unit:
    """symbol: as it stands in headers, "" for none. digits: significant ones; whole numbers are never cut.

    least_decimals: of amounts of money, say. most_decimals: what is smaller shows as 0. scale: what stored values are
    multiplied with (100 for shares shown in %).
    """

    symbol: str
    digits: int = 3
    least_decimals: int = 0
    most_decimals: int = _MOST_DECIMALS
    scale: float = 1.0

    def exact(self, value: Any) -> str:
        """`value` in this unit as CSV files have it: nine digits, no separators, "" for none."""
        if is_nothing(value):
            return ""
        if isinstance(value, str | bool):
            return str(value)
        number = self._scaled(value)
        return str(number) if isinstance(number, Integral) else f"{number:.9g}"

    def text(self, value: Any) -> str:
        """`value` for people, without the symbol: "1,064", "8.55", "-" for none."""
        if is_nothing(value):
            return NOTHING
        if isinstance(value, str | bool):
            return words(value)
        number = self._scaled(value)
        if math.isinf(number):
            return "∞" if number > 0 else "-∞"
        # Counts are whole, whatever the digits; pandas makes them floats where one is missing.
        decimals = self.least_decimals if number == int(number) else self._decimals(number)
        text = f"{number:,.{decimals}f}"
        # Not -0.0 for what is nothing after rounding.
        return text if text.strip("-0.") else text.removeprefix("-")

    def with_symbol(self, value: Any) -> str:
        """`value` for a sentence: "8.55 ms", "$1,064", "50 %"."""
        text = self.text(value)
        if text == NOTHING or not self.symbol:
            return text
        if self.symbol.startswith("$"):
            return f"${text}{self.symbol[1:]}"
        return f"{text} {self.symbol}"

    def _scaled(self, value: Any) -> Any:
        """A count stays a whole number."""
        return value if self.scale == 1 else value * self.scale

    def _decimals(self, number: float) -> int:
        wanted = self.digits - 1 - math.floor(math.log10(abs(number)))
        # 9.996 has three digits as 10.0, not as 10.00.
        if wanted > 0 and round(abs(number), wanted) >= 10 ** (self.digits - wanted):
            wanted -= 1
        large = abs(number) >= 10**self.digits
        return min(max(wanted, 0 if large else self.least_decimals), self.most_decimals)


def is_nothing(value: Any) -> bool:
    """Whether there is no value: None, or pandas' NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def words(value: Any) -> str:
    """A value that is no number, for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return NOTHING if is_nothing(value) else str(value)


MS = Unit("ms")
SECONDS = Unit("s")
HOURS = Unit("h")
TOKENS_PER_S = Unit("tok/s")
REQUESTS_PER_S = Unit("req/s")
DOLLARS = Unit("$", least_decimals=2, most_decimals=4)
DOLLARS_PER_HOUR = Unit("$/h", least_decimals=2)
DOLLARS_PER_MILLION_TOKENS = Unit("$/M tokens", least_decimals=2)
GIB = Unit("GiB", least_decimals=2, most_decimals=2)
# Of stored shares (0 to 1), and of what is stored in percent.
SHARE = Unit("%", scale=100, most_decimals=1)
PERCENT = Unit("%", most_decimals=1)
COUNT = Unit("", digits=3, most_decimals=2)
# Figures of mixed kinds whose headers name the unit.
MIXED = Unit("", digits=4, most_decimals=2)
# Requests/s or requests at once in a search, and milliseconds held against a limit: near values must not look alike.
LOAD = Unit("", digits=4)
LIMITED_MS = Unit("ms", digits=4)
# As `vllm bench serve` prints them.
TWO_DECIMALS = Unit("", digits=9, least_decimals=2, most_decimals=2)
WATTS = Unit("W")
JOULES_PER_TOKEN = Unit("J/token")
TFLOPS = Unit("TFLOP/s")
FLOPS_PER_BYTE = Unit("FLOP/byte")
