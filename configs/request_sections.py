"""Scenario sections about what sets requests apart: shared prompts, and cohorts in the results."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from servecast.configs.fields import Choices, Count, Section, Whole, check

COHORT_KEYS = ("prompt_tokens", "output_tokens", "priority", "tenant")


class PromptsSection(Section):
    """What prompts have in common, for the prefix cache."""

    distinct: Count | None = Field(
        default=None,
        description="Number of distinct prompts; request i uses prompt i mod distinct, with its length. Default: all.",
    )
    shared_prefix_tokens: Whole = Field(
        default=0, description="Tokens that all prompts begin with, such as a system prompt; part of their length."
    )


class CohortsSection(Section):
    """Classes of requests for which every metric is reported by itself."""

    by: Annotated[str, Choices(COHORT_KEYS)] = Field(
        description="What tells them apart: prompt_tokens, output_tokens, priority or tenant."
    )
    edges: tuple[Count, ...] = Field(
        default=(), description="For token counts: upper edges of the classes, increasing; the last class has none."
    )

    @model_validator(mode="after")
    def _edges_for_counts(self) -> Self:
        counts = self.by.endswith("_tokens")
        check(counts == bool(self.edges), "edges", "go with prompt_tokens or output_tokens, and only with these")
        check(list(self.edges) == sorted(set(self.edges)), "edges", "must increase")
        return self
