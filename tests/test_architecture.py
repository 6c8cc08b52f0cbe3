"""Each room imports only rooms above it, and the heavy libraries load where they are used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import thalweg

ROOT = Path(thalweg.__file__).parent

ROOMS = ["core", "cql", "plan", "engine", "adapt", "driver", "replayer", "spark", "experiments", "cli"]
"""From the top of the house to its ground floor: a room may use those before it."""

HOMES = {
    "duckdb_scalar": "core",
    "errors": "core",
    "arrow_input": "core",
    "option_checks": "core",
    "options": "core",
    "settings": "core",
    "policies": "core",
    "files": "core",
    "cql": "cql",
    "plan": "plan",
    "engine": "engine",
    "adapt": "adapt",
    "driver": "driver",
    "event_times": "replayer",
    "explainer": "replayer",
    "replayer": "replayer",
    "spark": "spark",
    "experiments": "experiments",
    "cli": "cli",
    "__main__": "cli",
}

MODULES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def room_of(name: str) -> str:
    return HOMES[name.split(".")[1]]


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.startswith("thalweg.")}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_rooms_import_only_rooms_above_them(path: Path) -> None:
    mine = HOMES[path.relative_to(ROOT).parts[0].removesuffix(".py")]
    for name in imports(path):
        if name == "thalweg.__version__":
            continue
        theirs = room_of(name)
        assert ROOMS.index(theirs) <= ROOMS.index(mine), f"{mine} must not import {name}"


SUB_ROOMS = {
    "engine": [
        *("time_bounds", "kernels", "observations", "storage", "rows", "programs", "machine", "windows", "states"),
        *("feedback", "join", "migration", "difference", "outputs", "image"),
        *("former_work", "chains", "difference_bucket", "join_bucket", "bucket", "compilation"),
    ]
}
"""The same inside of a room."""


@pytest.mark.parametrize("room", SUB_ROOMS)
def test_sub_rooms_import_only_those_before_them(room: str) -> None:
    places = {name: place for place, name in enumerate(SUB_ROOMS[room])}
    folder = ROOT / room
    assert {path.relative_to(folder).parts[0].removesuffix(".py") for path in folder.rglob("*.py")} == {
        *places,
        "__init__",
    }
    for path in folder.rglob("*.py"):
        mine = path.relative_to(folder).parts[0].removesuffix(".py")
        for name in imports(path):
            parts = name.split(".")
            if parts[1] == room and mine != "__init__":
                assert places[parts[2]] <= places[mine], f"{path} must not import {name}"


def test_every_module_has_a_room() -> None:
    assert {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in MODULES} == set(HOMES)


def test_importing_thalweg_loads_nothing_heavy() -> None:
    code = "import sys, thalweg; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numba", "pyarrow", "duckdb", "sqlglot", "numpy", "pyspark", "typer", "rich"} & set(loaded)
