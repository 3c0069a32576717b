"""Kernel tables as people have them: kinds known by their columns, odd rows named, nothing lost silently."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from servecast.configs.kernel_tables.read import KernelTable, read_kernel_table
from servecast.hardware.errors import ConfigError

GEMM = "gemm_dtype,m,n,k,latency_us\nbfloat16,1,4096,4096,12.5\nfp8,8,4096,4096,9\n"


def table(tmp_path: Path, text: str | bytes) -> KernelTable:
    file = tmp_path / "mine.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_kernel_table(file)


def test_gemm_table(tmp_path: Path) -> None:
    read = table(tmp_path, GEMM)

    assert list(read.kinds) == ["gemm"]
    assert read.kinds["gemm"][["m", "latency_us", "line"]].to_numpy().tolist() == [[1, 12.5, 2], [8, 9, 3]]
    assert set(read.kinds["gemm"]["backend"]) == {""}
    assert read.notes == ()


def test_gzip_is_known_by_its_content(tmp_path: Path) -> None:
    assert len(table(tmp_path, gzip.compress(GEMM.encode())).kinds["gemm"]) == 2


def test_one_table_may_hold_all_kinds(tmp_path: Path) -> None:
    text = (
        "# gpu: NVIDIA H100 80GB HBM3\n# clocks: 1980 MHz\n"
        "m,n,k,batch_size,isl,step,num_heads,num_key_value_heads,head_dim,op_name,num_gpus,copy,bytes,latency_us\n"
        "1,512,512,,,,,,,,,,,4\n"
        ",,,2,128,0,32,8,128,,,,,9\n"
        ",,,2,1,4095,32,8,128,,,,,11\n"
        ",,,,,,,,,all_reduce,2,,1024,5\n"
        ",,,,,,,,,,,host_to_device,65536,6\n"
    )
    read = table(tmp_path, text)

    assert {kind: len(rows) for kind, rows in read.kinds.items()} == {
        "gemm": 1,
        "attention": 2,
        "collective": 1,
        "copy": 1,
    }
    assert read.kinds["attention"]["step"].tolist() == [0, 4095]
    assert read.remarks == {"gpu": "NVIDIA H100 80GB HBM3", "clocks": "1980 MHz"}
    assert read.kinds["copy"]["line"].tolist() == [8]


def test_odd_rows_are_left_out_and_named(tmp_path: Path) -> None:
    read = table(tmp_path, GEMM + "bfloat16,1,4096,4096,-1\nbfloat16,many,4096,4096,7\nbfloat16,1,,4096,7\n")

    assert len(read.kinds["gemm"]) == 2
    assert read.notes == ("mine.csv: 3 rows left out; line 4 has latency_us '-1', which must be a number above 0",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "mine.csv: the file is empty"),
        ("a,b\n1,2\n", "mine.csv:1: the columns are of no known layout: a, b. Known: m, n, k, latency_us; batch_size"),
        ("m,n,k,latency_us\n1,2,3,nan\n", "mine.csv: holds no row that can be used; line 2 has latency_us 'nan'"),
        (b"\x1f\x8bbroken", "mine.csv: is a damaged gzip file"),
        (b"\xff\xfe\x00", "mine.csv: is not text"),
    ],
)
def test_wrong_file_is_one_message(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        table(tmp_path, text)

    assert message in str(caught.value)


def test_missing_file_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        read_kernel_table(tmp_path / "absent.csv")
