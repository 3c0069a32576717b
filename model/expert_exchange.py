"""How tokens reach experts on other GPUs and come back: the exchange of expert parallelism, as seconds.

Under tensor parallelism engines keep every token on every GPU: each computes its experts' share, and the all-reduce
that the layer has anyway adds up. The alternative, for engines that split the tokens first, is an all-to-all there and
one back (DeepEP); it stands in place of that all-reduce.
"""

from __future__ import annotations

from dataclasses import dataclass

from servecast.hardware.engines import AllToAllCoefficients, KernelCoefficients
from servecast.hardware.gpus import Gpu
from servecast.model.architecture import MoeMlp
from servecast.model.kernels import Floats

# DeepEP's kernels for large batches run on so many SMs by default.
_EXCHANGE_SMS = 20
# A message of the low-latency kernel: 8-bit values with a 32-bit scale for each 128 of them, and a header.
_LOW_LATENCY_BYTES, _HEADER_BYTES = 1.0 + 4.0 / 128.0, 16.0
# Not measured: the latency is that of a small exchange on NVLink, the share of the link that of NCCL's collectives.
_LINK_LATENCY_S, _LINK_SHARE = 20e-6, 0.8


@dataclass(frozen=True)
class ExpertExchange:
    """An all-to-all between `gpus` GPUs; `backend` is one of ALL2ALL_BACKENDS."""

    gpus: int
    backend: str
    dispatch: AllToAllCoefficients
    combine: AllToAllCoefficients

    def seconds(self, tokens: Floats, mlp: MoeMlp, hidden_size: int) -> Floats:
        """Both ways, for each of `tokens` in a step of the replica, which its GPUs share out evenly."""
        own = tokens / self.gpus
        if self.backend == "deepep_low_latency":
            copies = own * mlp.experts_per_token
            there = copies * (hidden_size * _LOW_LATENCY_BYTES + _HEADER_BYTES)
        else:
            # One copy for each GPU that holds a chosen expert.
            copies = own * self.gpus * (1.0 - (1.0 - 1.0 / self.gpus) ** mlp.experts_per_token)
            there = copies * hidden_size
        back = copies * 2.0 * hidden_size
        return _one_way(there, self.dispatch) + _one_way(back, self.combine)


def expert_exchange(gpus: int, backend: str, gpu: Gpu, kernels: KernelCoefficients) -> ExpertExchange:
    """Coefficients of `gpu` where DeepEP was measured (eight GPUs of one server), else those of its link."""
    mode = "ll" if backend == "deepep_low_latency" else "ht"
    link = gpu.link
    speed = link.bytes_per_s if link is not None and link.domain_gpus >= gpus else gpu.pcie_bytes_per_s
    typical = AllToAllCoefficients(_LINK_LATENCY_S, _LINK_SHARE * speed)
    return ExpertExchange(
        gpus=gpus,
        backend=backend,
        dispatch=kernels.all_to_all.get(f"{mode}_dispatch", typical),
        combine=kernels.all_to_all.get(f"{mode}_combine", typical),
    )


def _one_way(bytes_: Floats, c: AllToAllCoefficients) -> Floats:
    per_byte = 1.0 / c.bytes_per_s
    if c.bytes_per_s_per_sm is not None:
        per_byte += 1.0 / (_EXCHANGE_SMS * c.bytes_per_s_per_sm)
    return c.a_s + bytes_ * per_byte
