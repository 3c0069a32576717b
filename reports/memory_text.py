"""The memory of a replica for the terminal, in the words of the engine's start-up log; several GPUs side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from servecast.hardware.engines import EngineProfile
from servecast.hardware.memory_rules import MemoryRules
from servecast.model.fit_advice import Change, FitQuestion
from servecast.model.memory import MemoryPlan, default_batch_limits
from servecast.model.weights import effective_quantization

UNVALIDATED = "unvalidated"

_GAP = 2
_POOL_SUMS = {
    "profile_run": "KV cache = requested - weights - activation - non-torch{graphs}",
    "static_fraction": "KV cache = {share:g} x (total - non-torch) - weights",
    "free_fraction": "KV cache = {share:g} x (total - weights - activation - non-torch{graphs})",
}
# What the engine calls the share of memory that the layout calls gpu_memory_utilization.
_SHARE_NAMES = {"static_fraction": "mem_fraction_static", "free_fraction": "free_gpu_memory_fraction"}


@dataclass(frozen=True)
class MemoryAnswer:
    """What `servecast memory` found for one GPU.

    engine: the profile whose rules were used. length: tokens that `max_concurrency` is about.
    max_concurrency: sequences of that length at once, by memory alone. changes: what makes it fit, if it does not.
    """

    question: FitQuestion
    engine: EngineProfile
    plan: MemoryPlan
    length: int
    max_concurrency: float
    changes: tuple[Change, ...]

    @property
    def gpu(self) -> str:
        return self.question.gpu.key

    @property
    def weights_dtype(self) -> str:
        """Number format of the matrices: that of a quantised checkpoint stays under a 16-bit `dtype`."""
        quantization = effective_quantization(self.question.architecture, self.question.layout.dtype)
        return self.question.layout.dtype if quantization is None else quantization.dtype

    @property
    def left_over_gib(self) -> float:
        """What is left of the GPU beside all but the CUDA graphs; negative if the pool alone does not fit."""
        plan = self.plan
        return plan.total_gib - plan.weights_gib - plan.activation_gib - plan.non_torch_gib - plan.kv_gib


def memory_figures(answer: MemoryAnswer) -> dict[str, Any]:
    """The answer as plain data for JSON, sizes in GiB on each GPU."""
    question, plan = answer.question, answer.plan
    layout, rules = question.layout, question.rules
    return {
        "fits": plan.fits,
        "short_gib": plan.short_gib,
        "total_gib": plan.total_gib,
        "requested_gib": plan.requested_gib,
        "weights_gib": plan.weights_gib,
        "activation_gib": plan.activation_gib,
        "non_torch_gib": plan.non_torch_gib,
        "cuda_graph_gib": plan.cuda_graph_gib,
        "kv_gib": plan.kv_gib,
        "kv_pool_blocks": plan.kv_pool_blocks,
        "kv_pool_tokens": plan.kv_pool_tokens,
        "max_concurrency": answer.max_concurrency,
        "length": answer.length,
        "model": question.architecture.key,
        "gpu": answer.gpu,
        "engine": answer.engine.key,
        "tensor_parallel_size": layout.tensor_parallel_size,
        "pipeline_parallel_size": layout.pipeline_parallel_size,
        "dtype": answer.weights_dtype,
        "kv_cache_dtype": layout.kv_cache_dtype,
        "gpu_memory_utilization": layout.gpu_memory_utilization,
        "max_model_len": plan.max_model_len,
        "block_size": plan.block_size,
        "kv_groups": plan.kv_groups,
        "max_num_batched_tokens": question.max_num_batched_tokens,
        "max_num_seqs": question.max_num_seqs,
        "changes": [_change_figures(change) for change in answer.changes],
        "validated": rules.residual != UNVALIDATED,
        "residual": rules.residual,
        "notes": list(question.architecture.notes),
    }


def _change_figures(change: Change) -> dict[str, Any]:
    plan = change.plan
    return {
        "settings": dict(change.settings),
        "kv_pool_tokens": plan.kv_pool_tokens,
        "max_model_len": plan.max_model_len,
        "max_concurrency": plan.max_concurrency,
    }


def render_memory(answers: Sequence[MemoryAnswer], width: int) -> RenderableType:
    """Everything that the terminal shows. `answers` differ in the GPU only; `width`: columns of the terminal."""
    parts: list[RenderableType] = [Text(_title(answers[0]), style="bold")]
    for table in _tables(answers, width):
        parts += [table, Text()]
    for answer in answers:
        parts += _verdict(answer)
    parts.append(Text())
    parts += [Text(line) for line in (*_assumptions(answers), *_notes(answers), *_trust(answers))]
    return Group(*parts)


def _title(answer: MemoryAnswer) -> str:
    layout = answer.question.layout
    cache = "16-bit" if layout.kv_cache_dtype == "auto" else layout.kv_cache_dtype
    stages = f", PP {layout.pipeline_parallel_size}" if layout.pipeline_parallel_size > 1 else ""
    return (
        f"{answer.question.architecture.key} ({answer.weights_dtype} weights, {cache} KV cache), "
        f"TP {layout.tensor_parallel_size}{stages}, {answer.engine.key}"
    )


Row = tuple[str, Callable[[MemoryAnswer], str]]


def _rows(first: MemoryAnswer) -> list[Row]:
    """Label and cell of each line; the labels are the same for all GPUs."""
    layout, rules, plan = first.question.layout, first.question.rules, first.plan
    share = f"{_SHARE_NAMES.get(rules.pool, 'utilization')} {layout.gpu_memory_utilization:g}"
    beyond = "" if _makes_room_for_graphs(rules) else ", on top of that"
    stage: list[Row] = [("Pipeline stage with the fewest blocks", _stage_cell)]
    return [
        ("Total", lambda answer: _gib(answer.plan.total_gib)),
        (f"Requested ({share})", lambda answer: _gib(answer.plan.requested_gib)),
        ("Weights", lambda answer: _gib(answer.plan.weights_gib)),
        ("Activation (peak)", lambda answer: _gib(answer.plan.activation_gib)),
        ("Non-torch", lambda answer: _gib(answer.plan.non_torch_gib)),
        ("KV cache", lambda answer: _gib(answer.plan.kv_gib)),
        (f"CUDA graphs (rough{beyond})", lambda answer: _gib(answer.plan.cuda_graph_gib)),
        ("KV cache size (tokens)", lambda answer: f"{answer.plan.kv_pool_tokens:,}"),
        (f"Blocks of {_tokens(plan.block_size)}", lambda answer: f"{answer.plan.kv_pool_blocks:,}"),
        (f"Maximum concurrency, {_tokens(first.length)}", lambda answer: f"{answer.max_concurrency:,.2f}x"),
        *(stage if layout.pipeline_parallel_size > 1 else []),
    ]


def _gib(value: float) -> str:
    return f"{value:,.2f}"


def _stage_cell(answer: MemoryAnswer) -> str:
    return f"{answer.plan.stage + 1} of {answer.question.layout.pipeline_parallel_size}"


def _makes_room_for_graphs(rules: MemoryRules) -> bool:
    return rules.cuda_graph_subtracted and rules.pool != "static_fraction"


def _tables(answers: Sequence[MemoryAnswer], width: int) -> Iterator[Table]:
    """As many GPUs side by side as `width` has room for; the others below."""
    title, rows = "GiB on each GPU", _rows(answers[0])
    room = width - max(len(title), *(len(label) for label, _ in rows))
    columns = [[answer.gpu, *(cell(answer) for _, cell in rows)] for answer in answers]
    for abreast in _abreast(columns, room):
        table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False)
        table.add_column(title, no_wrap=True)
        for heading, *_ in abreast:
            table.add_column(heading, justify="right")
        for line, (label, _) in enumerate(rows, start=1):
            table.add_row(label, *(column[line] for column in abreast))
        yield table


def _abreast(columns: Sequence[Sequence[str]], room: int) -> Iterator[Sequence[Sequence[str]]]:
    """`columns` in runs that are at most `room` characters wide, of one column or more."""
    start, used = 0, 0
    for index, column in enumerate(columns):
        needed = _GAP + max(map(len, column))
        if index > start and used + needed > room:
            yield columns[start:index]
            start, used = index, 0
        used += needed
    yield columns[start:]


def _verdict(answer: MemoryAnswer) -> list[RenderableType]:
    """Whether it fits this GPU; if so what to look out for, if not what to change."""
    plan, limit = answer.plan, answer.question.max_num_seqs
    if not plan.fits:
        lacking = f"{answer.gpu}: does NOT fit. Each GPU is {_at_least(plan.short_gib)} GiB short"
        return [Text(f"{lacking} for one sequence of {_tokens(plan.max_model_len)}."), *_advice(answer)]
    room = int(answer.max_concurrency)
    sequences = f"{room:,} sequence{'' if room == 1 else 's'} of {_tokens(answer.length)}"
    capped = f"; max_num_seqs lets {limit:,} run" if room > limit else ""
    lines = [f"{answer.gpu}: fits, with room for {sequences} at once{capped}."]
    if answer.left_over_gib < plan.cuda_graph_gib and not _makes_room_for_graphs(answer.question.rules):
        lines.append(
            f"  But only {max(0.0, answer.left_over_gib):.2f} GiB is left for about {plan.cuda_graph_gib:.2f} GiB of "
            "CUDA graphs: it may run out of memory when it captures them."
        )
    return [Text(line) for line in lines]


def _tokens(count: int) -> str:
    return "1 token" if count == 1 else f"{count:,} tokens"


def _at_least(gib: float) -> str:
    """Rounded, but never to 0.00: something is missing."""
    return f"{max(gib, 0.01):,.2f}"


def _advice(answer: MemoryAnswer) -> list[RenderableType]:
    if not answer.changes:
        return [Text("  No other utilisation, length, dtype or number of GPUs in one server makes it fit.")]
    table = Table.grid(padding=(0, _GAP))
    for justify in ("left", "left", "right"):
        table.add_column(justify=justify)
    for change in answer.changes:
        tokens = f"{change.plan.kv_pool_tokens:,} tokens of KV cache"
        table.add_row("  ", Text(str(change)), Text(tokens))
    return [Text("  It fits with any one of:" if len(answer.changes) > 1 else "  It fits with:"), table]


def _assumptions(answers: Sequence[MemoryAnswer]) -> Iterator[str]:
    """How the KV cache's share comes about, and for which batch."""
    first = answers[0]
    question, rules = first.question, first.question.rules
    graphs = " - CUDA graphs" if _makes_room_for_graphs(rules) else ""
    yield _POOL_SUMS[rules.pool].format(share=question.layout.gpu_memory_utilization, graphs=graphs) + "."
    batches: dict[tuple[int, int], list[str]] = {}
    for answer in answers:
        batch = (answer.question.max_num_batched_tokens, answer.question.max_num_seqs)
        batches.setdefault(batch, []).append(answer.gpu)
    for (tokens, rows), gpus in batches.items():
        where = f" on {', '.join(gpus)}" if len(batches) > 1 else ""
        yield f"Activation of a batch with max_num_batched_tokens {tokens:,}, max_num_seqs {rows:,}{where}."
    if first.engine.engine == "vllm":
        yield from _usual_batches(answers)


