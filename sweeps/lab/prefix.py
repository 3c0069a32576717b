"""Prefix cache and order of the queue: the finding."""

from __future__ import annotations

from collections.abc import Sequence

from servecast.sweeps.lab.rows import Row, only


def finding(rows: Sequence[Row]) -> list[str]:
    lines = []
    for blocks in sorted({row["KV blocks"] for row in rows}):
        fcfs, aware = (only(rows, **{"KV blocks": blocks, "policy": p}) for p in ("fcfs", "longest_prefix"))
        lines.append(
            f"{blocks:,} blocks: hit rate {fcfs['hit rate']:.0%} in order of arrival, {aware['hit rate']:.0%} with the "
            f"longest prefix first; TTFT p50 {fcfs['TTFT p50 (ms)']:,.0f} and {aware['TTFT p50 (ms)']:,.0f} ms."
        )
    return lines
