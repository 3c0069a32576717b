"""The table grows row by row, goes on where it stopped, and is never mixed up with another machine's."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders import FakeDevice
from servecast.configs.kernel_tables.read import read_kernel_table
from servecast.hardware.errors import ConfigError
from servecast.hardware.measure.loop import Measured, measure
from servecast.hardware.measure.plan import Item, items
from servecast.hardware.measure.table import MeasurementTable

FACTS = {"gpu": "NVIDIA H100 80GB HBM3", "driver": "580.1", "sm_clock_mhz": "1980", "torch": "2.9"}


def write(file: Path, plan: list[Item], facts: dict[str, str] = FACTS) -> None:
    device = FakeDevice()
    with MeasurementTable(file, facts) as table:
        for outcome in measure(table.left(plan), device, device.clock):
            if isinstance(outcome, Measured):
                table.add(outcome)


def test_calibrate_reads_every_row_and_the_machine(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    write(file, items(["gemm", "attention", "copy"]))
    table = read_kernel_table(file)

    assert {kind: len(rows) for kind, rows in table.kinds.items()} == {"gemm": 64, "attention": 135, "copy": 15}
    assert set(table.kinds["gemm"]["cache"]) == {"flushed"}
    assert set(table.kinds["gemm"]["latency_us"]) == {10.0}
    assert (table.notes, table.remarks["gpu"]) == ((), "NVIDIA H100 80GB HBM3")


def test_it_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    file, plan = tmp_path / "mine.csv", items(["gemm"])
    write(file, plan[:10])
    with MeasurementTable(file, {**FACTS, "sm_clock_mhz": "1200"}) as table:
        assert table.left(plan) == plan[10:]
    write(file, plan)

    assert len(read_kernel_table(file).kinds["gemm"]) == len(plan)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m,n,k,latency_us\n1,1,1,1\n", "is no table of `servecast measure`; it is not overwritten"),
        ("", "is no table of `servecast measure`"),
    ],
)
def test_another_file_is_not_overwritten(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        MeasurementTable(file, FACTS)

    assert file.read_text() == text


def test_another_machines_table_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    write(file, items(["copy"]))
    with pytest.raises(ConfigError, match=r"was measured with driver '580.1', here it is '570.3'"):
        MeasurementTable(file, {**FACTS, "driver": "570.3"})
