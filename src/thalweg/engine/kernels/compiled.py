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


def jit(function: _Function) -> _Function:
    """Compile a kernel.

    Helpers take the arrays that they read and nothing more: handing over a tuple of arrays, or a slice of one, makes
    the compiler count references, which costs more than most of them do.
    """
    return _compiled(function)


def inlined(function: _Function) -> _Function:
    """Compile a helper into its callers: a call would count references to every array, too."""
    return _compiled(function, forceinline=True)


def _compiled(function: _Function, **how: Any) -> _Function:
    kernel = numba.njit(**_HOW, **how)(function)
    keep_on_disk(kernel, function)
    return cast("_Function", kernel)
