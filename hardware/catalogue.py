"""How a name in a scenario leads to a YAML file: a key of a catalogue folder, or a path of the user's own."""

from __future__ import annotations

import os
import re
from pathlib import Path

# What would be right where a file is named that is not there.
WANTED = {
    "model": "Give a key that `servecast models` lists, or the path of a Hugging Face config.json",
    "gpu": "Give a key that `servecast gpus` lists, or the path of a GPU file (YAML)",
    "engine": "Give a key that `servecast engines` lists, or the path of an engine profile (YAML)",
}


def is_path(name: str) -> bool:
    """Whether `name` is a file of the user's: it ends in .yaml or .yml, or holds a path separator."""
    return name.endswith((".yaml", ".yml")) or "/" in name or os.sep in name


def user_file(name: str, base_dir: Path | None) -> Path:
    """`name` as a path, relative to `base_dir` (default: the working directory). The file may not exist."""
    return (base_dir or Path.cwd()) / Path(name).expanduser()


def normalised(name: str) -> str:
    """Lower case, blanks and underscores as hyphens: `NVIDIA H100 NVL` is the same as `nvidia_h100_nvl`."""
    return re.sub(r"[\s_]+", "-", name.strip().lower())
