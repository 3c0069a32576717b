"""Output files of commands: checked before the work, whole or not there at all after it."""

from __future__ import annotations

from pathlib import Path

from servecast.hardware.errors import ConfigError


def write_whole(file: Path, content: str | bytes, option: str = "--out") -> str:
    """Write `content`; an older file is replaced when all of it is written. Returns the file's name.

    Raises ConfigError naming `option`.
    """
    unfinished = file.with_name(file.name + ".part")
    try:
        unfinished.write_bytes(content.encode() if isinstance(content, str) else content)
        unfinished.replace(file)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise ConfigError(f"cannot be written: {error.strerror}", file=file, key=option) from None
    return file.name


def check_writable(file: Path, option: str = "--out") -> None:
    """Raise ConfigError before the work rather than after it."""
    if file.is_dir():
        raise ConfigError("is a folder, not a file to write", file=file, key=option)
    if not file.absolute().parent.is_dir():
        raise ConfigError(f"no such folder: {file.parent}", file=file, key=option)