def _usual_batches(answers: Sequence[MemoryAnswer]) -> Iterator[str]:
    """What the engine would take on these GPUs by itself, where that is another batch than was asked about."""
    gpus: dict[tuple[int, int], list[str]] = {}
    for answer in answers:
        usual = default_batch_limits(answer.question.gpu)
        if usual != (answer.question.max_num_batched_tokens, answer.question.max_num_seqs):
            gpus.setdefault(usual, []).append(answer.gpu)
    others = ["{:,} and {:,} on {}".format(*limits, ", ".join(keys)) for limits, keys in gpus.items()]
    if others:
        yield f"vLLM's server takes {'; '.join(others)} unless told otherwise."


def _notes(answers: Sequence[MemoryAnswer]) -> Iterator[str]:
    first = answers[0]
    if first.question.layout.kv_pool_blocks is not None:
        yield "Note: the number of blocks is the scenario's kv_pool_blocks, not computed from the memory."
    if first.plan.kv_groups > 1:
        yield (
            f"Note: some layers see a window only, so a sequence takes blocks in {first.plan.kv_groups} groups. Tokens "
            "are counted as the engine's log does; the concurrency is what really fits."
        )
    for note in first.question.architecture.notes:
        yield f"Note: {note.removesuffix('.')}."


def _trust(answers: Sequence[MemoryAnswer]) -> Iterator[str]:
    """Where the totals are from, and last how well the rules match start-up logs."""
    for gpu in {answer.gpu: answer.question.gpu for answer in answers}.values():
        source = gpu.sources.get("memory_usable_gib")
        if source:
            yield f"Total of {gpu.key}: {source.removesuffix('.')}."
    engine, residual = answers[0].engine.key, answers[0].question.rules.residual
    if residual == UNVALIDATED:
        yield f"How far to trust it: the memory rules of {engine} are unvalidated; no start-up log was at hand."
    else:
        yield f"How far to trust it: rules of {engine} against start-up logs: {residual}."
