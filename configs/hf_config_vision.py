"""The image tower of a model config, as far as memory goes: its size and what it makes of one image."""

from __future__ import annotations

from servecast.configs.hf_config_fields import ConfigFields
from servecast.model.architecture import VisionEncoder

_LAYERS = ("num_hidden_layers", "depth", "vt_num_hidden_layers", "layers")
_WIDTH = ("hidden_size", "embed_dim", "vt_hidden_size", "width")
_MLP = ("intermediate_size", "vt_intermediate_size")
# Towers of any resolution state no size; this is what most processors let through at least.
_DEFAULT_SIDE = 896
_CHANNELS = 3


def read_vision(top: ConfigFields, hidden_size: int) -> VisionEncoder | None:
    """A plain vision transformer of the stated sizes, and a matrix into the language model's width.

    An estimate, as towers differ in ways that no field names; None, with a note, where sizes are missing.
    """
    fields = top.section("vision_config", "vision_tower_config") if isinstance(top.get("vision_config"), dict) else None
    if fields is None:
        return None
    if fields.find(*_LAYERS) is None or fields.find(*_WIDTH) is None:
        top.note("vision_config states no layers or width; the image tower is not counted")
        return None
    width = fields.count(*_WIDTH)
    mlp = fields.count(*_MLP, default=4 * width)
    patch = fields.count("patch_size", default=14)
    layer = 4 * width * (width + 1) + 2 * width * mlp + mlp + 5 * width
    tower = fields.count(*_LAYERS) * layer + _CHANNELS * patch * patch * width
    side = fields.count("image_size", default=_DEFAULT_SIDE)
    merged = fields.count("spatial_merge_size", default=1)
    tokens = top.count("mm_tokens_per_image", default=max(1, (side // (patch * merged)) ** 2))
    tower += (side // patch) ** 2 * width
    top.note("the image tower is estimated from vision_config")
    return VisionEncoder(tower + width * merged**2 * hidden_size, tokens, _CHANNELS * side * side)
