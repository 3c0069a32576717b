"""Scenario sections about the engine: layout of a replica, its scheduler, and the fleet of replicas."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from servecast.configs.fields import (
    YAML_SWITCHES,
    Bounds,
    Choices,
    Count,
    NotNegative,
    Section,
    Switch,
    Whole,
    check,
    describe,
    invalid,
    near_miss,
    whole_number,
)
from servecast.model.layout import ALL2ALL_BACKENDS, BLOCK_SIZES, KV_CACHE_DTYPES, WEIGHT_DTYPES
from servecast.model.policies import POLICIES
from servecast.model.preemption import VICTIMS
from servecast.model.scheduler_parameters import KINDS

WeightDtype = Annotated[str, Choices(WEIGHT_DTYPES)]
KvCacheDtype = Annotated[str, Choices(KV_CACHE_DTYPES)]
All2AllBackend = Annotated[str, Choices(ALL2ALL_BACKENDS)]
SchedulerKind = Annotated[str, Choices(KINDS)]
Preemption = Annotated[str, Choices(("recompute", "swap", "auto"))]
Victim = Annotated[str, Choices(tuple(VICTIMS))]
Reinsert = Annotated[str, Choices(("front", "back"))]


# A class of the user's own.
_IMPORT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_ADMISSION_RULES = ("none", "slo")


def _policy(value: object) -> object:
    """A named policy, or the import path of a class of the user's own."""
    if not isinstance(value, str) or ":" not in value:
        return Choices(tuple(POLICIES)).check(value)
    if not _IMPORT_PATH.fullmatch(value):
        raise invalid(f"an import path must be written package.module:Class, found {describe(value)}")
    return value


def _admission(value: object) -> object:
    """`none`, `slo` or `{max_queue: N}`."""
    if isinstance(value, str) and value in _ADMISSION_RULES:
        return value
    if isinstance(value, Mapping) and list(value) == ["max_queue"]:
        limit = whole_number(value["max_queue"])
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise invalid(f"must be a whole number, 0 or more, found {describe(limit)}", key="max_queue")
        return {"max_queue": limit}
    found = f"a mapping of {', '.join(map(str, value))}" if isinstance(value, Mapping) and value else describe(value)
    raise invalid(f"must be none, slo or {{max_queue: N}}, found {found}", _admission_hint(value))


def _admission_hint(value: object) -> str | None:
    if isinstance(value, bool):
        return YAML_SWITCHES
    name = next(iter(value), None) if isinstance(value, Mapping) else value
    if name == "max_queue" or near_miss(name, ("max_queue", "max_queued")):
        return "Write admission: {max_queue: 100}"
    return near_miss(name.lower() if isinstance(name, str) else name, _ADMISSION_RULES)


