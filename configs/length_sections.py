"""Scenario sections for `workload.lengths`: how many tokens prompts and outputs have."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from servecast.configs.arrival_sections import BadRows, TraceFormatName
from servecast.configs.fields import Bounds, Choices, Count, Positive, Section, Text, check


class FixedSection(Section):
    """Always the same length."""

    distribution: Literal["fixed"]
    value: Count = Field(description="Tokens.")


class UniformSection(Section):
    """Every whole number of a range equally likely. Give `low` and `high`, or `value` and `range_ratio`."""

    distribution: Literal["uniform"]
    low: Count | None = Field(default=None, description="Fewest tokens.")
    high: Count | None = Field(default=None, description="Most tokens, included.")
    value: Count | None = Field(default=None, description="Nominal tokens, the middle of the range.")
    range_ratio: Annotated[float, Bounds(ge=0, lt=1)] | None = Field(
        default=None, description="As in vLLM: from value*(1-range_ratio) to value*(1+range_ratio)."
    )

    @model_validator(mode="after")
    def _one_pair(self) -> Self:
        by_value = self.value is not None or self.range_ratio is not None
        wanted = ("value", "range_ratio") if by_value else ("low", "high")
        for key in wanted:
            hint = "Give low and high, or value and range_ratio"
            check(getattr(self, key) is not None, key, "is missing", hint)
        mixed = by_value and (self.low is not None or self.high is not None)
        check(not mixed, "value", "stands beside low or high", "Give low and high, or value and range_ratio")
        if self.low is not None and self.high is not None:
            check(self.high >= self.low, "high", f"must not be below low ({self.low}), found {self.high}")
        return self


class LognormalSection(Section):
    """A long-tailed distribution; draws below `min` or above `max` become `min` or `max`."""

    distribution: Literal["lognormal"]
    mean: Positive = Field(description="Mean tokens, before the bounds.")
    cv: Annotated[float, Bounds(ge=0, le=100)] = Field(description="Standard deviation over mean, before the bounds.")
    min: Count = Field(default=1, description="Fewest tokens.")
    max: Count | None = Field(default=None, description="Most tokens. Default: no bound.")

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        ordered = self.max is None or self.max >= self.min
        check(ordered, "max", f"must not be below min ({self.min}), found {self.max}")
        return self


class HistogramSection(Section):
    """A quantile table: with each of `probabilities` a length of at most the `tokens` beside it."""

    distribution: Literal["histogram"]
    probabilities: tuple[Annotated[float, Bounds(ge=0, le=1)], ...] = Field(
        min_length=2, description="Increasing, from 0 to 1."
    )
    tokens: tuple[Annotated[float, Bounds(ge=1)], ...] = Field(
        min_length=2, description="Lengths at these probabilities, not decreasing; straight lines between."
    )

    @model_validator(mode="after")
    def _is_a_quantile_table(self) -> Self:
        p, tokens = self.probabilities, self.tokens
        check(
            len(p) == len(tokens),
            "tokens",
            f"must hold one for each of probabilities ({len(p)}), found {len(tokens)}",
        )
        ends = f"must run from 0 to 1, found {p[0]:g} to {p[-1]:g}"
        check(p[0] == 0 and p[-1] == 1, "probabilities", ends)
        check(all(a < b for a, b in pairwise(p)), "probabilities", "must increase")
        check(all(a <= b for a, b in pairwise(tokens)), "tokens", "must not decrease")
        return self


DistributionSection = Annotated[
    FixedSection | UniformSection | LognormalSection | HistogramSection, Field(discriminator="distribution")
]


class RecordedLengthsSection(Section):
    """Lengths of a trace file, without its times."""

    path: Text = Field(description="CSV or JSON lines file, gzip allowed; relative to the scenario file.")
    format: TraceFormatName = Field(default="auto", description="Format of the file; auto goes by its columns.")
    bad_rows: BadRows = Field(default="error", description="Rows without usable numbers: stop, or leave them out.")
    order: Annotated[Literal["replay", "sample"], Choices(("replay", "sample"))] = Field(
        default="replay", description="As recorded, from the top again at the end; or drawn at random."
    )


class LengthsSection(Section):
    """Tokens of prompts and outputs: from a `profile`, a `trace`, or distributions (`prompt`, `output`)."""

    profile: Text | None = Field(default=None, description="Built-in length statistics of a public workload.")
    trace: RecordedLengthsSection | None = Field(default=None, description="Lengths recorded in a file.")
    prompt: DistributionSection | None = Field(default=None, description="Tokens of a prompt.")
    output: DistributionSection | None = Field(default=None, description="Tokens of an output.")
    rank_correlation: Annotated[float, Bounds(ge=-1, le=1)] | None = Field(
        default=None,
        description="Spearman's correlation of prompt and output, -1 to 1. Default: 0.",
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        drawn = self.prompt is not None or self.output is not None
        sources = (self.profile is not None) + (self.trace is not None) + drawn
        hint = "Give profile: NAME, or trace: {path: FILE}, or both prompt and output"
        check(sources > 0, "profile", "is missing: nothing says how long prompts and outputs are", hint)
        check(
            sources < 2,
            "profile" if self.profile else "trace",
            "stands beside another source of lengths",
            hint,
        )
        if drawn:
            check(self.prompt is not None, "prompt", "is missing, output is there", hint)
            check(self.output is not None, "output", "is missing, prompt is there", hint)
        else:
            apart = "belongs to prompt and output; a profile or trace has its own"
            check(self.rank_correlation is None, "rank_correlation", apart)
        return self
