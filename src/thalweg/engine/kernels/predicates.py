"""What two components of a partial tuple are compared by."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Float64s, Int64s, inlined, jit


@jit
def _holds(operator: int, left: Any, right: Any) -> bool:
    if operator == k.LESS:
        return left < right
    if operator == k.LESS_EQUAL:
        return left <= right
    if operator == k.GREATER:
        return left > right
    if operator == k.GREATER_EQUAL:
        return left >= right
    return left != right


@inlined
def component(streams: Int64s, bound: Int64s, frame: int, stream: int) -> int:
    """Where the component lies that a stream contributes to the tuple so far."""
    slot = bound[frame, stream] & streams[stream, k.S_MASK]
    return streams[stream, k.S_REGION] + slot * streams[stream, k.S_STRIDE]


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
    stream = thetas[theta, k.H_LEFT]
    left = (
        streams[stream, k.S_REGION] + (bound[frame, stream] & streams[stream, k.S_MASK]) * streams[stream, k.S_STRIDE]
    )
    left += thetas[theta, k.H_LEFT_FIELD]
    stream = thetas[theta, k.H_RIGHT]
    right = (
        streams[stream, k.S_REGION] + (bound[frame, stream] & streams[stream, k.S_MASK]) * streams[stream, k.S_STRIDE]
    )
    right += thetas[theta, k.H_RIGHT_FIELD]
    operator = thetas[theta, k.H_OPERATOR]
    if thetas[theta, k.H_KIND] == k.COMPARE:
        return _holds(operator, mem[left], mem[right])
    if thetas[theta, k.H_KIND] == k.SUBTRACT_INTEGERS:
        minuend, subtrahend = mem[left], mem[right]
        difference = minuend - subtrahend
        if (minuend ^ subtrahend) < 0 and (minuend ^ difference) < 0:  # too large for 64 bits
            difference = k.GREATEST if minuend >= 0 else -k.GREATEST
        if thetas[theta, k.H_ABSOLUTE] and difference < 0:
            difference = -difference
        return _holds(operator, difference, integer_offsets[theta])
    distance = floats[left] - floats[right]
    if thetas[theta, k.H_ABSOLUTE]:
        distance = abs(distance)
    if np.isnan(distance):  # NaN is the greatest number
        return operator >= k.GREATER
    return _holds(operator, distance, float_offsets[theta])


@jit
def code_of(mem: Int64s, streams: Int64s, bound: Int64s, frame: int, stream: int, field: int) -> int:
    """A word of the component that a stream contributes to the tuple so far."""
    return mem[component(streams, bound, frame, stream) + field]
