"""Thrashing: the finding."""

from __future__ import annotations

from collections.abc import Sequence

from servecast.sweeps.lab.rows import Row, select


def finding(rows: Sequence[Row]) -> list[str]:
    off, on = select(rows, backpressure="off"), select(rows, backpressure="on")
    ample, tight = off[0], off[-1]
    begins = next(row for row in off if row["preemptions"])
    checked = next(row for row in on if row["KV blocks"] == begins["KV blocks"])
    return [
        f"From {ample['KV blocks']} to {tight['KV blocks']} blocks output falls from {ample['output tok/s']:,.0f} to "
        f"{tight['output tok/s']:,.0f} tok/s; at the end {tight['recompute ratio']:.0%} of all tokens are computed "
        f"again ({tight['preemptions']} preemptions).",
        f"Preemptions begin at {begins['KV blocks']} blocks, of the sizes tried.",
        f"At {begins['KV blocks']} blocks backpressure brings preemptions from {begins['preemptions']} to "
        f"{checked['preemptions']} and output from {begins['output tok/s']:,.0f} to "
        f"{checked['output tok/s']:,.0f} tok/s.",
    ]
