"""What measured copies say of a host link."""

from __future__ import annotations

from pathlib import Path

from builders import a_gpu
from servecast.configs.kernel_tables.copies import copy_notes
from servecast.configs.kernel_tables.read import read_kernel_table


def notes(tmp_path: Path, rows: str) -> list[str]:
    (tmp_path / "mine.csv").write_text("copy,bytes,latency_us\n" + rows)
    return list(copy_notes([read_kernel_table(tmp_path / "mine.csv")], a_gpu()))


def test_time_a_copy_and_bandwidth(tmp_path: Path) -> None:
    """5 us and 50 GB/s."""
    rows = "".join(f"device_to_host,{size},{5 + size / 50e3}\n" for size in (2**15, 2**20, 2**28))

    assert notes(tmp_path, rows) == [
        "device_to_host: 5.0 us a copy and 50 GB/s (datasheet 63); in a scenario scheduler.swap_copy_us: 5.0, in a GPU "
        "file of your own pcie_gb_per_s: 50"
    ]


def test_copies_within_the_gpu_read_and_write(tmp_path: Path) -> None:
    rows = "".join(f"device_to_device,{size},{size / 1340e3}\n" for size in (2**20, 2**28))

    assert notes(tmp_path, rows) == [
        "device_to_device: 1.34e+03 GB/s copied, which is 80% of the datasheet's bandwidth"
    ]


def test_one_size_tells_nothing(tmp_path: Path) -> None:
    assert notes(tmp_path, "host_to_device,1024,5\n") == [
        "host_to_device: one size does not tell time a copy and bandwidth apart"
    ]
