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
def tuple_at(streams: Int64s, stream: int, sequence: int) -> int:
    """Where a tuple of a base window lies: its number says in which slice."""
    row = stream + (sequence >> k.SLICE_SHIFT)
    return streams[row, k.S_REGION] + (sequence & streams[row, k.S_MASK]) * streams[row, k.S_STRIDE]


@inlined
def component(streams: Int64s, bound: Int64s, frame: int, stream: int) -> int:
    """Where the component lies that a stream contributes to the tuple so far."""
    return tuple_at(streams, stream, bound[frame, stream])


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
    left = component(streams, bound, frame, thetas[theta, k.H_LEFT]) + thetas[theta, k.H_LEFT_FIELD]
    right = component(streams, bound, frame, thetas[theta, k.H_RIGHT]) + thetas[theta, k.H_RIGHT_FIELD]
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
