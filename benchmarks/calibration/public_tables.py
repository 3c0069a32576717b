"""The kernel tables of aiconfigurator-core 0.12.0 (Apache-2.0), by the GPU that they were measured on."""

from __future__ import annotations

from pathlib import Path

from servecast.configs.kernel_tables.read import KernelTable, read_kernel_table

# GPU of the catalogue -> its name in the tables' file names.
TABLES = {
    "a100-80gb-sxm": "a100_sxm",
    "h100-sxm": "h100_sxm",
    "h200-sxm": "h200_sxm",
    "b200-sxm": "b200_sxm",
    "l40s": "l40s",
    "rtx-pro-6000": "rtx_pro_6000_server",
}


def read_tables(folder: Path, gpu: str) -> list[KernelTable]:
    """GEMM, attention and all-reduce tables of `gpu`."""
    name = TABLES[gpu]
    names = (f"gemm_aic_{name}", f"attn_prefill_aic_{name}", f"attn_decode_aic_{name}", "comm_aic")
    return [read_kernel_table(folder / f"{table}.csv.gz") for table in names]
