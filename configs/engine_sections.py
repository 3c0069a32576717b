"""Scenario sections about the engine: layout of a replica, its scheduler, and the fleet of replicas."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from servecast.configs.fields import (
    Bounds,
    Choices,
    Count,
    NotNegative,
    Section,
    Switch,
    Whole,
    check,
    only_yet,
)
from servecast.model.layout import BLOCK_SIZES, KV_CACHE_DTYPES, WEIGHT_DTYPES

WeightDtype = Annotated[str, Choices(WEIGHT_DTYPES)]
KvCacheDtype = Annotated[str, Choices(KV_CACHE_DTYPES)]
SchedulerKind = Annotated[str, Choices(("vllm",), planned=("textbook", "orca", "static"))]
Policy = Annotated[str, Choices(("fcfs",), planned=("shortest_prompt", "priority", "aging", "edf", "longest_prefix"))]
Admission = Annotated[str, Choices(("none",), planned=("slo", "max_queue"))]
Preemption = Annotated[Literal["recompute", "swap"], Choices(("recompute", "swap"), planned=("auto",))]
OnUnschedulable = Annotated[Literal["reject", "wait"], Choices(("reject", "wait"))]
Router = Annotated[str, Choices(("round_robin",))]


class ReplicaSection(Section):
    """One engine instance: how the model is spread over GPUs, and how their memory is used."""

    tensor_parallel_size: Count = Field(default=1, description="GPUs that share every layer. Must divide the heads.")
    pipeline_parallel_size: Annotated[Count, only_yet(1, "pipeline parallelism")] = Field(
        default=1, description="Stages that share out the layers. Only 1 so far."
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

    @model_validator(mode="after")
    def _known_block_size(self) -> Self:
        sizes = ", ".join(map(str, BLOCK_SIZES))
        check(self.block_size in BLOCK_SIZES, "block_size", f"must be one of {sizes}, found {self.block_size}")
        return self


class SchedulerSection(Section):
    """What the engine does in each step. The names are vLLM's."""

    kind: SchedulerKind = Field(default="vllm", description="Scheduler: vllm is the one of vLLM V1.")
    policy: Policy = Field(default="fcfs", description="Order of the waiting queue: first come, first served.")
    max_num_batched_tokens: Count = Field(default=8192, description="Most tokens in a step (token budget).")
    max_num_seqs: Count = Field(default=256, description="Most requests that run at once.")
    enable_chunked_prefill: Switch = Field(
        default=True, description="Split prompts over several steps. false: a prompt must fit a step whole."
    )
    enable_prefix_caching: Annotated[Switch, only_yet(False, "prefix caching")] = Field(
        default=False, description="Share KV blocks of equal prompt beginnings. Only false so far."
    )
    preemption: Preemption = Field(
        default="recompute",
        description="KV of a request that must make room: computed again later, or swapped to the host.",
    )
    swap_space: NotNegative = Field(default=4.0, description="Host memory for swapped KV, GiB for each GPU.")
    watermark: Annotated[float, Bounds(ge=0, lt=1)] = Field(
        default=0.0, description="Share of the KV pool that must stay free when a request is admitted."
    )
    scheduler_reserve_full_isl: Switch | None = Field(
        default=None,
        description="Admit a prompt only when all of it fits the pool, not just its first chunk. Default: the engine's.",
    )
    admission: Admission = Field(
        default="none", description="Rule that turns requests away at arrival. Only none so far."
    )
    on_unschedulable: OnUnschedulable = Field(
        default="reject",
        description="A request that can never run: reject and count it, or let it block the queue.",
    )
    long_prefill_token_threshold: Annotated[Whole, only_yet(0, "a limit for long prefills")] = Field(
        default=0,
        description="Most tokens that one long prompt takes of a step; 0 is no limit. Only 0 so far.",
    )
    max_num_partial_prefills: Annotated[Count, only_yet(1, "more than one partial prefill at once")] = Field(
        default=1, description="Prompts that may be partly computed at once. Only 1 so far."
    )

    @model_validator(mode="after")
    def _budget_covers_the_batch(self) -> Self:
        check(
            self.max_num_batched_tokens >= self.max_num_seqs,
            "max_num_batched_tokens",
            f"must not be below max_num_seqs ({self.max_num_seqs}), found {self.max_num_batched_tokens}",
            "Every running request needs a token of each step; vLLM refuses to start otherwise",
        )
        return self


class FleetSection(Section):
    """The replicas behind one router. All are alike."""

    replicas: Count = Field(default=1, description="Number of replicas.")
    router: Router = Field(default="round_robin", description="How requests are shared out over the replicas.")
