"""How well the memory model matches engine start-up logs: a table by row, then errors by engine version.

    python benchmarks/accuracy/kv_pool.py --data DIR

DIR holds kv_pool/vllm_startup_logs.csv. Prints Markdown. Nothing here is fitted: rules come from the engine
profiles, architectures from the catalogue, and of a row only the settings are used. Where a row leaves a
setting out, the engine's default stands in; an unstated utilisation is taken as 0.9 and marked.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from servecast.configs.architectures import load_architecture
from servecast.hardware.errors import ConfigError
from servecast.hardware.gpus import Gpu, load_gpu
from servecast.hardware.memory_rules import load_memory_rules
from servecast.model.architecture import Architecture
from servecast.model.layout import ReplicaLayout, check_layout
from servecast.model.memory import MemoryPlan, default_batch_limits, plan_memory

LOGS = Path("kv_pool") / "vllm_startup_logs.csv"
V0_LIMITS = (2048, 256)

# First engine version (minor of 0.x) of each set of rules, newest first.
RULES_FROM = ((18, "vllm-0.19"), (17, "vllm-0.17"), (12, "vllm-0.15"), (8, "vllm-0.10"), (0, "vllm-0.7"))

# Words of a checkpoint's name that say how it was tuned, published or packed, not what shape it has.
VARIANT = re.compile(
    r"[-.](instruct|it|chat|hf|base|dynamic|fp8|w8a8|w4a16|awq|gptq|quantized|2503|2407|v0\.[12]|h)\b|^meta-",
)
OTHER_NAMES = {"deepseek-r1-distill-qwen-14b": "qwen2.5-14b"}
GPUS = (
    ("h100", "h100-sxm"),
    ("a100-40gb", "a100-40gb-sxm"),
    ("a100", "a100-80gb-sxm"),
    ("l40s", "l40s"),
    ("rtx a6000", "rtx-a6000"),
    ("rtx 3090", "rtx-4090"),
    ("rtx 4090", "rtx-4090"),
    ("rtx pro 6000", "rtx-pro-6000-workstation"),
    ("t4", "t4"),
)


class LeftOutError(Exception):
    """The row cannot be compared; the message says why."""


@dataclass(frozen=True)
class Comparison:
    """One row of the log file beside the plan for it. error: relative, of the pool."""

    row: dict[str, str]
    rules: str
    plan: MemoryPlan
    assumed_utilization: bool
    error: float


def main() -> None:
    parser = argparse.ArgumentParser(description="KV pool of the memory model against engine start-up logs")
    parser.add_argument("--data", type=Path, required=True, help="folder with the measured data")
    folder = parser.parse_args().data
    with (folder / LOGS).open(encoding="utf-8", newline="") as file:
        compared, left_out = compare_rows(csv.DictReader(file))
    print("\n".join(report(compared, left_out)))


def compare_rows(rows: Iterable[dict[str, str]]) -> tuple[list[Comparison], list[tuple[str, str]]]:
    """All rows that can be compared, and (id, reason) of the others."""
    compared, left_out = [], []
    for row in rows:
        try:
            compared.append(compare(row))
        except LeftOutError as reason:
            left_out.append((row["id"], str(reason)))
    return compared, left_out


def compare(row: dict[str, str]) -> Comparison:
    """Plan the memory of one start-up. Raises LeftOutError if the row says too little."""
    if not row["tokens"] and not row["kv_gib"]:
        raise LeftOutError("the log states no pool")
    architecture, gpu = _architecture(row), _gpu(row)
    rules_key = _rules_key(row["engine"])
    layout = _layout(row, architecture)
    tokens, sequences = V0_LIMITS if rules_key == "vllm-0.7" else default_batch_limits(gpu)
    limits = int(row["max_num_batched_tokens"] or tokens), int(row["max_num_seqs"] or sequences)
    plan = plan_memory(architecture, gpu, load_memory_rules(rules_key), layout, *limits)
    if row["tokens"]:
        error = plan.kv_pool_tokens / float(row["tokens"]) - 1 if float(row["tokens"]) else 0.0
    else:
        error = plan.kv_gib / float(row["kv_gib"]) - 1
    return Comparison(row, rules_key, plan, not row["util"], error)


def catalogue_key(model: str) -> str:
    """The catalogue's key of a checkpoint: its name in lower case, without organisation and variant."""
    name = (model.rsplit("/", 1)[-1].lower().split() or [""])[0]
    while (shorter := VARIANT.sub("", name)) != name:
        name = shorter
    return OTHER_NAMES.get(name, name)


