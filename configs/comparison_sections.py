"""The sections of a comparison file besides those of a scenario. `comparison.py` reads it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from servecast.configs.engine_sections import WeightDtype
from servecast.configs.fields import Bounds, Choices, Count, NotNegative, Positive, Section, Switch, Text, Whole, check

BASES = ("on-demand", "reserved", "purchase")


def _listed(value: object) -> object:
    """A single value stands for a list of one."""
    return value if isinstance(value, list | tuple) or value is None else [value]


Texts = Annotated[tuple[Text, ...], BeforeValidator(_listed), Field(min_length=1)]
Counts = Annotated[tuple[Count, ...], BeforeValidator(_listed), Field(min_length=1)]
Dtypes = Annotated[tuple[WeightDtype, ...], BeforeValidator(_listed), Field(min_length=1)]


class CandidateSection(Section):
    """One or several candidates: each combination of the lists."""

    gpu: Texts = Field(description="GPUs: catalogue keys, aliases or paths.")
    model: Texts | None = Field(default=None, description="Models. Default: the comparison's.")
    engine: Texts | None = Field(default=None, description="Engine profiles. Default: the comparison's.")
    dtype: Dtypes | None = Field(default=None, description="Number formats of the weights. Default: replica.dtype.")
    tensor_parallel_size: Counts | None = Field(
        default=None,
        description="GPUs that share every layer. Default: each power of two that splits the model.",
    )
    pipeline_parallel_size: Counts = Field(default=(1,), description="Pipeline stages.")
    set: dict[str, Any] = Field(default_factory=dict, description="Dotted key of a scenario -> value, for these only.")


class TargetSection(Section):
    """What the fleet must carry."""

    request_rate: Positive | None = Field(default=None, description="Requests/s. Default: that of the workload.")
    headroom: NotNegative = Field(default=0.0, description="Share by which the fleet must carry more than that.")
    spare_replicas: Whole = Field(default=0, description="Replicas more than needed: 1 is N+1.")


class CostSection(Section):
    """What is paid for. Unset figures are those of the price list."""

    basis: Annotated[Literal["on-demand", "reserved", "purchase"], Choices(BASES)] = Field(
        default="on-demand", description="What candidates are ranked by: on-demand, reserved or purchase."
    )
    years: Positive | None = Field(default=None, description="Purchase: years of use.")
    residual_share: Annotated[float, Bounds(ge=0, lt=1)] | None = Field(
        default=None, description="Purchase: share of the price that is left after these years."
    )
    server_price_ratio: Annotated[float, Bounds(ge=1)] | None = Field(
        default=None, description="Purchase: price of server and network with its GPUs, over that of the GPUs."
    )
    usd_per_kwh: NotNegative | None = Field(default=None, description="Purchase: price of electricity.")
    hosting_usd_per_kw_month: NotNegative | None = Field(
        default=None, description="Purchase: rent of the place, for each kW at the meter."
    )
    pue: Annotated[float, Bounds(ge=1)] | None = Field(
        default=None, description="Watts at the meter for each watt in the server."
    )


class GpuPriceSection(Section):
    """Prices of one GPU in place of the list's; USD, for each GPU."""

    on_demand: Positive | None = Field(default=None, description="USD an hour.")
    reserved: Positive | None = Field(default=None, description="USD an hour.")
    purchase: NotNegative | None = Field(default=None, description="USD to buy it; 0: paid off.")
    source: Text = Field(default="the comparison", description="Where the prices are from, for outputs.")


class KnobsSection(Section):
    """Engine settings to choose the best of, for each candidate."""

    max_num_batched_tokens: Counts | None = Field(default=None, description="Token budgets to try.")
    max_num_seqs: Counts | None = Field(default=None, description="Numbers of running requests to try.")

    @model_validator(mode="after")
    def _something_to_try(self) -> Self:
        some = self.max_num_batched_tokens is not None or self.max_num_seqs is not None
        check(some, "max_num_batched_tokens", "is missing, and so is max_num_seqs: nothing to try")
        return self


class SearchSection(Section):
    """How capacities are searched; see docs/capacity.md."""

    precision: Annotated[float, Bounds(ge=0.001, le=0.5)] = Field(default=0.02, description="As a share of the load.")
    seeds: Annotated[int, Bounds(ge=1, le=10)] = Field(default=3, description="Seeds behind each interval.")
    attainment: Annotated[float, Bounds(gt=0, lt=1)] = Field(
        default=0.99, description="Share of the requests within limits such as ttft:500."
    )
    sensitivity: Switch = Field(default=True, description="Also answer the questions of the sensitivity table.")
