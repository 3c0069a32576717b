"""Tables of errors as text."""

from __future__ import annotations

import pandas as pd

from servecast.reports.validation_text import error_columns, markdown


def test_a_markdown_table_has_numbers_at_the_right() -> None:
    table = pd.DataFrame({"gpu": ["h100-sxm"], "figure": ["tpot"], "n": [30], "median": [2.84], "bias": [-2.8]})
    assert markdown(error_columns(table)).splitlines() == [
        "| gpu | figure | n | median | bias |",
        "| --- | --- | ---: | ---: | ---: |",
        "| h100-sxm | TPOT | 30 | 2.8 % | -2.8 % |",
    ]
