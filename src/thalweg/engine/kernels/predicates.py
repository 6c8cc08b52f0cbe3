"""What two components of a partial tuple are compared by."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.engine.kernels.compiled import Float64s, Int64s, jit
from thalweg.engine.kernels.tables import (
    COMPARE,
    GREATER,
    GREATER_EQUAL,
    GREATEST,
    H_ABSOLUTE,
    H_KIND,
    H_LEFT,
    H_LEFT_FIELD,
    H_OPERATOR,
    H_RIGHT,
    H_RIGHT_FIELD,
    LESS,
    LESS_EQUAL,
    S_MASK,
    S_REGION,
    S_STRIDE,
    SUBTRACT_INTEGERS,
)


@jit
def _holds(operator: int, left: Any, right: Any) -> bool:
    if operator == LESS:
        return left < right
    if operator == LESS_EQUAL:
        return left <= right
    if operator == GREATER:
        return left > right
    if operator == GREATER_EQUAL:
        return left >= right
    return left != right


@jit
def theta_holds(
    mem: Int64s,
    floats: Float64s,
    streams: Int64s,
    thetas: Int64s,
    integer_offsets: Int64s,
    float_offsets: Float64s,
    bound: Int64s,
    frame: int,
    theta: int,
) -> bool:
    """Whether a theta predicate holds between the components bound so far."""
    stream = thetas[theta, H_LEFT]
    left = streams[stream, S_REGION] + (bound[frame, stream] & streams[stream, S_MASK]) * streams[stream, S_STRIDE]
    left += thetas[theta, H_LEFT_FIELD]
    stream = thetas[theta, H_RIGHT]
    right = streams[stream, S_REGION] + (bound[frame, stream] & streams[stream, S_MASK]) * streams[stream, S_STRIDE]
    right += thetas[theta, H_RIGHT_FIELD]
    operator = thetas[theta, H_OPERATOR]
    if thetas[theta, H_KIND] == COMPARE:
        return _holds(operator, mem[left], mem[right])
    if thetas[theta, H_KIND] == SUBTRACT_INTEGERS:
        minuend, subtrahend = mem[left], mem[right]
        difference = minuend - subtrahend
        if (minuend ^ subtrahend) < 0 and (minuend ^ difference) < 0:  # too large for 64 bits
            difference = GREATEST if minuend >= 0 else -GREATEST
        if thetas[theta, H_ABSOLUTE] and difference < 0:
            difference = -difference
        return _holds(operator, difference, integer_offsets[theta])
    distance = floats[left] - floats[right]
    if thetas[theta, H_ABSOLUTE]:
        distance = abs(distance)
    if np.isnan(distance):  # NaN is the greatest number
        return operator >= GREATER
    return _holds(operator, distance, float_offsets[theta])


@jit
def code_of(mem: Int64s, streams: Int64s, bound: Int64s, frame: int, stream: int, field: int) -> int:
    """A word of the component that a stream contributes to the tuple so far."""
    return mem[
        streams[stream, S_REGION] + (bound[frame, stream] & streams[stream, S_MASK]) * streams[stream, S_STRIDE] + field
    ]
