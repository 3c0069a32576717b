"""Picks the rows of kernel tables that a fit may use, and keeps account of those that it may not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from servecast.configs.kernel_tables.read import KernelTable
from servecast.hardware.gpus import gpu_key

if TYPE_CHECKING:
    import pandas as pd

# PyTorch's own kernels, which stand in where an engine's were not measured.
_STAND_IN = "torch"


class Choice:
    """The rows of one kind from all tables, narrowed step by step. notes: what each step left out, in words."""

    def __init__(self, tables: Sequence[KernelTable], kind: str) -> None:
        import pandas as pd

        frames = [table.kinds[kind].assign(file=table.name) for table in tables if kind in table.kinds]
        self.rows: pd.DataFrame = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
        self.notes: list[str] = []

    def __len__(self) -> int:
        return len(self.rows)

    def copy(self) -> Self:
        twin = type(self)([], "")
        twin.rows, twin.notes = self.rows, list(self.notes)
        return twin

    def keep(self, mask: Any, others: str) -> Self:
        """Only the rows of `mask`; `others` says what the rest is."""
        left_out = int((~mask).sum())
        if left_out:
            self.notes.append(f"{left_out:,} {others}")
        self.rows = self.rows[mask]
        return self

    def only(self, mask: Any) -> Self:
        """Only the rows of `mask`; the rest is another group's matter."""
        self.rows = self.rows[mask]
        return self

    def of_gpu(self, key: str) -> Self:
        """Rows that name no GPU, or this one."""
        cells = self.rows["gpu"]
        names = {cell: cell in ("", key) or gpu_key(cell) == key for cell in cells.unique()}
        return self.keep(cells.map(names).astype(bool), f"of other GPUs ({_some(names, False)})")

    def of_engine(self, engine: str) -> Self:
        """Rows that name no engine, or this one; PyTorch's if there are none of it."""
        cells = self.rows["backend"]
        wanted = engine if engine in set(cells) else _STAND_IN
        names = {cell: cell in ("", wanted) for cell in cells.unique()}
        self.keep(cells.map(names).astype(bool), f"of other engines ({_some(names, False)})")
        if (self.rows["backend"] == _STAND_IN).any():
            self.notes.append(f"PyTorch's kernels stand in for those of {engine}")
        return self

    def newest(self) -> Self:
        """Rows of the newest version of each kernel's source."""
        for source in self.rows["backend"].unique():
            mine = self.rows["backend"] == source
            versions = sorted(self.rows.loc[mine, "version"].unique(), key=_release)
            if len(versions) > 1:
                older = mine & (self.rows["version"] != versions[-1])
                self.keep(~older, f"of {source} before {versions[-1]}")
        return self

    def column(self, name: str) -> Any:
        """As floating-point numbers."""
        return self.rows[name].to_numpy(float)

    @property
    def source(self) -> str:
        """Files, engines and versions of the rows."""
        files = ", ".join(dict.fromkeys(self.rows["file"]))
        pairs = self.rows[["backend", "version"]].drop_duplicates().itertuples(index=False)
        makers = ", ".join(" ".join(filter(None, pair)) for pair in pairs if pair[0])
        return f"{files}: {makers}" if makers else files


def _some(names: dict[str, bool], value: bool) -> str:
    return ", ".join(sorted(name for name, taken in names.items() if taken is value))


def _release(version: str) -> list[tuple[int, str]]:
    """For sorting: 0.24.0 is after 0.9.2."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in version.split(".")]
