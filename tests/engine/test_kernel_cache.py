"""Where compiled kernels are kept: never those of other sources, and an import never fails for want of a place."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from thalweg.engine.kernels import cache

HELPER = """
from thalweg.engine.kernels.compiled import inlined

@inlined
def scaled(number):
    return FACTOR * number
"""
KERNEL = """
from thalweg.engine.kernels.compiled import jit
from thalweg.engine.kernels.helper import scaled

@jit
def kernel(number):
    return scaled(number)
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the kernels' package with a kernel that calls a helper from another file."""
    copy = tmp_path / "thalweg" / "engine" / "kernels"
    shutil.copytree(Path(cache.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for package in (copy.parent, copy.parent.parent):
        (package / "__init__.py").touch()
    (copy / "kernel.py").write_text(KERNEL)
    (copy / "helper.py").write_text(f"FACTOR = 2\n{HELPER}")
    return copy


def run(package: Path, **environment: str) -> tuple[str, str]:
    """What the kernel makes of 21, and what was said meanwhile; no cache directory of this user is used."""
    named = ("NUMBA_CACHE_DIR", "SPARK_LOCAL_DIRS", "XDG_CACHE_HOME", "HOME")
    inherited = {name: value for name, value in os.environ.items() if name not in named}
    nowhere = {"HOME": os.devnull, "PYTHONPATH": str(package.parents[2]), "PYTHONDONTWRITEBYTECODE": "1"}
    code = "from thalweg.engine.kernels.kernel import kernel; print(kernel(21))"
    finished = subprocess.run(
        [sys.executable, "-c", code], env={**inherited, **nowhere, **environment}, capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip(), finished.stderr


def test_nothing_can_be_written(package: Path) -> None:
    (package / "__pycache__").touch()  # a file, so that no directory can be made, not even by root
    printed, said = run(package)
    assert printed == "42"
    assert "Set NUMBA_CACHE_DIR" in said


def test_an_executor_has_a_place_for_kernels(package: Path, tmp_path: Path) -> None:
    (package / "__pycache__").touch()
    assert run(package, SPARK_LOCAL_DIRS=f"{tmp_path}/local,elsewhere") == ("42", "")
    assert list((tmp_path / "local").rglob("kernel.kernel-*.nbi"))


def test_a_changed_helper_is_compiled_into_its_callers_anew(package: Path, tmp_path: Path) -> None:
    assert run(package, NUMBA_CACHE_DIR=str(tmp_path / "cache")) == ("42", "")
    (package / "helper.py").write_text(f"FACTOR = 3\n{HELPER}")
    assert run(package, NUMBA_CACHE_DIR=str(tmp_path / "cache")) == ("63", "")


def test_kernels_of_other_sources_are_removed_from_beside_these(package: Path) -> None:
    run(package)
    (first,) = (package / "__pycache__").glob("thalweg-kernels-*")
    (package / "helper.py").write_text(f"FACTOR = 3\n{HELPER}")
    assert run(package) == ("63", "")
    (second,) = (package / "__pycache__").glob("thalweg-kernels-*")
    assert first != second


def test_kernels_in_a_read_only_image_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_places", lambda: iter([tmp_path]))
    monkeypatch.setattr(cache, "_is_writable", lambda kept: False)
    find = cache.directory.__wrapped__
    assert find() is None
    kept = tmp_path / f"thalweg-kernels-{cache._digest()}"
    (kept / "kernels").mkdir(parents=True)
    (kept / "kernels" / "join.run-1.py311.nbi").touch()
    assert find() == kept
