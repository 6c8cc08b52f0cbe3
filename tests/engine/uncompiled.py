"""Run kernels as the Python that they are written in, and see that they never count from the end of an array."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any

import numpy as np


class Forwards(np.ndarray[Any, Any]):
    """An array that refuses negative indices, which compiled kernels would take for large ones."""

    def __getitem__(self, index: Any) -> Any:
        _check(index)
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        _check(index)
        super().__setitem__(index, value)


def _check(index: Any) -> None:
    for each in index if isinstance(index, tuple) else (index,):
        if isinstance(each, int | np.integer) and each < 0:
            raise IndexError(f"a kernel looks up {index}")


def forwards(value: Any) -> Any:
    """The same value with all arrays in it such ones, in the same memory."""
    if isinstance(value, np.ndarray):
        return value.view(Forwards)
    if isinstance(value, tuple):
        parts = [forwards(part) for part in value]
        return value._make(parts) if hasattr(value, "_make") else tuple(parts)
    return value


def only_forwards(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The same kernel, on arrays that refuse negative indices."""

    @functools.wraps(kernel)
    def called(*args: Any) -> Any:
        return kernel(*map(forwards, args))

    return called


def watch(*kernels: ModuleType) -> None:
    """Let kernels that are not compiled refuse negative indices from now on, whoever outside of them calls them."""
    callers = [module for name, module in sys.modules.items() if name.startswith("thalweg.")]
    for module in kernels:
        for kernel in [each for each in vars(module).values() if isinstance(each, FunctionType)]:
            if kernel.__module__ == module.__name__:
                watched = only_forwards(kernel)
                for caller in callers:
                    if caller is module or not caller.__name__.startswith("thalweg.engine.kernels."):
                        for name in [name for name, value in vars(caller).items() if value is kernel]:
                            setattr(caller, name, watched)


@contextmanager
def uncompiled(*kernels: ModuleType) -> Iterator[None]:
    """Inside, the functions of kernel modules (and those that they call) are not compiled."""
    compiled = [
        (module, name, value) for module in kernels for name, value in vars(module).items() if hasattr(value, "py_func")
    ]
    assert {module for module, _, _ in compiled} == set(kernels), "a module has no compiled functions"
    try:
        for module, name, function in compiled:
            setattr(module, name, only_forwards(function.py_func))
        yield
    finally:
        for module, name, function in compiled:
            setattr(module, name, function)
