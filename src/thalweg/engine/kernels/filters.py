"""Bloom filters over windows: whether values are missing in one of them for sure (JIT IV).

A filter has two bits per value, from two halves of its well-mixed code. It is built anew from time to time, since
nothing can be taken out of it.
"""

from __future__ import annotations

from thalweg.engine.kernels import feedback_tables as fb
from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Int64s, inlined, jit
from thalweg.engine.kernels.hashing import hash_codes, hash_fields
from thalweg.engine.kernels.predicates import component
from thalweg.engine.kernels.windows import is_over


@inlined
def _bits(key: int, mask: int) -> tuple[int, int]:
    return key & mask, (key >> 29) & mask


@inlined
def add_to_filter(mem: Int64s, lists: Int64s, filters: Int64s, row: int, word: int) -> None:
    """Take a tuple of the window into a filter."""
    key = hash_fields(mem, word, lists, filters[row, fb.F_FIELDS], filters[row, fb.F_FIELD_COUNT])
    one, two = _bits(key, filters[row, fb.F_MASK])
    region = filters[row, fb.F_REGION]
    mem[region + (one >> 6)] |= 1 << (one & 63)
    mem[region + (two >> 6)] |= 1 << (two & 63)
    filters[row, fb.F_ADDED] += 1


@inlined
def lacks(mem: Int64s, lists: Int64s, demands: Int64s, filters: Int64s, demand: int, code: Int64s) -> bool:
    """Whether a filter says that some window has no tuple with the values of a demand."""
    first = demands[demand, fb.D_PARTNERS]
    is_lacking = False
    for i in range(demands[demand, fb.D_PARTNER_COUNT]):
        at = first + i * fb.PARTNER_FIELDS
        row = lists[at + fb.A_PLACE]
        if row >= 0:
            key = hash_codes(code, 0, lists, lists[at + fb.A_CLASSES], lists[at + fb.A_CLASS_COUNT])
            one, two = _bits(key, filters[row, fb.F_MASK])
            region = filters[row, fb.F_REGION]
            has_both = (mem[region + (one >> 6)] >> (one & 63)) & (mem[region + (two >> 6)] >> (two & 63)) & 1
            is_lacking |= has_both == 0
    return is_lacking


@inlined
def add_to_filters(
    mem: Int64s, tables: k.Tables, frames: k.Frames, feedback: fb.Feedback, stream: int, watermark: int
) -> None:
    """Take the newest tuple of a stream into the filters over its window."""
    filters, first = feedback.filters, feedback.stream_filters[stream, 0]
    streams = tables.streams
    word = component(streams, frames.bound, 0, stream)
    for row in range(first, first + feedback.stream_filters[stream, 1]):
        if filters[row, fb.F_ADDED] >= filters[row, fb.F_MOST]:
            renew_filter(mem, streams, tables.lists, filters, row, watermark)
        else:
            add_to_filter(mem, tables.lists, filters, row, word)


@jit
def renew_filter(mem: Int64s, streams: Int64s, lists: Int64s, filters: Int64s, row: int, watermark: int) -> None:
    """Build a Bloom filter anew from the tuples that its window holds now.

    That is done whenever as many were added since: at most half of its values are gone.
    """
    stream = filters[row, fb.F_STREAM]
    region = filters[row, fb.F_REGION]
    for word in range(region, region + ((filters[row, fb.F_MASK] + 64) >> 6)):
        mem[word] = 0
    filters[row, fb.F_ADDED] = 0
    while stream >= 0:  # slice by slice
        for sequence in range(streams[stream, k.S_OLDEST], streams[stream, k.S_NEXT]):
            word = streams[stream, k.S_REGION] + (sequence & streams[stream, k.S_MASK]) * streams[stream, k.S_STRIDE]
            if not is_over(mem, streams, stream, word, watermark):
                add_to_filter(mem, lists, filters, row, word)
        stream = streams[stream, k.S_MORE]
    filters[row, fb.F_MOST] = 2 * filters[row, fb.F_ADDED] + 64


@jit
def renew_filters(mem: Int64s, tables: k.Tables, filters: Int64s, watermark: int) -> None:
    """Build all Bloom filters anew."""
    for row in range(filters.shape[0]):
        renew_filter(mem, tables.streams, tables.lists, filters, row, watermark)
