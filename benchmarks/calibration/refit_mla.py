"""Fits latent attention for GPUs that nobody measured: one fit for all that were, with the error on each when it is
left out. Prints entries of hardware/engines/kernels/default.yaml.

    python benchmarks/calibration/refit_mla.py DATA/ops

DATA/ops/moe holds mla.csv.gz, whole modules of vLLM 0.24.0 with DeepSeek-V3's sizes from aiconfigurator-core 0.12.0
(Apache-2.0).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from refit import GPUS
from refit_moe import Floats, errors, fit, show

from servecast.hardware.engines import MlaDecodeCoefficients, MlaPrefillCoefficients
from servecast.hardware.gpus import load_gpu
from servecast.model.architecture import LatentAttention
from servecast.model.mla_cost import LatentForm, LatentShape

MLA_GPUS = ("h100_sxm", "h200_sxm", "b200_sxm", "l40s")
DEEPSEEK = LatentAttention(128, 1536, 512, 64, 128, 128)
MLA_FORMATS = {"bfloat16": ("16bit", 2.0), "fp8_block": ("fp8", 1.0)}
PREFILL_NAMES = ("t0_us", "e_g", "e_m", "e_c", "s_half")
DECODE_NAMES = ("t0_us", "e_w", "e_m", "e_c", "p", "h_pad", "c_ctx_us_per_1k")
SOME_PREFILL = MlaPrefillCoefficients(0.0, 1.0, 1.0, 1.0, 0.0)
SOME_DECODE = MlaDecodeCoefficients(0.0, 1.0, 1.0, 1.0, 2.0, 1.0, 0.0)


def typical(folder: Path) -> None:
    table = pd.read_csv(folder / "moe" / "mla.csv.gz")
    table = table[(table["backend"] == "vllm") & (table["kv_cache_dtype"] == "bfloat16")]
    table = table[table["mla_dtype"] == "bfloat16"]
    for dtype in MLA_FORMATS:
        rows = table[table["gemm_type"] == dtype]
        prompts = rows[(rows["op"] == "mla_context_module") & (rows["kernel_source"] == "FLASH_ATTN")]
        low, high = (0.0, 0.1, 0.1, 0.1, 0.0), (200.0, 1.2, 1.2, 1.2, 3000.0)
        _typical(f"mla_prefill_{dtype}", prompts, PREFILL_NAMES, prefill, ((60.0, 0.8, 0.5, 0.8, 100.0), low, high))
        low, high = (0.0, 0.1, 0.1, 0.05, 1.0, 1.0, 0.0), (200.0, 1.2, 1.2, 1.2, 12.0, 128.0, 20.0)
        start = (60.0, 0.7, 0.8, 0.8, 3.0, 10.0, 0.1)
        decodes = rows[rows["op"] == "mla_generation_module"]
        _typical(f"mla_decode_{dtype}", decodes, DECODE_NAMES, decode, (start, low, high))


def _typical(
    group: str,
    rows: pd.DataFrame,
    names: Sequence[str],
    predict: Callable[[pd.DataFrame, str, Floats], Floats],
    bounds: tuple[Sequence[float], Sequence[float], Sequence[float]],
) -> None:
    dtype, (start, low, high) = group.split("_", 2)[2], bounds
    parts = {}
    for name in MLA_GPUS:
        part = rows[rows["gpu"] == name]
        parts[name] = part.sample(min(len(part), 450), random_state=0)

    def fitted(gpus: Sequence[str]) -> Floats:
        def residuals(x: Floats) -> Floats:
            logs = [np.log(predict(parts[gpu], dtype, x) / _seconds(parts[gpu])) for gpu in gpus]
            return np.concatenate(logs)

        return fit(residuals, (start,), low, high)

    told = []
    for name in MLA_GPUS:
        x = fitted([gpu for gpu in MLA_GPUS if gpu != name])
        told.append(f"{name} {errors(predict(parts[name], dtype, x), _seconds(parts[name]))}")
    show(group, names, fitted(MLA_GPUS), "; ".join(told))


def _seconds(rows: pd.DataFrame) -> Floats:
    return rows["latency_us"].to_numpy(float) * 1e-6


def prefill(rows: pd.DataFrame, dtype: str, x: Floats) -> Floats:
    predicted = np.zeros(len(rows))
    for heads in rows["num_heads"].unique():
        here = (rows["num_heads"] == heads).to_numpy()
        prompts, tokens = (rows[name].to_numpy(float)[here] for name in ("batch_size", "isl"))
        form = _form(rows, dtype, int(heads), MlaPrefillCoefficients(x[0] * 1e-6, *x[1:]), SOME_DECODE)
        chunks = np.array([form.chunk_seconds(0, int(length)) for length in tokens])
        predicted[here] = form.prompt_projections(prompts * tokens).total_s + prompts * chunks
    return predicted


def decode(rows: pd.DataFrame, dtype: str, x: Floats) -> Floats:
    predicted = np.zeros(len(rows))
    coefficients = MlaDecodeCoefficients(x[0] * 1e-6, *x[1:6], x[6] * 1e-9)
    for heads in rows["num_heads"].unique():
        here = (rows["num_heads"] == heads).to_numpy()
        requests, context = rows["batch_size"].to_numpy(float)[here], rows["step"].to_numpy(float)[here] + 1
        form = _form(rows, dtype, int(heads), SOME_PREFILL, coefficients)
        attention = form.decode_attention()
        cache = attention.per_context_token_s * requests * context + attention.per_longest_token_s * context
        predicted[here] = form.decode_projections(requests).total_s + attention.fixed_s + cache
    return predicted


def _form(
    rows: pd.DataFrame, dtype: str, heads: int, prompts: MlaPrefillCoefficients, decodes: MlaDecodeCoefficients
) -> LatentForm:
    gpu, (peak, weight_bytes) = load_gpu(GPUS[rows["gpu"].iloc[0]]), MLA_FORMATS[dtype]
    return LatentForm(
        shape=LatentShape(DEEPSEEK, 7168, heads),
        prefill=prompts,
        short=None,
        decode=decodes,
        kv_bytes=2.0,
        weight_bytes=weight_bytes,
        projection_peak=gpu.peak_flops[peak],
        peak=gpu.peak_flops["16bit"],
        bytes_per_s=gpu.memory_bytes_per_s,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    typical(parser.parse_args().folder)


if __name__ == "__main__":
    main()
