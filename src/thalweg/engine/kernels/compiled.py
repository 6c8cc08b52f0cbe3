"""How kernels are compiled: without the interpreter, once per machine, and kept on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from thalweg.engine.kernels.cache import keep_on_disk
from thalweg.engine.kernels.indexing import UnsignedIndexing

_Function = TypeVar("_Function", bound=Callable[..., Any])
Int64s = NDArray[np.int64]
Float64s = NDArray[np.float64]

_HOW: dict[str, Any] = {"error_model": "numpy", "pipeline_class": UnsignedIndexing}
_COUNTLESS: dict[str, Any] = {"_nrt": False}
"""Without references counted: arrays belong to the caller, who keeps them for as long as a kernel runs. Handing arrays,
or tuples of them, to a helper is free then. A kernel that makes arrays of its own cannot be compiled so."""


def jit(function: _Function) -> _Function:
    """Compile a kernel that works on the arrays it is given, and makes none.

    Parts of a tuple of arrays are taken by their names (``inbox.place``), never by unpacking it: of an unpacked array,
    numba has been seen to lose what was written to it.
    """
    return _compiled(function, **_COUNTLESS)


def allocating(function: _Function) -> _Function:
    """Compile a kernel that makes arrays of its own. It takes arrays one by one: tuples of them are dear here."""
    return _compiled(function)


def inlined(function: _Function) -> _Function:
    """Compile a helper into its callers."""
    return _compiled(function, **_COUNTLESS, forceinline=True)


def _compiled(function: _Function, **how: Any) -> _Function:
    kernel = numba.njit(**_HOW, **how)(function)
    keep_on_disk(kernel, function)
    return cast("_Function", kernel)
