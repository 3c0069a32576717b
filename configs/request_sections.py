"""Scenario sections about what sets requests apart: shared prompts, and cohorts in the results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from servecast.configs.fields import (
    YAML_SWITCHES,
    Choices,
    Count,
    Positive,
    Section,
    Text,
    Whole,
    check,
    describe,
    invalid,
)

COUNTS = ("prompt_tokens", "output_tokens")
COHORT_KEYS = (*COUNTS, "priority", "tenant")

_WHOLE = re.compile(r"-?\d+")


def _priority_shares(value: object) -> object:
    """JSON, and the effective scenario with it, has text for keys."""
    shares = _shares(value, "priorities: {0: 1, 10: 3}")
    for priority in shares:
        whole = isinstance(priority, int) and not isinstance(priority, bool)
        if not whole and not (isinstance(priority, str) and _WHOLE.fullmatch(priority)):
            raise invalid(f"a priority must be a whole number, found {describe(priority)}", key=str(priority))
    return shares


def _tenant_shares(value: object) -> object:
    shares = _shares(value, "tenants: {free: 3, paid: 1}")
    for name in shares:
        if not isinstance(name, str) or not name:
            hint = (
                YAML_SWITCHES if isinstance(name, bool) else f'Put quotes around it: "{name}"' if name != "" else None
            )
            found = describe(name) if name != "" else "an empty text"
            raise invalid(f"a tenant's name must be text, found {found}", hint, str(name))
    return shares


def _shares(value: object, example: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping) or not value:
        found = "an empty one" if isinstance(value, Mapping) else describe(value)
        raise invalid(f"must be a mapping with shares of the requests, found {found}", f"Such as {example}")
    return value


PriorityShares = Annotated[dict[int, Positive], BeforeValidator(_priority_shares)]
TenantShares = Annotated[dict[Text, Positive], BeforeValidator(_tenant_shares)]


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
        edges = list(self.edges)
        if self.by in COUNTS:
            hint = "Such as edges: [512, 4096], for three classes"
            check(bool(edges), "edges", f"is missing: {self.by} needs the upper edges of its classes", hint)
        else:
            check(not edges, "edges", f"belongs to by: prompt_tokens or output_tokens, found by: {self.by}")
        check(edges == sorted(set(edges)), "edges", f"must increase, found {edges}")
        return self
