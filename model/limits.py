"""Which requests can never run on a replica, and why."""

from __future__ import annotations

from dataclasses import dataclass

from servecast.model.block_pool import BlockPool
from servecast.model.request import Request
from servecast.model.scheduler_parameters import SchedulerParameters


@dataclass(frozen=True)
class Limits:
    """max_model_len: tokens of prompt and output. max_prompt: tokens of a prompt. pool_blocks: blocks of `block_size`
    tokens that one request may fill. always_fits: tokens of a request that meets every limit.
    """

    max_model_len: int
    max_prompt: int
    pool_blocks: int
    block_size: int
    always_fits: int

    @classmethod
    def of(cls, parameters: SchedulerParameters, pool: BlockPool, max_model_len: int) -> Limits:
        """Without chunked prefill a prompt must fit the token budget of one step."""
        max_prompt = max_model_len if parameters.chunked else parameters.max_num_batched_tokens
        always_fits = min(max_model_len, max_prompt, pool.num_blocks * pool.block_size)
        return cls(max_model_len, max_prompt, pool.num_blocks, pool.block_size, always_fits)

    def never_runs(self, request: Request) -> str | None:
        """Why `request` can never be served, None if it can."""
        tokens = request.prompt_tokens + request.output_tokens
        if tokens <= self.always_fits:
            return None
        if tokens > self.max_model_len:
            return "over_max_model_len"
        if request.prompt_tokens > self.max_prompt:
            return "prompt_over_token_budget"
        return "over_kv_pool" if request.max_kv_tokens > self.pool_blocks * self.block_size else None
