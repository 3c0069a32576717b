"""Admission control: the finding."""

from __future__ import annotations

from collections.abc import Sequence

from servecast.sweeps.lab.rows import Row, only


def finding(rows: Sequence[Row]) -> list[str]:
    lines, goodput, tail = [], "goodput (req/s)", "TTFT p99 (ms)"
    for rate in sorted({row["requests/s"] for row in rows}):
        none, slo = (only(rows, **{"requests/s": rate, "admission": rule}) for rule in ("none", "slo"))
        lines.append(
            f"{rate} requests/s: goodput {none[goodput]:.1f} without, {slo[goodput]:.1f} with SLO admission "
            f"({slo['rejected']} turned away); TTFT p99 {none[tail]:,.0f} and {slo[tail]:,.0f} ms."
        )
    return lines
