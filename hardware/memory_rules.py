"""How an engine version divides a GPU's memory: what the `memory` key of an engine profile says or names.

At start-up vLLM runs its largest batch once on dummy input, sees how far memory rises, and gives the rest of
what it may use to the KV pool. The rules say what that run allocates; docs/memory.md explains each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from servecast.hardware.catalogue import normalised
from servecast.hardware.errors import ConfigError, did_you_mean
from servecast.hardware.gpus import Gpu
from servecast.hardware.yaml_fields import Fields
from servecast.hardware.yaml_source import read_yaml

POOLS = ("profile_run", "static_fraction", "free_fraction")

_FOLDER = Path(__file__).parent / "engines" / "memory"
_DEFAULT = "default"
_KEYS = (
    "pool",
    "sampler_bytes_per_logit",
    "sampler_buffer_bytes_per_logit",
    "blas_workspace_mib",
    "autotune_flush",
    "moe_workspace",
    "chunked_prefill",
    "non_torch_gib",
    "non_torch_pipeline_gib",
    "cuda_graph_gib",
    "cuda_graph_gib_per_layer",
    "cuda_graph_subtracted",
    "residual",
    "sources",
)


@dataclass(frozen=True)
class MemoryRules:
    """One engine version's rules. Sizes are those of one GPU.

    pool: how the KV pool's share is found.
      "profile_run"      utilisation * total - weights - activation - non-torch (vLLM)
      "static_fraction"  utilisation * (total - non-torch) - weights (SGLang's mem_fraction_static)
      "free_fraction"    utilisation * (total - weights - activation - non-torch) (TensorRT-LLM)
    sampler_bytes_per_logit: of every logit of the sampled rows, at the sampler's peak.
    sampler_buffer_bytes_per_logit: of the top-k/top-p kernel's buffer, which has one row for each SM.
    blas_workspace_mib: of the matrix library, by GPU generation in lower case, and "default".
    autotune_flush: kernels are timed during the profile run, with a buffer as large as the L2 cache.
    moe_workspace: the experts' intermediate results stay allocated after the forward pass.
    chunked_prefill: False where the profile run takes the longest sequence if that is above the token budget.
    non_torch_gib: CUDA context, NCCL and all-reduce buffers, by tensor-parallel size.
    non_torch_pipeline_gib: the same at TP 1 with several pipeline stages.
    cuda_graph_gib, cuda_graph_gib_per_layer: a rough size of the CUDA graphs. cuda_graph_subtracted: the pool
    makes room for them. residual: error of the pool against start-up logs. sources: field -> where from.
    """

    pool: str
    sampler_bytes_per_logit: float
    sampler_buffer_bytes_per_logit: float
    blas_workspace_mib: Mapping[str, float]
    autotune_flush: bool
    moe_workspace: bool
    chunked_prefill: bool
    non_torch_gib: Mapping[int, float]
    non_torch_pipeline_gib: float
    cuda_graph_gib: float
    cuda_graph_gib_per_layer: float
    cuda_graph_subtracted: bool
    residual: str
    sources: Mapping[str, str]

    def non_torch_for(self, tensor_parallel_size: int, pipeline_parallel_size: int) -> float:
        """GiB that PyTorch knows nothing of. A size that is not listed takes the next smaller one's."""
        if tensor_parallel_size == 1 and pipeline_parallel_size > 1:
            return self.non_torch_pipeline_gib
        listed = max(size for size in self.non_torch_gib if size <= tensor_parallel_size)
        return self.non_torch_gib[listed]

    def blas_workspace_for(self, gpu: Gpu) -> float:
        """MiB that the matrix library takes on first use."""
        generation = gpu.generation.lower()
        return self.blas_workspace_mib.get(generation, self.blas_workspace_mib[_DEFAULT])


def memory_rules_keys() -> list[str]:
    """Names of the rules that ship, sorted: the first engine version that each holds for."""
    return sorted(file.stem for file in _FOLDER.glob("*.yaml"))


def load_memory_rules(key: str) -> MemoryRules:
    """The rules that ship as `key`. Raises ConfigError for an unknown one."""
    file = _FOLDER / f"{normalised(key)}.yaml"
    if not file.is_file():
        raise ConfigError(f"unknown memory rules {key!r}", hint=did_you_mean(key, memory_rules_keys()))
    return read_memory_rules(Fields.of_file(read_yaml(file), "memory rules"))


def read_memory_rules(fields: Fields) -> MemoryRules:
    """The rules that `fields`, the `memory:` section of a profile, holds.

    Raises ConfigError for a missing, unknown or wrong key.
    """
    fields.only(_KEYS)
    return MemoryRules(
        pool=_pool(fields),
        sampler_bytes_per_logit=fields.number("sampler_bytes_per_logit", zero=True),
        sampler_buffer_bytes_per_logit=fields.number("sampler_buffer_bytes_per_logit", zero=True),
        blas_workspace_mib=_workspaces(fields.section("blas_workspace_mib")),
        autotune_flush=fields.flag("autotune_flush"),
        moe_workspace=fields.flag("moe_workspace"),
        chunked_prefill=fields.flag("chunked_prefill"),
        non_torch_gib=_by_gpus(fields, "non_torch_gib"),
        non_torch_pipeline_gib=fields.number("non_torch_pipeline_gib", zero=True),
        cuda_graph_gib=fields.number("cuda_graph_gib", zero=True),
        cuda_graph_gib_per_layer=fields.number("cuda_graph_gib_per_layer", zero=True),
        cuda_graph_subtracted=fields.flag("cuda_graph_subtracted"),
        residual=fields.text("residual"),
        sources=fields.text_map("sources"),
    )


def _pool(fields: Fields) -> str:
    pool = fields.text("pool")
    if pool not in POOLS:
        raise fields.error("pool", f"unknown value {pool!r}", did_you_mean(pool, POOLS))
    return pool


def _workspaces(fields: Fields) -> dict[str, float]:
    fields.number(_DEFAULT, zero=True)
    return {name: fields.number(name, zero=True) for name in fields.values}


def _by_gpus(fields: Fields, key: str) -> dict[int, float]:
    """GiB by number of GPUs. YAML gives the keys as integers."""
    section = fields.section(key)
    sizes: dict[int, float] = {}
    for gpus, gib in section.values.items():
        if isinstance(gpus, bool) or not isinstance(gpus, int) or gpus < 1:
            raise fields.error(key, f"its keys must be numbers of GPUs, found {gpus!r}")
        if isinstance(gib, bool) or not isinstance(gib, int | float) or gib < 0:
            raise fields.error(key, f"must be a number of GiB, 0 or more, for {gpus} GPUs, found {gib!r}")
        sizes[gpus] = float(gib)
    if 1 not in sizes:
        raise fields.error(key, "needs an entry for 1 GPU")
    return sizes
