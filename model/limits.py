"""Which requests can never run on a replica, and why."""

from __future__ import annotations

from dataclasses import dataclass

from servecast.model.block_pool import BlockPool
from servecast.model.request import Request
from servecast.model.scheduler_parameters import SchedulerParameters


@dataclass(frozen=True)
class Limits:
    """max_model_len: tokens of prompt and output. max_prompt: tokens of a prompt. pool: one request must fit it alone.
    always_fits: tokens of a request that meets every limit.
    """

    max_model_len: int
    max_prompt: int
    pool: BlockPool
    always_fits: int

    @classmethod
    def of(cls, parameters: SchedulerParameters, pool: BlockPool, max_model_len: int) -> Limits:
        """Without chunked prefill a prompt must fit the token budget of one step."""
        max_prompt = max_model_len if parameters.chunked else parameters.max_num_batched_tokens
        fits_pool = pool.num_blocks // pool.most_blocks_for(1) * pool.block_size
        return cls(max_model_len, max_prompt, pool, min(max_model_len, max_prompt, fits_pool))

    def never_runs(self, request: Request) -> str | None:
        """Why `request` can never be served, None if it can."""
        tokens = request.prompt_tokens + request.output_tokens
        if tokens <= self.always_fits:
            return None
        if tokens > self.max_model_len:
            return "over_max_model_len"
        if request.prompt_tokens > self.max_prompt:
            return "prompt_over_token_budget"
        fits = self.pool.most_blocks_for(request.max_kv_tokens) <= self.pool.num_blocks
        return None if fits else "over_kv_pool"
