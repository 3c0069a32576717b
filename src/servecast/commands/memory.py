"""`servecast memory`: does a model fit a GPU, how large is the KV pool, and what to change if it does not fit."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console

from servecast.configs.architectures import load_architecture, model_keys
from servecast.hardware.catalogue import normalised
from servecast.hardware.engines import DEFAULT_ENGINE, EngineProfile, load_engine
from servecast.hardware.errors import ConfigError
from servecast.hardware.gpus import Gpu, gpu_keys, load_gpu
from servecast.model.fit_advice import FitQuestion, changes_that_fit
from servecast.model.layout import ReplicaLayout, check_layout
from servecast.model.memory import default_batch_limits
from servecast.reports.memory_text import MemoryAnswer, memory_figures, render_memory

if TYPE_CHECKING:
    from servecast.configs.scenario import Scenario

T = TypeVar("T")
# vLLM's key -> value, None where the user said nothing.
Settings = Mapping[str, Any]

EXAMPLE = "servecast memory --model llama-3.1-8b --gpu h100-sxm"

_WIDE = 200
_SCHEDULER_KEYS = ("max_num_batched_tokens", "max_num_seqs")
_SHORT_OPTIONS = {"tensor_parallel_size": "--tp", "pipeline_parallel_size": "--pp"}


def show_memory(
    scenario: Path | None,
    overrides: Sequence[str],
    gpus: Sequence[str],
    settings: Settings,
    *,
    length: int | None,
    as_json: bool,
) -> bool:
    """Print the memory of one replica; whether it fits all GPUs that were asked for.

    Either a `scenario` with `overrides`, or `settings` with a model; `gpus` go before the scenario's GPU.
    length: tokens of a sequence that the concurrency is about, None for max_model_len. Raises ConfigError.
    """
    given = {key: value for key, value in settings.items() if value is not None}
    if scenario is not None:
        _check_alone(scenario, given)
        engine, questions = _questions_of_scenario(scenario, overrides, gpus)
    else:
        _check_complete(given, gpus, overrides)
        engine, questions = _questions_of_options(given, gpus)
    answers = [_answer(question, engine, length) for question in questions]
    if as_json:
        figures = [memory_figures(answer) for answer in answers]
        print(json.dumps(figures if len(gpus) > 1 else figures[0], indent=2))
    else:
        _print(answers)
    return all(answer.plan.fits for answer in answers)


def _print(answers: Sequence[MemoryAnswer]) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        # Into a file or a pipe, tables are as wide as they are and a sentence is one line.
        console = Console(highlight=False, width=_WIDE, soft_wrap=True)
    console.print(render_memory(answers, console.width))


def _answer(question: FitQuestion, engine: EngineProfile, length: int | None) -> MemoryAnswer:
    plan = question.plan(question.layout)
    asked = plan.max_model_len if length is None else length
    if not 1 <= asked <= plan.max_model_len:
        limit = f"max_model_len ({plan.max_model_len:,})"
        raise ConfigError(f"must be between 1 and {limit} tokens, found {asked:,}", key="--length")
    # The same pool, filled with sequences of the length asked for.
    filled = question.plan(replace(question.layout, max_model_len=asked, kv_pool_blocks=plan.kv_pool_blocks))
    return MemoryAnswer(
        question=question,
        engine=engine,
        plan=plan,
        length=asked,
        max_concurrency=filled.max_concurrency,
        changes=() if plan.fits else tuple(changes_that_fit(question)),
    )


def _questions_of_scenario(
    file: Path, overrides: Sequence[str], gpus: Sequence[str]
) -> tuple[EngineProfile, list[FitQuestion]]:
    """The engine, and one question for each GPU. The workload is not looked at: no trace is read."""
    # Imported here: pydantic would double the time of an answer without a scenario.
    from servecast.configs.load import load_scenario

    scenario = load_scenario(file, overrides)
    architecture = _from_scenario(scenario, "model", load_architecture)
    layout = ReplicaLayout(**scenario.replica.model_dump())
    try:
        check_layout(architecture, layout)
    except ConfigError as error:
        raise scenario.origin.locate(error, "replica") from None
    engine = _from_scenario(scenario, "engine", load_engine)
    loaded = [_from_option("--gpu", load_gpu, gpu) for gpu in gpus] or [_from_scenario(scenario, "gpu", load_gpu)]
    limits = (scenario.scheduler.max_num_batched_tokens, scenario.scheduler.max_num_seqs)
    return engine, [FitQuestion(architecture, gpu, engine.memory, layout, *limits) for gpu in loaded]


def _from_scenario(scenario: Scenario, key: str, load: Callable[[str], T]) -> T:
    """What `load` makes of the scenario's `key`; a path is relative to the file, and errors have its line."""
    from servecast.configs.scenario import looks_like_path

    value: str = getattr(scenario, key)
    try:
        return load(str(scenario.origin.resolve(key, value)) if looks_like_path(value) else value)
    except ConfigError as error:
        raise scenario.origin.locate(error, key) from None


