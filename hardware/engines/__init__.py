"""Engine profiles: how well an engine version uses a GPU, what its host adds to a step, and its memory rules.

A profile is a YAML file of this folder, or a user's own file of the same form. The kernel coefficients, which
several versions share, stand in `kernels/`, one file a GPU.
"""

from servecast.hardware.engines.mla_profile import MlaDecodeCoefficients, MlaPrefillCoefficients
from servecast.hardware.engines.moe_profile import AllToAllCoefficients, MoeCoefficients
from servecast.hardware.engines.profile import (
    AllReduceTable,
    CudaGraphs,
    DecodeCoefficients,
    Elementwise,
    EngineProfile,
    Fusions,
    GemmCoefficients,
    HostTimes,
    KernelCoefficients,
    NvlinkAllReduce,
    PcieShare,
    PrefillCoefficients,
    RingAllReduce,
)
from servecast.hardware.engines.profile_files import DEFAULT_ENGINE, engine_keys, load_engine

__all__ = [
    "DEFAULT_ENGINE",
    "AllReduceTable",
    "AllToAllCoefficients",
    "CudaGraphs",
    "DecodeCoefficients",
    "Elementwise",
    "EngineProfile",
    "Fusions",
    "GemmCoefficients",
    "HostTimes",
    "KernelCoefficients",
    "MlaDecodeCoefficients",
    "MlaPrefillCoefficients",
    "MoeCoefficients",
    "NvlinkAllReduce",
    "PcieShare",
    "PrefillCoefficients",
    "RingAllReduce",
    "engine_keys",
    "load_engine",
]