def weights_dtype(row: dict[str, str]) -> str:
    """What the row's name and columns say of the weights, in a layout's words."""
    text = f"{row['model']} {row['quant']}".lower()
    for word, dtype in (
        ("w8a8", "int8"),
        ("fp8", "fp8"),
        ("gptq", "gptq"),
        ("4bit", "awq"),
        ("4-bit", "awq"),
    ):
        if word in text:
            return dtype
    return "float16" if row["weight_dtype"] in ("float16", "fp16") else "bfloat16"


def _architecture(row: dict[str, str]) -> Architecture:
    try:
        return load_architecture(catalogue_key(row["model"]))
    except ConfigError:
        raise LeftOutError(f"{row['model'] or 'the model'} is not in the catalogue") from None


def _gpu(row: dict[str, str]) -> Gpu:
    """The catalogue's GPU, with the memory that the log states if it does."""
    name = row["gpu"].lower()
    for word, key in GPUS:
        if word in name:
            gpu = load_gpu(key)
            total = row["gpu_total_gib"]
            return replace(gpu, memory_usable_gib=float(total)) if total else gpu
    raise LeftOutError(f"GPU {row['gpu']!r} is not known")


def _rules_key(engine: str) -> str:
    minor = _minor(engine)
    return next(key for first, key in RULES_FROM if minor >= first)


def _minor(engine: str) -> int:
    """The x of version 0.x."""
    found = re.search(r"0\.(\d+)", engine)
    if found is None:
        raise LeftOutError(f"no version in {engine!r}")
    return int(found.group(1))


def _layout(row: dict[str, str], architecture: Architecture) -> ReplicaLayout:
    length = int(float(row["max_model_len"])) if row["max_model_len"] else None
    layout = ReplicaLayout(
        tensor_parallel_size=int(row["tp"]),
        pipeline_parallel_size=int(row["pp"]),
        dtype=weights_dtype(row),
        kv_cache_dtype="fp8" if row["kv_dtype"] == "fp8" else "auto",
        gpu_memory_utilization=float(row["util"] or 0.9),
        max_model_len=None if length is None else min(length, architecture.max_model_len),
    )
    try:
        check_layout(architecture, layout)
    except ConfigError as error:
        raise LeftOutError(str(error)) from None
    return layout


def report(compared: list[Comparison], left_out: list[tuple[str, str]]) -> Iterator[str]:
    """Lines of Markdown."""
    yield "| row | engine | model | TP | PP | dtype | weights GiB | | activation GiB | | tokens | | error |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    yield "| | | | | | | log | here | log | here | log | here | % |"
    for one in compared:
        yield _table_row(one)
    yield ""
    yield "| engine | rows | median % | p90 % | worst % |"
    yield "|---|---|---|---|---|"
    for family in dict.fromkeys(_family(one) for one in compared):
        errors = sorted(100 * abs(one.error) for one in compared if _family(one) == family)
        p90 = errors[min(len(errors) - 1, int(0.9 * len(errors)))]
        yield f"| {family} | {len(errors)} | {median(errors):.3f} | {p90:.3f} | {errors[-1]:.3f} |"
    yield ""
    yield "Left out: " + ("; ".join(f"{row} ({reason})" for row, reason in left_out) or "none") + "."


def _family(one: Comparison) -> str:
    assumed = ", utilisation assumed 0.9" if one.assumed_utilization else ""
    return f"vLLM 0.{_minor(one.row['engine'])} by {one.rules}{assumed}"


def _table_row(one: Comparison) -> str:
    row, plan = one.row, one.plan
    cells = [row["id"], row["engine"], row["model"], row["tp"], row["pp"], weights_dtype(row)]
    cells += [
        row["weights_gib"],
        f"{plan.weights_gib:.2f}",
        row["activation_gib"],
        f"{plan.activation_gib:.2f}",
    ]
    cells += [row["tokens"], str(plan.kv_pool_tokens), f"{100 * one.error:+.3f}"]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
