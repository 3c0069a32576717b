"""Fixtures that every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of measured data that is not part of the project; SERVECAST_SHARED_DATA names it. Skips if absent."""
    default = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("SERVECAST_SHARED_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"no measured data at {folder} (set SERVECAST_SHARED_DATA)")
    return folder
