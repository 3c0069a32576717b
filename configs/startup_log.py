"""Reads what vLLM prints at start-up about its memory: the size of the KV pool and what it follows from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from servecast.hardware.errors import ConfigError

# What vLLM's versions print (0.5 to 0.19); the last line of a kind counts, as the engine may start several times.
_LINES = {
    "tokens": re.compile(r"GPU KV cache size:\s*([\d,]+)\s*tokens"),
    "blocks": re.compile(r"# (?:GPU|CUDA|cuda) blocks:\s*([\d,]+)"),
    "kv_gib": re.compile(r"Available KV cache memory:\s*([\d.]+)\s*GiB"),
    "weights_gib": re.compile(r"[Mm]odel (?:loading|weights) t(?:ook|ake)s?\s*([\d.]+)\s*(?:GiB|GB)"),
}


@dataclass(frozen=True)
class StartupLog:
    """None for what the log does not say. GiB are per GPU, as the engine prints them."""

    file: Path
    tokens: int | None
    blocks: int | None
    kv_gib: float | None
    weights_gib: float | None

    def pool_blocks(self, block_size: int) -> int:
        """The pool in blocks of `block_size` tokens."""
        if self.blocks is not None:
            return self.blocks
        return (self.tokens or 0) // block_size


def read_startup_log(file: Path) -> StartupLog:
    """Raises ConfigError if the file cannot be read, or names no KV pool."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        raise ConfigError("no such file", file=file) from None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=file) from None
    found = {name: pattern.findall(text) for name, pattern in _LINES.items()}
    last = {name: matches[-1].replace(",", "") for name, matches in found.items() if matches}
    if "tokens" not in last and "blocks" not in last:
        hint = "It prints `GPU KV cache size: N tokens` or `# GPU blocks: N`"
        raise ConfigError("is no start-up log of vLLM: it names no KV pool", file=file, hint=hint)
    return StartupLog(
        file=file,
        tokens=int(last["tokens"]) if "tokens" in last else None,
        blocks=int(last["blocks"]) if "blocks" in last else None,
        kv_gib=float(last["kv_gib"]) if "kv_gib" in last else None,
        weights_gib=float(last["weights_gib"]) if "weights_gib" in last else None,
    )
