"""Indices of kernels are never negative, and compiled so.

To numba as to Python, ``words[-1]`` is the last word: every access by a signed integer begins by asking whether it is
negative. No kernel counts from the end, and a machine made of table look-ups asks little else: without these questions
it is a fifth to a half faster. So, after types are inferred, a compiler pass has integers looked up as unsigned ones.

A negative index would be a word outside the array then. Constants are refused when a kernel is compiled; plain Python
goes on as ever, and so a test runs the kernels uncompiled on arrays that refuse negative indices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numba.core import ir, types
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.errors import UnsupportedError
from numba.core.ir_utils import find_const, get_definition, guard
from numba.core.typed_passes import NoPythonSupportedFeatureValidation


@register_pass(mutates_CFG=False, analysis_only=False)
class _UnsignedIndices(FunctionPass):
    """Change the signatures of array accesses: lowering casts what it is given to what they say."""

    _name = "unsigned_indices"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        mutated = False
        for access, array in _accesses(state.func_ir):
            _refuse_negative(state.func_ir, access.index)
            signature = state.calltypes[access]
            index = _unsigned(signature.args[1])
            if isinstance(state.typemap[array.name], types.Array) and index != signature.args[1]:
                del state.calltypes[access]  # what it knows, it does not let be changed
                state.calltypes[access] = signature.replace(args=(signature.args[0], index, *signature.args[2:]))
                mutated = True
        return mutated


def _accesses(function: Any) -> Iterator[tuple[Any, Any]]:
    """Everything that reads or writes by an index, and what it reads or writes."""
    for block in function.blocks.values():
        for assignment in block.find_insts(ir.Assign):
            if isinstance(assignment.value, ir.Expr) and assignment.value.op == "getitem":
                yield assignment.value, assignment.value.value
        for writing in block.find_insts(ir.SetItem):
            yield writing, writing.target


def _refuse_negative(function: Any, index: Any) -> None:
    """Constants among the indices can be told: a kernel that counts from the end with one is not compiled."""
    made: Any = guard(get_definition, function, index)
    for part in made.items if isinstance(made, ir.Expr) and made.op == "build_tuple" else [index]:
        constant: Any = guard(find_const, function, part)
        if isinstance(constant, int) and constant < 0:
            raise UnsupportedError(f"kernels do not count from the end of an array, as by {constant}", part.loc)


def _unsigned(index: Any) -> Any:
    """The type of an index, or of several in a tuple, without a sign; slices stay as they are."""
    if isinstance(index, types.BaseTuple):
        parts: Any = index
        return types.BaseTuple.from_types([_unsigned(each) for each in parts])
    return types.uintp if index in (types.intp, types.int64) else index


class UnsignedIndexing(CompilerBase):
    """Numba's compiler with the pass above, as a ``pipeline_class``."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_UnsignedIndices, NoPythonSupportedFeatureValidation)
        passes.finalize()
        return [passes]
