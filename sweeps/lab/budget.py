"""Token budget and KV pool: the finding."""

from __future__ import annotations

from collections.abc import Sequence

from servecast.sweeps.lab.rows import Row, select


def finding(rows: Sequence[Row]) -> list[str]:
    lines = []
    for blocks in sorted({row["KV blocks"] for row in rows}):
        small, *_, large = select(rows, **{"KV blocks": blocks})
        lines.append(
            f"{blocks:,} blocks, budget {small['budget']} to {large['budget']}: "
            f"TTFT p50 {small['TTFT p50 (ms)']:,.0f} to "
            f"{large['TTFT p50 (ms)']:,.0f} ms, ITL p99 {small['ITL p99 (ms)']:.0f} to {large['ITL p99 (ms)']:.0f} ms, "
            f"output {small['output tok/s']:,.0f} to {large['output tok/s']:,.0f} tok/s."
        )
    return lines
