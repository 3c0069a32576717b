"""What a replica is made of, from the simulation's parameters: memory, costs, KV pool, scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from servecast.hardware.engines import EngineProfile
from servecast.model.admission import admission_rule
from servecast.model.architecture import Architecture
from servecast.model.block_pool import BlockPool
from servecast.model.forward import ForwardPass, build_forward_pass, with_windows, without_head
from servecast.model.grouped_pool import GroupedBlockPool
from servecast.model.host_link import LinkParameters
from servecast.model.layout import stage_architecture
from servecast.model.memory import MemoryPlan, plan_memory
from servecast.model.preemption import HostMemory, PreemptionCosts
from servecast.model.prefix_cache import CachingBlockPool
from servecast.model.scheduler import Scheduler
from servecast.model.simulation_parameters import SimulationParameters

GIB = 1024**3


def plan_replica(parameters: SimulationParameters) -> MemoryPlan:
    """The memory of one replica."""
    scheduler = parameters.scheduler
    return plan_memory(
        parameters.architecture,
        parameters.gpu,
        parameters.engine.memory,
        parameters.layout,
        scheduler.max_num_batched_tokens,
        scheduler.max_num_seqs,
    )


def forward_passes(parameters: SimulationParameters) -> tuple[ForwardPass, ...]:
    """The cost of a step in each pipeline stage. With several stages the host's time is not in them: it counts once."""
    architecture, engine, stages = parameters.architecture, parameters.engine, parameters.layout.pipeline_parallel_size
    if stages == 1:
        return (_forward_pass(parameters, architecture, engine),)
    engine = replace(engine, host=replace(engine.host, step_s=0.0, request_s=0.0, peer_s=0.0))
    costs = [_forward_pass(parameters, stage_architecture(architecture, stages, i), engine) for i in range(stages)]
    windows = sorted({window for cost in costs for window in cost.attention.window_sizes})
    costs = [with_windows(cost, windows) for cost in costs]
    return (*(without_head(cost) for cost in costs[:-1]), costs[-1])


def _forward_pass(parameters: SimulationParameters, architecture: Architecture, engine: EngineProfile) -> ForwardPass:
    scheduler, layout = parameters.scheduler, parameters.layout
    return build_forward_pass(
        architecture,
        parameters.gpu,
        engine,
        dtype=layout.dtype,
        kv_cache_dtype=layout.kv_cache_dtype,
        tensor_parallel_size=layout.tensor_parallel_size,
        max_tokens=max(scheduler.max_num_batched_tokens, scheduler.max_num_seqs),
        max_rows=scheduler.max_num_seqs,
        enforce_eager=layout.enforce_eager,
        enable_expert_parallel=layout.enable_expert_parallel,
        all2all_backend=layout.all2all_backend,
    )


def preemption_costs(parameters: SimulationParameters) -> PreemptionCosts:
    """What losing KV costs either way on the replicas of `parameters`: what preemption `auto` decides by."""
    link = link_parameters(parameters, plan_replica(parameters))
    return _preemption_costs(parameters, forward_passes(parameters), link)


def _preemption_costs(
    parameters: SimulationParameters, stages: Sequence[ForwardPass], link: LinkParameters
) -> PreemptionCosts:
    budget = parameters.scheduler.max_num_batched_tokens
    return PreemptionCosts(
        swap_s=lambda blocks: 2 * link.seconds(blocks),
        recompute_s=lambda tokens: sum(stage.recompute_seconds(tokens, budget) for stage in stages),
    )


def link_parameters(parameters: SimulationParameters, memory: MemoryPlan) -> LinkParameters:
    """The host link, for blocks as the scheduler counts them."""
    grouped, layers = _counts_groups(parameters, memory), parameters.architecture.num_layers
    return LinkParameters(
        block_bytes=memory.kv_bytes_per_block if grouped else memory.sequence_block_bytes,
        bytes_per_s=parameters.gpu.pcie_bytes_per_s,
        copies_per_block=2 * (-(-layers // memory.kv_groups) if grouped else layers),
        copy_s=parameters.scheduler.preemption.swap_copy_s,
    )


def _counts_groups(parameters: SimulationParameters, memory: MemoryPlan) -> bool:
    """Whether blocks are counted in each group of layers. The prefix cache knows blocks of all layers only."""
    return memory.windowed and not parameters.scheduler.enable_prefix_caching


def _block_pool(parameters: SimulationParameters, memory: MemoryPlan) -> BlockPool:
    if _counts_groups(parameters, memory):
        return GroupedBlockPool(memory.kv_pool_blocks, memory.groups, parameters.scheduler.chunk_limit)
    pool_class = CachingBlockPool if parameters.scheduler.enable_prefix_caching else BlockPool
    return pool_class(memory.sequence_pool_blocks, memory.block_size)


def new_scheduler(
    parameters: SimulationParameters, memory: MemoryPlan, stages: Sequence[ForwardPass], link: LinkParameters
) -> Scheduler:
    """The scheduler of a replica, over a pool of its own."""
    settings = parameters.scheduler
    costs = _preemption_costs(parameters, stages, link)
    host_blocks = int(settings.preemption.swap_space_gib * GIB // link.block_bytes)
    full_step = settings.max_num_batched_tokens
    slowest_s = max(stage.recompute_seconds(full_step, full_step) for stage in stages)
    return Scheduler(
        settings,
        _block_pool(parameters, memory),
        max_model_len=memory.max_model_len,
        host=HostMemory(settings.preemption, host_blocks, costs),
        windows=stages[0].attention.window_sizes,
        rule=admission_rule(settings.admission, full_step / slowest_s),
        slo=parameters.slo,
        num_lanes=len(stages),
    )
