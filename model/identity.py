"""What sets requests apart besides their lengths: priorities, tenants, and what their prompts share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from servecast.model.request import Content

# Content id of the beginning that all prompts share; distinct prompts count from 0.
SHARED_PREFIX = -1


@dataclass(frozen=True)
class IdentityParameters:
    """priorities, tenants: share of the requests that have each; empty for none. distinct_prompts: request i uses
    prompt i mod this, None for private prompts. shared_prefix_tokens: tokens that all prompts begin with. contents:
    recorded ones, one a request, in place of both.
    """

    priorities: Mapping[int, float] = field(default_factory=dict)
    tenants: Mapping[str, float] = field(default_factory=dict)
    distinct_prompts: int | None = None
    shared_prefix_tokens: int = 0
    contents: Sequence[Content] | None = None


@dataclass(frozen=True, eq=False)
class Identity:
    """One entry a request; None where unused. prompt_tokens: those of the distinct prompts where these repeat."""

    prompt_tokens: npt.NDArray[np.int64]
    priority: npt.NDArray[np.int64] | None
    tenant: npt.NDArray[np.str_] | None
    content: Sequence[Content] | None


def draw_identity(
    params: IdentityParameters,
    prompt_tokens: npt.NDArray[np.int64],
    priorities_rng: np.random.Generator,
    tenants_rng: np.random.Generator,
) -> Identity:
    """Identity of requests whose drawn prompts have `prompt_tokens` tokens."""
    count = len(prompt_tokens)
    if params.distinct_prompts is not None:
        prompt_tokens = prompt_tokens[np.arange(count) % params.distinct_prompts]
    return Identity(
        prompt_tokens,
        _by_share(params.priorities, count, priorities_rng),
        _by_share(params.tenants, count, tenants_rng),
        _contents(params, prompt_tokens),
    )


def _by_share(shares: Mapping[Any, float], count: int, rng: np.random.Generator) -> npt.NDArray[Any] | None:
    if not shares:
        return None
    weights = np.array(list(shares.values()), dtype=np.float64)
    return np.asarray(rng.choice(np.array(list(shares)), count, p=weights / weights.sum()))


def _contents(params: IdentityParameters, prompt_tokens: npt.NDArray[np.int64]) -> Sequence[Content] | None:
    if params.contents is not None:
        return params.contents[: len(prompt_tokens)]
    distinct, shared = params.distinct_prompts, params.shared_prefix_tokens
    if distinct is None and not shared:
        return None
    number = distinct or len(prompt_tokens)
    lengths = prompt_tokens[:number].tolist()
    kinds = [_content(prompt, tokens, shared, private=distinct is None) for prompt, tokens in enumerate(lengths)]
    return [kinds[i % number] for i in range(len(prompt_tokens))]


def _content(prompt: int, tokens: int, shared: int, *, private: bool) -> Content:
    beginning = ((SHARED_PREFIX, min(shared, tokens)),) if shared else ()
    rest = tokens - min(shared, tokens)
    return beginning if private or not rest else (*beginning, (prompt, rest))
