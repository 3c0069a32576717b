"""Seconds of the routed experts of a layer: which kernel, and how many experts a step hits.

The forms are those of docs/model.md. What engines do under tensor parallelism decides: every GPU sees all tokens, with
its share of each expert's columns, or with its share of the experts (expert parallelism); an all-reduce adds up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from servecast.hardware.engines import KernelCoefficients, MoeCoefficients
from servecast.hardware.gpus import Gpu
from servecast.model.architecture import MoeMlp, Quantization
from servecast.model.kernels import Floats, GemmTime, pnorm

# Up to so many tokens a step takes the coefficients fitted to small steps, where there are some.
SMALL_TOKENS = 64


@dataclass(frozen=True)
class ExpertShape:
    """The routed experts of a layer as one GPU holds them. width: columns of an expert on this GPU.

    spread: GPUs that the experts are dealt out to, 1 without expert parallelism.
    """

    num_experts: int
    experts_per_token: int
    hidden_size: int
    width: float
    matrices: int
    spread: int = 1

    @classmethod
    def of(cls, mlp: MoeMlp, hidden_size: int, gpus: int, *, expert_parallel: bool) -> ExpertShape:
        return cls(
            num_experts=mlp.num_experts,
            experts_per_token=mlp.experts_per_token,
            hidden_size=hidden_size,
            width=mlp.expert_intermediate_size / (1 if expert_parallel else gpus),
            matrices=3 if mlp.gated else 2,
            spread=gpus if expert_parallel else 1,
        )


def distinct_experts(tokens: Floats, shape: ExpertShape) -> Floats:
    """Expected number of experts on this GPU that at least one of `tokens` chose, all experts being equally likely.

    A token chooses `experts_per_token` different ones, so it misses a given expert with probability 1 - k/E.
    """
    missed = (1.0 - shape.experts_per_token / shape.num_experts) ** tokens
    return shape.num_experts / shape.spread * (1.0 - missed)


@dataclass(frozen=True)
class ExpertForm:
    """A fused-experts kernel on a GPU: from the choice of experts to the weighted sum of their outputs.

    small: coefficients for steps of up to SMALL_TOKENS tokens, None where one set serves all. weight_bytes,
    activation_bytes: per element. peak_flops, bytes_per_s: the datasheet's figures that the coefficients scale.
    """

    coefficients: MoeCoefficients
    small: MoeCoefficients | None
    weight_bytes: float
    activation_bytes: float
    peak_flops: float
    bytes_per_s: float

    def seconds(self, tokens: Floats, shape: ExpertShape) -> GemmTime:
        """For each of `tokens` (of the whole replica), spread evenly over the experts.

        A larger step never takes less time than one of SMALL_TOKENS, where the two sets of coefficients meet.
        """
        large = self.of_coefficients(self.coefficients, tokens, shape)
        if self.small is None:
            return large
        small = self.of_coefficients(self.small, tokens, shape)
        border = self.of_coefficients(self.small, np.asarray(float(SMALL_TOKENS)), shape)
        return small.where(tokens <= SMALL_TOKENS, large.at_least(border.total_s))

    def of_coefficients(
        self,
        c: MoeCoefficients,
        tokens: Floats,
        shape: ExpertShape,
        *,
        rows: Floats | None = None,
        hit: Floats | None = None,
    ) -> GemmTime:
        """With one set of coefficients. rows, hit: pairs of token and expert on this GPU, and its different experts, if
        known (measurements state them); else those of an even spread.
        """
        if rows is None:
            rows = tokens * shape.experts_per_token / shape.spread
        if hit is None:
            hit = distinct_experts(tokens, shape)
        weights = shape.matrices * shape.hidden_size * shape.width
        compute = 2.0 * weights * (rows + c.padding_rows * hit) / (c.e_c * self.peak_flops)
        memory = weights * hit * self.weight_bytes / (c.e_m * self.bytes_per_s)
        row_bytes = shape.hidden_size * (self.activation_bytes + 4)
        row_bytes += shape.width * (4 * (shape.matrices - 1) + 2 * self.activation_bytes)
        moved_rows = tokens * shape.experts_per_token if c.all_rows else rows
        moved = moved_rows * row_bytes + 4.0 * tokens * shape.hidden_size
        fixed = c.t0_s + moved / (c.e_a * self.bytes_per_s)
        both = pnorm(compute, memory, c.p)
        bound = compute > memory
        return GemmTime(fixed, np.where(bound, both, 0.0), np.where(bound, 0.0, both))


# Kind of kernel -> (peak that it needs, bytes per weight, bytes per activation).
_KINDS = {
    "bf16": ("16bit", 2.0, 2.0),
    "fp8": ("fp8", 1.0, 1.0),
    "fp8_block": ("fp8", 1.0, 1.0),
    "nvfp4": ("fp4", 0.5625, 0.5625),
    "mxfp4": ("16bit", 0.53125, 2.0),
    "int4": ("16bit", 0.515625, 2.0),
}
# What stands in for a kind that was not measured, or whose figures are known to be no good.
_STAND_IN = {"fp8": "fp8_block", "fp8_block": "fp8", "mxfp4": "int4"}


def expert_kind(quantization: Quantization | None) -> str:
    """Kind of experts' kernel for weights stored so; None is 16 bit."""
    if quantization is None or "experts" in quantization.ignored:
        return "bf16"
    dtype = quantization.dtype
    if dtype == "fp8" and quantization.group_size is not None:
        return "fp8_block"
    return {"fp8": "fp8", "int8": "fp8", "nvfp4": "nvfp4", "mxfp4": "mxfp4"}.get(dtype, "int4")


