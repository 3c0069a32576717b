"""What `servecast measure` takes, as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from servecast.hardware.measure.plan import AllReduce, Attention, Copy, Gemm, Item
from servecast.reports.tables import Column, Table
from servecast.reports.units import COUNT


def plan_table(plan: Sequence[Item]) -> Table:
    """A row for each kind and size, but for what varies along it."""
    rows: dict[tuple[str, str], list[str]] = {}
    for item in plan:
        kind, fixed, varies = _words(item)
        rows.setdefault((kind, fixed), []).append(varies)
    columns = (
        Column("kind", "kind"),
        Column("fixed", "size"),
        Column("varies", "with"),
        Column("count", "points", COUNT),
    )
    table = [
        {"kind": kind, "fixed": fixed, "varies": ", ".join(Counter(varies)), "count": len(varies)}
        for (kind, fixed), varies in rows.items()
    ]
    return Table("measure-plan", "What is measured", columns, table)


def _words(item: Item) -> tuple[str, str, str]:
    if isinstance(item, Gemm):
        return f"GEMM {item.gemm_dtype}", f"{item.n} x {item.k} weights", f"m={item.m}"
    if isinstance(item, Attention):
        heads = f"{item.num_heads} heads, {item.num_key_value_heads} KV heads of {item.head_dim}"
        kind, tokens = ("prefill", item.isl) if item.step == 0 else ("decode", item.step + 1)
        return kind, heads, f"{item.batch_size}x{tokens}"
    if isinstance(item, Copy):
        return "copy", item.copy.replace("_", " "), f"{item.pieces}x{item.bytes // 2**10}KiB"
    assert isinstance(item, AllReduce)
    return "all-reduce", f"{item.num_gpus} GPUs", f"{item.bytes // 2**10}KiB"
