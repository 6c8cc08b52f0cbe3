"""Run kernels as the Python that they are written in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def uncompiled(kernels: ModuleType) -> Iterator[None]:
    """Inside, the functions of a kernel module (and those that they call) are not compiled."""
    compiled = {name: value for name, value in vars(kernels).items() if hasattr(value, "py_func")}
    assert compiled, f"{kernels.__name__} has no compiled functions"
    try:
        for name, function in compiled.items():
            setattr(kernels, name, function.py_func)
        yield
    finally:
        for name, function in compiled.items():
            setattr(kernels, name, function)