def expert_group(
    quantization: Quantization | None, gpu: Gpu, kernels: KernelCoefficients, *, expert_parallel: bool
) -> str:
    """Which of `kernels.moe` holds for experts stored as `quantization` says.

    Of a kind that was not measured, another may stand in; with experts dealt out, the kernel that the engine then
    takes goes first. What was measured on this GPU goes before what is typical of others.
    """
    kind = expert_kind(quantization) if has_arithmetic(quantization, gpu) else "int4"
    kinds = [kind, _STAND_IN[kind]] if kind in _STAND_IN else [kind]
    names = [name for kind in kinds for name in ((f"{kind}_ep", kind) if expert_parallel else (kind,))]
    known = [name for name in names if name in kernels.moe]
    measured = [name for name in known if f"moe_{name}" not in kernels.typical]
    return (measured or known)[0]


def has_arithmetic(quantization: Quantization | None, gpu: Gpu) -> bool:
    """Whether `gpu` multiplies experts stored so in their own format, if they have one; else they are unpacked."""
    return _peak(quantization) in gpu.peak_flops


def expert_form(
    quantization: Quantization | None, gpu: Gpu, kernels: KernelCoefficients, *, expert_parallel: bool
) -> ExpertForm:
    """The kernel for experts stored as `quantization` says.

    A GPU without arithmetic of that format takes the weight-only kernel: 16-bit arithmetic, fewer weight bytes.
    """
    _, weight_bytes, activation_bytes = _KINDS[expert_kind(quantization)]
    peak = _peak(quantization)
    if not has_arithmetic(quantization, gpu):
        peak, activation_bytes = "16bit", 2.0
    group = expert_group(quantization, gpu, kernels, expert_parallel=expert_parallel)
    return ExpertForm(
        coefficients=kernels.moe[group],
        small=kernels.moe.get(f"{group}_small"),
        weight_bytes=weight_bytes,
        activation_bytes=activation_bytes,
        peak_flops=gpu.peak_flops[peak],
        bytes_per_s=gpu.memory_bytes_per_s,
    )


def _peak(quantization: Quantization | None) -> str:
    kind = expert_kind(quantization)
    is_int8 = kind == "fp8" and quantization is not None and quantization.dtype == "int8"
    return "int8" if is_int8 else _KINDS[kind][0]
