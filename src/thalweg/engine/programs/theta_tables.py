"""Theta predicates as the numbers that the kernel compares by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from thalweg.cql.query import Theta
from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Float64s, Int64s
from thalweg.engine.rows.layout import StreamLayout

_OPERATORS = {
    "<": k.LESS,
    "<=": k.LESS_EQUAL,
    ">": k.GREATER,
    ">=": k.GREATER_EQUAL,
    "<>": k.NOT_EQUAL,
}


def theta_tables(thetas: Sequence[Theta], layouts: Sequence[StreamLayout]) -> tuple[Int64s, Int64s, Float64s]:
    """(rows, integer offsets, float offsets) of the theta predicates."""
    rows = np.zeros((len(thetas), k.THETA_FIELDS), np.int64)
    integers = np.zeros(len(thetas), np.int64)
    floats = np.zeros(len(thetas), np.float64)
    for i, theta in enumerate(thetas):
        if theta.offset is None:
            kind = k.COMPARE
        elif pa.types.is_floating(theta.type):
            kind = k.SUBTRACT_FLOATS
            floats[i] = theta.offset
        else:
            kind = k.SUBTRACT_INTEGERS
            integers[i] = theta.offset
        left, right = theta.left.stream, theta.right.stream
        rows[i] = [
            kind,
            _OPERATORS[theta.op],
            int(theta.absolute),
            left,
            layouts[left].operands[i, 0],
            right,
            layouts[right].operands[i, 1],
        ]
    return rows, integers, floats
