"""Tables of errors."""

from __future__ import annotations

import pandas as pd

from servecast.reports.table_formats import to_markdown
from servecast.reports.validation_tables import errors_of_groups, left_out_lines


def test_errors_of_a_group_are_a_row() -> None:
    statistics = {"n": 30, "median": 2.84, "p90": 10.62, "worst": 14.0, "bias": -2.8, "roofline median": 38.11}
    frame = pd.DataFrame([{"gpu": "h100-sxm", "figure": "tpot", "rows": "test", **statistics}])
    assert to_markdown(errors_of_groups(frame, ("gpu",))).splitlines() == [
        "| gpu | figure | rows | n | median (%) | p90 (%) | worst (%) | bias (%) | roofline median (%) |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| h100-sxm | TPOT | test | 30 | 2.8 | 10.6 | 14.0 | -2.8 | 38.1 |",
    ]


def test_reasons_are_counted() -> None:
    assert left_out_lines([("too long", 1), ("odd", 3)]) == ["1 run: too long", "3 runs: odd"]
