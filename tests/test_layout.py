"""The folders: linked below src/servecast, importing only downward, files and functions of a readable size."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Each folder imports only those to its left.
LAYERS = ("hardware", "model", "configs", "sweeps", "reports")


@pytest.mark.parametrize("folder", LAYERS)
def test_folders_are_linked_into_the_package(folder: str) -> None:
    link = ROOT / "src" / "servecast" / folder
    assert link.is_symlink(), f"{link} is no symlink: clone with symlinks on (git config core.symlinks true)"
    assert link.resolve() == ROOT / folder


def imported_folders(file: Path) -> set[str]:
    """Layers that `file` imports from."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        found |= {name.split(".")[1] for name in names if name.startswith("servecast.")}
    return found


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("folder", LAYERS)
def test_folders_import_only_downward(folder: str) -> None:
    allowed = set(LAYERS[: LAYERS.index(folder) + 1])
    for file in sources(folder):
        assert imported_folders(file) <= allowed, file


def test_the_simulator_sees_no_files_and_no_yaml() -> None:
    for file in sources("model"):
        text = file.read_text()
        assert not {"yaml", "pathlib", "joblib"} & imported_modules(ast.parse(text)), file


def test_only_owners_of_a_process_import_simpy() -> None:
    replicas = {"engine_process.py", "replica.py", "pipelined_replica.py", "coast.py"}
    owners = {"traffic.py", "host_link.py", "simulation.py"} | replicas
    users = {file.name for file in sources("model") if "simpy" in imported_modules(ast.parse(file.read_text()))}
    assert users <= owners


def imported_modules(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
    return found


@pytest.mark.parametrize("folder", [*LAYERS, "src/servecast"])
def test_files_and_functions_are_small(folder: str) -> None:
    files = [file for file in (ROOT / folder).rglob("*.py") if not any(part in LAYERS for part in file.parts[-2:-1])]
    for file in files if folder == "src/servecast" else sources(folder):
        text = file.read_text()
        assert text.count("\n") <= 420, f"{file} has {text.count(chr(10))} lines"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                assert lines <= 50, f"{file}:{node.lineno} {node.name} has {lines} lines"
