"""How kernels are compiled: without the interpreter, once per machine, cached beside the sources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from thalweg.engine.kernels.indexing import UnsignedIndexing

_Function = TypeVar("_Function", bound=Callable[..., Any])
Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Float64s = NDArray[np.float64]

_HOW: dict[str, Any] = {"cache": True, "error_model": "numpy", "pipeline_class": UnsignedIndexing}
_COUNTLESS: dict[str, Any] = {**_HOW, "_nrt": False}
"""Without references counted: arrays belong to the caller, who keeps them for as long as a kernel runs. Handing arrays,
or tuples of them, to a helper is free then. A kernel that makes arrays of its own cannot be compiled so."""


def jit(function: _Function) -> _Function:
    """Compile a kernel that works on the arrays it is given, and makes none."""
    return cast("_Function", numba.njit(**_COUNTLESS)(function))


def allocating(function: _Function) -> _Function:
    """Compile a kernel that makes arrays of its own. It takes arrays one by one: tuples of them are dear here."""
    return cast("_Function", numba.njit(**_HOW)(function))


def inlined(function: _Function) -> _Function:
    """Compile a helper into its callers."""
    return cast("_Function", numba.njit(**_COUNTLESS, forceinline=True)(function))
