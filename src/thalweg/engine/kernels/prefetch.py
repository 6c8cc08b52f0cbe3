"""Asking for memory before it is needed, which is what the kernels would otherwise wait for."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

LINE = 8
"""Words of a cache line."""


def prefetch(words: NDArray[np.int64], index: int) -> None:
    """Ask for the cache line of a word; nothing changes, and in plain Python nothing happens."""


@overload(prefetch, inline="always")
def _compiled(words: Any, index: Any) -> Any:  # noqa: ARG001 - the parameters of what is overloaded
    def implementation(words: Any, index: Any) -> None:
        _prefetch(words, index)  # type: ignore[call-arg] # called by compiled code, which passes no typing context

    return implementation


@intrinsic
def _prefetch(_typing: Any, words: Any, index: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.bitcast(builder.gep(array.data, [arguments[1]]), ir.IntType(8).as_pointer())
        flags = [ir.Constant(ir.IntType(32), flag) for flag in (0, 3, 1)]  # to read, keep close, data
        kind = ir.FunctionType(ir.VoidType(), [address.type, *(flag.type for flag in flags)])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")  # type: ignore[no-untyped-call]
        builder.call(function, [address, *flags])
        return context.get_dummy_value()

    return types.void(words, index), codegen