Policy = Annotated[
    str,
    BeforeValidator(_policy),
    WithJsonSchema({"anyOf": [{"enum": list(POLICIES)}, {"type": "string", "pattern": f"^{_IMPORT_PATH.pattern}$"}]}),
]
Admission = Annotated[
    str | dict[str, int],
    BeforeValidator(_admission),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": list(_ADMISSION_RULES)},
                {
                    "type": "object",
                    "properties": {"max_queue": {"type": "integer", "minimum": 0}},
                    "required": ["max_queue"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
OnUnschedulable = Annotated[Literal["reject", "wait"], Choices(("reject", "wait"))]
Router = Annotated[str, Choices(("round_robin",))]


USUAL_SEQS = 256


def _usual_seqs(given: dict[str, Any]) -> int:
    """As many as have a token in each step, as vLLM does; `given` holds the keys before this one that were valid."""
    budget: int = given.get("max_num_batched_tokens", USUAL_SEQS)
    return min(USUAL_SEQS, budget)


class ReplicaSection(Section):
    """One engine instance: how the model is spread over GPUs, and how their memory is used."""

    tensor_parallel_size: Count = Field(default=1, description="GPUs that share every layer. Must divide the heads.")
    pipeline_parallel_size: Count = Field(
        default=1, description="Stages that share out the layers, with as many steps on their way."
    )
    dtype: WeightDtype = Field(
        default="bfloat16",
        description="Number format of the weights. A 16-bit one means as the checkpoint is.",
    )
    kv_cache_dtype: KvCacheDtype = Field(default="auto", description="Number format of the KV cache; auto is 16 bit.")
    gpu_memory_utilization: Annotated[float, Bounds(gt=0, le=1)] = Field(
        default=0.9, description="Share of a GPU's memory that the engine may use, above 0 and up to 1."
    )
    max_model_len: Count | None = Field(
        default=None, description="Most tokens of prompt and output together. Default: what the model allows."
    )
    block_size: Count = Field(default=16, description="Tokens in a KV block.")
    kv_pool_blocks: Count | None = Field(
        default=None, description="Blocks in the KV pool, for experiments. Default: computed from the memory."
    )
    enable_expert_parallel: Switch = Field(
        default=False, description="Deal whole experts out to the GPUs instead of a share of each expert to every GPU."
    )
    all2all_backend: All2AllBackend | None = Field(
        default=None,
        description="How tokens reach experts on other GPUs. Default: not at all, an all-reduce adds the outputs up.",
    )

    enforce_eager: Switch = Field(default=False, description="Run without CUDA graphs and compilation.")

    @model_validator(mode="after")
    def _known_block_size(self) -> Self:
        sizes = ", ".join(map(str, BLOCK_SIZES))
        check(self.block_size in BLOCK_SIZES, "block_size", f"must be one of {sizes}, found {self.block_size}")
        return self

    @model_validator(mode="after")
    def _exchange_of_dealt_out_experts(self) -> Self:
        check(
            self.all2all_backend is None or self.enable_expert_parallel,
            "all2all_backend",
            "needs enable_expert_parallel: true; without it no expert is on another GPU",
        )
        return self


class SchedulerSection(Section):
    """What the engine does in each step. The names are vLLM's."""

    kind: SchedulerKind = Field(
        default="vllm",
        description="Scheduler: vllm is the one of vLLM V1; textbook computes prompts whole; orca also reserves the "
        "longest KV of a request; static runs each batch to its end.",
    )
    policy: Policy = Field(
        default="fcfs",
        description="Order of the waiting queue: fcfs, shortest_prompt, priority, aging, edf, longest_prefix, or the "
        "import path of a class of your own, package.module:Class.",
    )
    aging_tokens_per_s: NotNegative = Field(
        default=100.0, description="With policy aging: prompt tokens that a second of waiting makes up for."
    )
    max_num_batched_tokens: Count = Field(default=8192, description="Most tokens in a step (token budget).")
    max_num_seqs: Count = Field(
        default_factory=_usual_seqs,
        description=f"Most requests that run at once. Default: {USUAL_SEQS}, or a smaller max_num_batched_tokens.",
        json_schema_extra={"default": USUAL_SEQS},
    )
    enable_chunked_prefill: Switch = Field(
        default=True, description="Split prompts over several steps. false: a prompt must fit a step whole."
    )
    enable_prefix_caching: Switch = Field(
        default=False, description="Share KV blocks of equal prompt beginnings (see workload.prompts)."
    )
    preemption: Preemption = Field(
        default="recompute",
        description="KV of a request that must make room: computed again later, or swapped to the host.",
    )
    preemption_victim: Victim = Field(
        default="last_admitted", description="Who makes room: last_admitted, lowest_priority or most_blocks."
    )
    preemption_reinsert: Reinsert = Field(
        default="front", description="Where the preempted wait: front of the queue, or back (which can starve them)."
    )
    swap_copy_us: NotNegative = Field(
        default=2.0,
        description="Microseconds of each copy besides its bytes; a KV block is two copies a layer. Not measured.",
    )
    swap_overlap: Switch = Field(default=False, description="Copies run beside the step instead of before it.")
    swap_space: Annotated[float, Bounds(ge=0, le=1_000_000)] = Field(
        default=4.0, description="Host memory for swapped KV, GiB for each GPU."
    )
    watermark: Annotated[float, Bounds(ge=0, lt=1)] = Field(
        default=0.0, description="Share of the KV pool that must stay free when a request is admitted."
    )
    scheduler_reserve_full_isl: Switch | None = Field(
        default=None,
        description="Admit a prompt only when all of it fits the pool, not just a chunk. Default: the engine's.",
    )
    admission: Admission = Field(
        default="none",
        description="Rule that turns requests away at arrival: none, slo (predicted TTFT over the limit of `slo`) or "
        "{max_queue: N}.",
    )
    backpressure: Switch = Field(
        default=False, description="No new admissions while over a fifth of the output's work is recomputation."
    )
    on_unschedulable: OnUnschedulable = Field(
        default="reject",
        description="A request that can never run: reject and count it, or let it block the queue.",
    )
    long_prefill_token_threshold: Whole = Field(
        default=0, description="Most tokens that one prompt takes of a step; 0 is no limit."
    )
    max_num_partial_prefills: Count = Field(
        default=1, description="Above 1: so many prompts share the token budget. 1 is the way of vLLM V1."
    )
    max_long_partial_prefills: Count = Field(
        default=1,
        description="Of these, how many may be longer than long_prefill_token_threshold; shorter ones pass them.",
    )

    @model_validator(mode="after")
    def _budget_covers_the_batch(self) -> Self:
        tokens, seqs = self.max_num_batched_tokens, self.max_num_seqs
        key, problem = "max_num_batched_tokens", f"must not be below max_num_seqs ({seqs}), found {tokens}"
        if key not in self.model_fields_set:
            key, problem = "max_num_seqs", f"must not be above max_num_batched_tokens ({tokens}), found {seqs}"
        reason = "Every running request needs a token of each step; vLLM refuses to start otherwise"
        check(tokens >= seqs, key, problem, reason)
        return self

    @model_validator(mode="after")
    def _long_prefills_are_some_of_all(self) -> Self:
        limit = self.max_num_partial_prefills
        check(
            self.max_long_partial_prefills <= limit,
            "max_long_partial_prefills",
            f"must not be above max_num_partial_prefills ({limit}), found {self.max_long_partial_prefills}",
        )
        check(
            limit <= self.max_num_batched_tokens,
            "max_num_partial_prefills",
            f"must not be above max_num_batched_tokens ({self.max_num_batched_tokens}), found {limit}",
        )
        return self


class FleetSection(Section):
    """The replicas behind one router. All are alike."""

    replicas: Annotated[int, Bounds(ge=1, le=10_000)] = Field(default=1, description="Number of replicas.")
    router: Router = Field(default="round_robin", description="How requests are shared out over the replicas.")