def _questions_of_options(given: Settings, gpus: Sequence[str]) -> tuple[EngineProfile, list[FitQuestion]]:
    """The engine, and one question for each GPU."""
    architecture = _from_option("--model", load_architecture, given["model"])
    engine = _from_option("--engine", load_engine, given.get("engine", DEFAULT_ENGINE))
    loaded = [_from_option("--gpu", load_gpu, gpu) for gpu in gpus]
    apart = ("model", "engine", *_SCHEDULER_KEYS)
    layout = ReplicaLayout(**{key: value for key, value in given.items() if key not in apart})
    try:
        check_layout(architecture, layout)
    except ConfigError as error:
        key = (error.key or "").removeprefix("replica.")
        raise ConfigError(error.problem, key=option_of(key), hint=error.hint) from None
    return engine, [FitQuestion(architecture, gpu, engine.memory, layout, *_batch_limits(given, gpu)) for gpu in loaded]


def _batch_limits(given: Settings, gpu: Gpu) -> tuple[int, int]:
    """max_num_batched_tokens and max_num_seqs; what is not given is what vLLM's server takes on `gpu` by itself."""
    usual_tokens, usual_rows = default_batch_limits(gpu)
    tokens = given.get("max_num_batched_tokens", max(usual_tokens, given.get("max_num_seqs", 0)))
    rows = given.get("max_num_seqs", min(usual_rows, max(tokens, 1)))
    for key, value in zip(_SCHEDULER_KEYS, (tokens, rows), strict=True):
        if value < 1:
            raise ConfigError(f"must be 1 or more, found {value}", key=option_of(key))
    if tokens < rows:
        problem = f"must not be below max_num_seqs ({rows}), found {tokens}"
        hint = "Every running request needs a token of each step; vLLM refuses to start otherwise"
        raise ConfigError(problem, key=option_of("max_num_batched_tokens"), hint=hint)
    return tokens, rows


def option_of(key: str) -> str:
    """The option that sets vLLM's `key`."""
    return _SHORT_OPTIONS.get(key, "--" + key.replace("_", "-"))


def _from_option(option: str, load: Callable[[str], T], value: str) -> T:
    """What `load` makes of `value`; a ConfigError that names no file names the option."""
    try:
        return load(value)
    except ConfigError as error:
        if error.file is not None:
            raise
        raise ConfigError(error.problem, key=option, hint=error.hint) from None


def _check_complete(given: Settings, gpus: Sequence[str], overrides: Sequence[str]) -> None:
    """Raise ConfigError if there is no scenario and the options do not make up for it."""
    if "model" not in given or not gpus:
        missing = "--gpu" if "model" in given else "--model" if gpus else None
        problem = "a scenario file is needed, or --model and --gpu" if missing is None else "is missing"
        raise ConfigError(problem, key=missing, hint=f"For example: {EXAMPLE}")
    if overrides:
        raise ConfigError("changes a scenario file; beside --model use options such as --tp", key="--set")


def _check_alone(scenario: Path, given: Settings) -> None:
    """Raise ConfigError for a word that is a catalogue key and no file, and for options that contradict a scenario."""
    word = normalised(str(scenario))
    if not scenario.exists():
        for option, keys in (("--gpu", gpu_keys()), ("--model", model_keys())):
            if word in keys:
                hint = f"Write {option} {word}" + ("; each GPU has a --gpu of its own" if option == "--gpu" else "")
                raise ConfigError("no such scenario file", file=scenario, hint=hint)
    for key, value in given.items():
        section = "scheduler." if key in _SCHEDULER_KEYS else "" if key in ("model", "engine") else "replica."
        problem = f"not beside a scenario file ({scenario}), which says it itself"
        raise ConfigError(problem, key=option_of(key), hint=f"Change it with --set {section}{key}={value}")
