"""Starvation behind oversized prompts: the finding."""

from __future__ import annotations

from collections.abc import Sequence

from servecast.sweeps.lab.rows import Row, only, select


def finding(rows: Sequence[Row]) -> list[str]:
    waits = only(rows, **{"what cannot run": "waits"})
    rejects = only(rows, **{"what cannot run": "is rejected"})
    chunked = select(rows, part="chunked prefill")
    total = waits["completed"] + waits["stranded"]
    starved = sum(row["stranded"] for row in chunked)
    budgets = [row["budget"] for row in chunked]
    return [
        f"{waits['others stranded']} of {total} requests are stranded behind {waits['oversized stranded']} oversized "
        f"prompts; only {waits['completed']} are answered.",
        f"If what cannot run is rejected ({rejects['rejected']}), all other {rejects['completed']} are answered.",
        f"With chunked prefill {starved or 'nobody'} starves at budgets from {min(budgets)} to {max(budgets)}.",
    ]
