"""Blocks of models whose layers cache alike, and of those whose layers do not."""

from __future__ import annotations

from dataclasses import replace

from servecast.configs.architectures import load_architecture
from servecast.model.architecture import Architecture, Attention
from servecast.model.kv_cache import BlockLayout, block_layout
from servecast.model.layout import ReplicaLayout, stage_layers


def blocks_of(model: str, layout: ReplicaLayout | None = None) -> BlockLayout:
    architecture = load_architecture(model)
    return block_layout(architecture, architecture.layers, layout or ReplicaLayout())


def test_a_block_holds_keys_and_values_of_all_layers() -> None:
    blocks = blocks_of("llama-3.1-8b")
    assert blocks.bytes_per_block == 16 * 131_072
    assert len(blocks.groups) == 1
    assert blocks.pool_tokens(29_751) == 476_016  # as a vLLM 0.19 log has it


def test_kv_heads_are_split_and_fp8_halves_them() -> None:
    layout = ReplicaLayout(tensor_parallel_size=4, kv_cache_dtype="fp8")
    assert blocks_of("llama-3.1-8b", layout).bytes_per_block == 16 * 131_072 / 8


def test_latent_cache_is_whole_on_every_gpu() -> None:
    assert blocks_of("deepseek-v2-lite").bytes_per_block == 16 * 31_104
    assert blocks_of("deepseek-v2-lite", ReplicaLayout(tensor_parallel_size=4)).bytes_per_block == 16 * 31_104


def test_indexer_of_sparse_attention_keeps_keys_of_its_own() -> None:
    assert blocks_of("deepseek-v3.2").bytes_per_block == 16 * 61 * ((512 + 64) * 2 + 128 + 4)


def test_gemma_3_makes_seven_groups_of_ten_layers() -> None:
    """62 layers: 10 with full attention, 52 with a window, which are padded to 60."""
    blocks = blocks_of("gemma-3-27b")
    assert [kind.window for kind in blocks.groups].count(None) == 1
    assert len(blocks.groups) == 7
    assert blocks.bytes_per_block == 10 * 16 * 8192
    assert blocks.pool_tokens(15_997) == 36_560  # as a vLLM 0.19 log has it


def test_windowed_groups_keep_the_window_what_a_step_adds_and_one_block() -> None:
    blocks = blocks_of("gemma-3-27b")
    assert blocks.sequence_blocks(8192, 8192) == 512 + 6 * 513
    assert blocks.sequence_blocks(100_000, 8192) == 6250 + 6 * 577


def test_kinds_about_as_frequent_make_groups_of_the_larger_number() -> None:
    """gpt-oss-20b with a draft head: 13 full, 12 windowed layers. Two groups of 13, not three of 12."""
    gpt_oss = load_architecture("gpt-oss-20b")
    full = next(layer for layer in gpt_oss.layers if _window(layer.attention) is None)
    longer = replace(gpt_oss, layers=(*gpt_oss.layers, full))
    blocks = block_layout(longer, longer.layers, ReplicaLayout())
    assert len(blocks.groups) == 2
    assert blocks.bytes_per_block == 13 * 16 * 2 * 8 * 64 * 2


def test_layers_with_fewer_kv_heads_get_longer_blocks() -> None:
    gemma = load_architecture("gemma-2-2b")
    halved = _with_windowed_kv_heads(gemma, 2)
    blocks = block_layout(halved, halved.layers, ReplicaLayout())
    assert sorted(kind.block_size for kind in blocks.groups) == [16, 32]
    assert len({kind.page_bytes for kind in blocks.groups}) == 1


def test_a_stage_has_its_share_of_each_group() -> None:
    gemma = load_architecture("gemma-2-2b")
    half = block_layout(gemma, stage_layers(gemma, 2, 0), ReplicaLayout(pipeline_parallel_size=2))
    whole = block_layout(gemma, gemma.layers, ReplicaLayout())
    assert len(half.groups) == len(whole.groups)
    assert half.bytes_per_block == 7 * whole.bytes_per_block / 13


def _window(attention: object) -> int | None:
    assert isinstance(attention, Attention)
    return attention.window


def _with_windowed_kv_heads(architecture: Architecture, heads: int) -> Architecture:
    layers = []
    for layer in architecture.layers:
        assert isinstance(layer.attention, Attention)
        if layer.attention.window is not None:
            layer = replace(layer, attention=replace(layer.attention, num_kv_heads=heads))
        layers.append(layer)
    return replace(architecture, layers=tuple(layers))
