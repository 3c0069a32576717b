"""Recompute, swap or auto: the finding."""

from __future__ import annotations

from collections.abc import Sequence

from servecast.sweeps.lab.rows import Row, only


def finding(rows: Sequence[Row]) -> list[str]:
    lines = []
    for pcie in sorted({row["PCIe"] for row in rows}):
        faster = []
        for context in sorted({row["context"] for row in rows}):
            by_mode = {m: only(rows, PCIe=pcie, context=context, mode=m) for m in ("recompute", "swap")}
            if by_mode["swap"]["duration (s)"] < by_mode["recompute"]["duration (s)"]:
                faster.append(f"{context:,}")
        where = f"at contexts of {', '.join(faster)} tokens" if faster else "at no context"
        lines.append(f"PCIe {pcie}: swap is faster than recompute {where}.")
    return lines
