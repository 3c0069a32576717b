"""A scenario file to read, and to spoil."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from servecast.configs.load import load_scenario
from servecast.hardware.errors import ConfigError

SCENARIO = """\
model: llama-3.1-8b
gpu: h100-sxm
replica:
  dtype: bfloat16
scheduler:
  max_num_seqs: 64
workload:
  num_requests: 200
  arrivals: {process: poisson, request_rate: 5}
  lengths: {profile: azure-conv-2023}
"""


@pytest.fixture
def scenario_file(tmp_path: Path) -> Path:
    """A valid scenario, chat.yaml."""
    path = tmp_path / "chat.yaml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture
def refused(scenario_file: Path) -> Callable[[str, str], str]:
    """Gives the message about the scenario with one text replaced by another, without the folder's name."""

    def message(old: str, new: str) -> str:
        assert old in SCENARIO
        scenario_file.write_text(SCENARIO.replace(old, new))
        with pytest.raises(ConfigError) as caught:
            load_scenario(scenario_file)
        text = str(caught.value)
        assert "Input should" not in text
        assert "pydantic" not in text
        return text.replace(f"{scenario_file.parent}/", "")

    return message
