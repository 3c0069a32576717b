"""Engine profiles: how well an engine version uses a GPU, what its host adds to a step, and its memory rules.

Plain data, made from YAML by profile_files.py and kernel_files.py. All forms are those of docs/model.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from servecast.hardware.engines.mla_profile import MlaDecodeCoefficients, MlaPrefillCoefficients
from servecast.hardware.engines.moe_profile import AllToAllCoefficients, MoeCoefficients
from servecast.hardware.memory_rules import MemoryRules

# Ranges of tokens for which libraries choose one kernel each: up to 4, up to 8, ..., above 8192.
TOKEN_EDGES = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)


@dataclass(frozen=True)
class GemmCoefficients:
    """t0_s + pnorm(compute, memory; p). e_c, e_m: shares of peak FLOP/s and bandwidth that are reached.

    s: weight of output-tile starvation in 8-bit and 4-bit GEMMs, 0 in 16 bit; it falls with the number of output
    tiles to the power of `starvation_power`. tile_measured_on: peak FLOP/s and SMs of the GPU on which s was fitted.
    A tile keeps its time on that GPU's siblings, as one with a lower peak and the same memory does not feed it more
    slowly. None: the GPU itself. quant_s: of t0_s, the launch of the kernels that quantise the activations.
    by_tokens: factor of the time in each range of TOKEN_EDGES; empty for none.
    """

    t0_s: float
    e_c: float
    e_m: float
    p: float
    s: float = 0.0
    starvation_power: float = 1.0
    tile_measured_on: tuple[float, int] | None = None
    by_tokens: tuple[float, ...] = ()
    quant_s: float = 0.0


@dataclass(frozen=True)
class PrefillCoefficients:
    """Attention over a prompt chunk. c_tail: share of the time of one 128-wide tile that its end loses."""

    t0_s: float
    e_c: float
    e_m: float
    s_half_tokens: float
    c_tail: float


@dataclass(frozen=True)
class DecodeCoefficients:
    """Attention of one new token a request.

    c_item_s: per request and KV head, spread over the SMs. c_ctx_s_per_token: times the longest context.
    """

    t0_s: float
    e_m: float
    c_item_s: float
    c_ctx_s_per_token: float


@dataclass(frozen=True)
class RingAllReduce:
    """a + k/bandwidth with k = 2(n-1)/n * bytes, one (a_s, bytes_per_s) pair per number of GPUs n."""

    per_gpus: Mapping[int, tuple[float, float]]


@dataclass(frozen=True)
class AllReduceTable:
    """As measured: number of GPUs -> (bytes, seconds), both ascending in bytes."""

    per_gpus: Mapping[int, tuple[tuple[float, ...], tuple[float, ...]]]


@dataclass(frozen=True)
class PcieShare:
    """All-reduce over PCIe on a server that nobody measured: latency and share of the link's one-way bandwidth.

    share: median of measured servers; `lowest` and `highest` are the shares of the slowest and the fastest of them.
    """

    latency_s: float
    share: float
    lowest: float
    highest: float


@dataclass(frozen=True)
class NvlinkAllReduce:
    """Two regimes: up to small_max_bytes a one-shot or two-shot kernel, above it `large`."""

    small_max_bytes: float
    small_a_s: float
    small_b_s_per_peer: float
    small_oneshot_bytes_per_s: float
    small_twoshot_bytes_per_s: float
    small_twoshot_extra_s: float
    large: RingAllReduce


@dataclass(frozen=True)
class KernelCoefficients:
    """All coefficients of one GPU under one engine.

    calibration, how far they can be trusted:
      "measured"   16-bit GEMM, prefill and decode attention of this engine were all measured on this GPU
      "partial"    some of the three were; the rest is another engine's on it, a sibling's or the universal default
      "sibling"    measured on `calibrated_on`, which has the same silicon but other clocks, memory or link
      "datasheet"  the universal default: typical of measured GPUs, applied to this GPU's datasheet figures
    gemm: keys of {"16bit", "fp8", "nvfp4"}; a missing key was not measured.
    decode_fp8_kv: None where only a 16-bit KV cache was measured.
    all_reduce: None where it was not measured over this GPU's link; the datasheet's link has to do then.
    pcie: by number of GPUs, for servers whose GPUs reach each other over PCIe and were not measured.
    residuals: group of coefficients -> median/p90 error and on which points. sources: group -> where from.
    Groups: gemm_16bit (fp8, nvfp4), prefill, decode, decode_fp8_kv, all_reduce_small (large_n2, pcie_n2 ...), and
    those of moe_files.py.
    moe: kind of experts' kernel -> coefficients; `_small` for small steps, `_ep` where experts are dealt out to GPUs.
    mla_prefill, mla_short, mla_decode: kind of projections -> coefficients, `_kv8` with an FP8 cache.
    prefill_by_head, decode_by_head, decode_fp8_kv_by_head: for head sizes other than 128 that were measured.
    all_to_all: way of the exchange -> coefficients, empty where DeepEP was not measured.
    typical: groups that nobody measured on this GPU, and that are the default's.
    """

    calibration: str
    gemm: Mapping[str, GemmCoefficients]
    prefill: PrefillCoefficients
    decode: DecodeCoefficients
    decode_fp8_kv: DecodeCoefficients | None
    all_reduce: AllReduceTable | NvlinkAllReduce | RingAllReduce | None
    residuals: Mapping[str, str]
    sources: Mapping[str, str]
    calibrated_on: str | None = None
    pcie: Mapping[int, PcieShare] = field(default_factory=dict)
    moe: Mapping[str, MoeCoefficients] = field(default_factory=dict)
    mla_prefill: Mapping[str, MlaPrefillCoefficients] = field(default_factory=dict)
    mla_short: Mapping[str, MlaPrefillCoefficients] = field(default_factory=dict)
    mla_decode: Mapping[str, MlaDecodeCoefficients] = field(default_factory=dict)
    all_to_all: Mapping[str, AllToAllCoefficients] = field(default_factory=dict)
    prefill_by_head: Mapping[int, PrefillCoefficients] = field(default_factory=dict)
    decode_by_head: Mapping[int, DecodeCoefficients] = field(default_factory=dict)
    decode_fp8_kv_by_head: Mapping[int, DecodeCoefficients] = field(default_factory=dict)
    typical: frozenset[str] = frozenset()

    def prefill_for(self, head_dim: int) -> PrefillCoefficients:
        """Of that head size, or of 128."""
        return self.prefill_by_head.get(head_dim, self.prefill)

    def decode_for(self, head_dim: int, *, fp8_kv: bool) -> DecodeCoefficients:
        """Likewise. With an FP8 cache: those measured so of that head size, else of 128, else of a 16-bit cache."""
        plain = self.decode_by_head.get(head_dim, self.decode)
        if not fp8_kv:
            return plain
        return self.decode_fp8_kv_by_head.get(head_dim, self.decode_fp8_kv or plain)


@dataclass(frozen=True)
class HostTimes:
    """What the CPU adds. step_s: to each step that the GPU waits for. request_s: per request in the step. peer_s: for
    each further GPU of the replica, whose workers start a step together and wait for each other.

    sampling_bytes: GPU memory traffic per logit, to turn logits into tokens: each emitted token has as many as the
    vocabulary. server_s: HTTP server and tokeniser, once per request, before the engine sees it.
    """

    step_s: float
    request_s: float
    server_s: float
    peer_s: float = 0.0
    sampling_bytes: float = 0.0

    def step_seconds(self, gpus: int) -> float:
        """For each step of a replica with `gpus` GPUs a stage, but for what its requests and logits add."""
        return self.step_s + self.peer_s * (gpus - 1)


@dataclass(frozen=True)
class Elementwise:
    """Fused element-wise kernels of a layer: launch time of each and the share of bandwidth they reach."""

    kernel_s: float
    e_m: float


@dataclass(frozen=True)
class CudaGraphs:
    """Steps of up to `steps[-1]` tokens are replayed as one launch, padded to a captured number of tokens.

    steps: (up to so many tokens, multiples of) of the captured numbers above 4; 1, 2 and 4 are captured too. Larger
    steps launch kernel by kernel: uncaptured_layer_s is the time of a layer's launches. eager_layer_s: without
    compilation either (enforce_eager).
    """

    steps: tuple[tuple[int, int], ...]
    uncaptured_layer_s: float
    eager_layer_s: float


# What may hand over activations that are quantised already.
QUANTISERS = ("norm", "activation", "attention")


@dataclass(frozen=True)
class Fusions:
    """Kernels that the engine merges.

    quantisation: which of QUANTISERS quantise their output themselves, so that the GEMM after them needs no kernel for
    it. all_reduce_norm: GPU generation -> number of GPUs -> largest message in bytes that one kernel reduces and
    normalises; larger ones, and GPUs that are not named, take two.
    """

    quantisation: frozenset[str] = frozenset()
    all_reduce_norm: Mapping[str, Mapping[int, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class EngineProfile:
    """kernels: by GPU key (files are read when asked for). default_kernels: for a GPU that nobody measured.
    graphs: None where launches are taken to cost nothing, whatever the size of a step.

    sources: field of the YAML file -> where its numbers are from.
    """

    key: str
    engine: str
    version: str
    async_scheduling: bool
    scheduler_reserve_full_isl: bool
    host: HostTimes
    elementwise: Elementwise
    kernels: Mapping[str, KernelCoefficients]
    default_kernels: KernelCoefficients
    memory: MemoryRules
    sources: Mapping[str, str]
    fusions: Fusions = Fusions()
    graphs: CudaGraphs | None = None

    def kernels_for(self, gpu_key: str) -> KernelCoefficients:
        """Coefficients of `gpu_key`; the universal default where neither it nor a sibling was measured."""
        return self.kernels.get(gpu_key, self.default_kernels)
