"""`servecast gpus`, `models`, `engines`, `schema`, `--help` and the installed package."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

Servecast = Callable[..., subprocess.CompletedProcess[str]]
ROOT = Path(__file__).parents[2]
# Data files that must be in the wheel, one of each folder.
NEEDED = (
    "hardware/h100-sxm.yaml",
    "hardware/engines/vllm-0.19.yaml",
    "hardware/engines/kernels/h100-sxm.yaml",
    "model/llms/llama-3.1-8b.yaml",
    "configs/profiles/sharegpt.yaml",
    "reports/templates/table.html",
    "py.typed",
)


ENTRIES = [("gpus", "h100-sxm"), ("models", "llama-3.1-8b"), ("engines", "vllm-0.19")]


@pytest.mark.parametrize(("command", "key"), ENTRIES)
def test_catalogues_list_and_show(servecast: Servecast, command: str, key: str) -> None:
    assert key in servecast(command).stdout
    assert key in [entry["key"] for entry in json.loads(servecast(command, "--json").stdout)]
    assert json.loads(servecast(command, key, "--json").stdout)["key"] == key
    assert "source" in servecast(command, key).stdout


@pytest.mark.parametrize("command", ["gpus", "models", "engines"])
def test_unknown_entries_are_answered_with_the_valid_ones(servecast: Servecast, command: str) -> None:
    done = servecast(command, "nothing-like-it")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Valid: " in done.stderr


def test_schema_is_json_with_descriptions(servecast: Servecast) -> None:
    schema = json.loads(servecast("schema").stdout)
    assert schema["properties"]["gpu"]["description"]


def test_every_command_has_an_example_in_its_help(servecast: Servecast) -> None:
    from servecast.cli import app

    commands = [info.callback.__name__ for info in app.registered_commands if info.callback is not None]
    assert {"run", "gpus", "models", "engines", "schema"} <= set(commands)
    for command in commands:
        assert "Example: servecast" in servecast(command, "--help").stdout, command


def test_version(servecast: Servecast) -> None:
    assert servecast("--version").stdout.strip().count(".") == 2


def test_a_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m servecast gpus --json | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT, check=False)
    assert "Traceback" not in done.stderr


def test_the_wheel_holds_the_package_and_its_data_and_runs_anywhere(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "site")
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"servecast"}
    for needed in NEEDED:
        assert f"servecast/{needed}" in names
    code = "import servecast; print(servecast.__file__); from servecast.cli import main; main()"
    command, site = [sys.executable, "-c", code, "gpus", "h100"], {"PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=site, check=False)
    assert str(tmp_path) in done.stdout.splitlines()[0], done.stderr
    assert "h100-sxm" in done.stdout
