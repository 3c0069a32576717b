"""The scheduler's settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from servecast.model.admission import AdmissionParameters
from servecast.model.policies import PolicyParameters
from servecast.model.preemption import PreemptionParameters

KINDS = ("vllm", "textbook", "orca", "static")


@dataclass(frozen=True)
class SchedulerParameters:
    """vLLM's settings under vLLM's names.

    kind: "vllm"; "textbook", which computes prompts whole; "orca", which also reserves a request's longest KV at
    admission; "static", which reserves it too, computes all prompts of a batch, and decodes it to its end before the
    next. watermark: share of the pool that an admission must leave free. scheduler_reserve_full_isl: admit a prompt
    only when blocks for all of it are free, not just for its first chunk. max_num_partial_prefills: above 1, so many
    prompts share the token budget; 1 is vLLM V1's way, without a limit of their number. backpressure: no new admissions
    while the replica thrashes.
    """

    kind: str = "vllm"
    max_num_batched_tokens: int = 8192
    max_num_seqs: int = 256
    enable_chunked_prefill: bool = True
    enable_prefix_caching: bool = False
    long_prefill_token_threshold: int = 0
    max_num_partial_prefills: int = 1
    max_long_partial_prefills: int = 1
    watermark: float = 0.0
    scheduler_reserve_full_isl: bool = False
    on_unschedulable: Literal["reject", "wait"] = "reject"
    backpressure: bool = False
    policy: PolicyParameters = field(default_factory=PolicyParameters)
    preemption: PreemptionParameters = field(default_factory=PreemptionParameters)
    admission: AdmissionParameters = field(default_factory=AdmissionParameters)

    @property
    def chunked(self) -> bool:
        """Whether a prompt may take several steps. Those of a static batch do as many as it takes."""
        return self.kind == "static" or (self.kind == "vllm" and self.enable_chunked_prefill)

    @property
    def reserves_outputs(self) -> bool:
        return self.kind in ("orca", "static")

    @property
    def chunk_limit(self) -> int:
        """Most tokens of one prompt in a step."""
        if not self.chunked:
            return self.max_num_batched_tokens
        share = self.max_num_batched_tokens // self.max_num_partial_prefills
        return min(share, self.long_prefill_token_threshold or share)
