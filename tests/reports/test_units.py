"""How numbers read."""

from __future__ import annotations

import math

import pytest

from servecast.reports.units import COUNT, DOLLARS, DOLLARS_PER_HOUR, GIB, MS, SHARE, TWO_DECIMALS, Unit


@pytest.mark.parametrize(
    ("unit", "value", "text"),
    [
        (MS, 8.5512, "8.55"),
        (MS, 155.5, "156"),
        (MS, 12345.6, "12,346"),
        (MS, 9.996, "10.0"),
        (MS, 0.01234, "0.0123"),
        (MS, 0.0, "0"),
        (MS, -41.26, "-41.3"),
        (SHARE, -0.0001, "0.0"),
        (MS, None, "-"),
        (MS, math.nan, "-"),
        (MS, math.inf, "∞"),
        (COUNT, 2000, "2,000"),
        (COUNT, 6.4, "6.40"),
        (COUNT, 4.0, "4"),
        (DOLLARS, 3.5, "3.50"),
        (DOLLARS, 0.00123, "0.0012"),
        (DOLLARS, 61234.5, "61,234"),
        (GIB, 14.9871, "14.99"),
        (SHARE, 0.5, "50"),
        (TWO_DECIMALS, 1899.147, "1,899.15"),
    ],
)
def test_significant_digits(unit: Unit, value: float | None, text: str) -> None:
    assert unit.text(value) == text


def test_csv_has_nine_digits_and_no_separators() -> None:
    assert [MS.exact(value) for value in (1234.56789, 2000, None)] == ["1234.56789", "2000", ""]
    assert SHARE.exact(0.125) == "12.5"


def test_a_sentence_has_the_symbol_where_it_belongs() -> None:
    assert MS.with_symbol(8.55) == "8.55 ms"
    assert DOLLARS_PER_HOUR.with_symbol(61.2) == "$61.20/h"
    assert MS.with_symbol(None) == "-"
