"""The memory of feedback: what is remembered of demands, what is missing in states, Bloom filters (JIT IV).

Tables begin small and grow with the windows. What they hold can be forgotten: a demand is asked again, and before gaps
are forgotten, the entries that they concern are.
"""

from __future__ import annotations

from collections.abc import Callable

from thalweg.engine.kernels import feedback as fb
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.kernels.hashing import DIRECTORY_FIELDS
from thalweg.engine.memory import Memory
from thalweg.engine.savings import Savings

_FIRST_SLOTS = 1 << 6


def savings_of(before: Int64s, feedback: fb.Feedback | None, unstored_bytes: int) -> Savings:
    """What feedback did since the start; ``before``: what was tallied under earlier plans."""
    counts = before if feedback is None else before + feedback.tally
    suspended = 0 if feedback is None else feedback.demands[:, fb.D_WANTING].sum()
    return Savings(*map(int, (*counts[fb.T_SUSPENSIONS :], suspended, unstored_bytes)))


def allocate(feedback: fb.Feedback, memory: Memory) -> None:
    """Give every table its first room."""
    for row in feedback.demands:
        _place_demand(row, memory, _FIRST_SLOTS if row[fb.D_KEY_COUNT] else 4)
    for row in _gapped(feedback):
        _place_gaps(row, memory, _FIRST_SLOTS)
    for row in feedback.filters:
        row[fb.F_REGION] = memory.allocate(_filter_words(int(row[fb.F_MASK])))


def free(feedback: fb.Feedback, memory: Memory) -> None:
    """Give back all of it."""
    for row in feedback.demands:
        memory.free(int(row[fb.D_TABLE]), int((row[fb.D_MASK] + 1) * row[fb.D_STRIDE]))
    for row in _gapped(feedback):
        memory.free(int(row[fb.O_TABLE]), int(row[fb.O_MASK] + 1) * DIRECTORY_FIELDS)
    for row in feedback.filters:
        memory.free(int(row[fb.F_REGION]), _filter_words(int(row[fb.F_MASK])))


def words(feedback: fb.Feedback) -> int:
    """How much memory it takes."""
    demands = ((feedback.demands[:, fb.D_MASK] + 1) * feedback.demands[:, fb.D_STRIDE]).sum()
    gaps = sum((int(row[fb.O_MASK]) + 1) * DIRECTORY_FIELDS for row in _gapped(feedback))
    return int(demands) + gaps + sum(_filter_words(int(mask)) for mask in feedback.filters[:, fb.F_MASK])


def make_room(feedback: fb.Feedback, memory: Memory, held: int, settle: Callable[[int], None]) -> None:
    """Empty the tables that are filling up; larger ones, as long as they are small for the ``held`` tuples.

    ``settle(i)`` drops the entries of a state that its gaps concern.
    """
    most = max(_FIRST_SLOTS, 1 << held.bit_length())
    for row in feedback.demands:
        slots = int(row[fb.D_MASK]) + 1
        if 4 * row[fb.D_COUNT] > 3 * row[fb.D_MASK]:
            memory.free(int(row[fb.D_TABLE]), slots * int(row[fb.D_STRIDE]))
            _place_demand(row, memory, min(2 * slots, most) if row[fb.D_KEY_COUNT] else slots)
    for i, row in enumerate(feedback.gaps):
        slots = int(row[fb.O_MASK]) + 1
        if 4 * row[fb.O_COUNT] > 3 * row[fb.O_MASK]:
            settle(i)
            memory.free(int(row[fb.O_TABLE]), slots * DIRECTORY_FIELDS)
            _place_gaps(row, memory, min(2 * slots, most))
    feedback.tally[fb.T_IS_FULL] = 0


def _gapped(feedback: fb.Feedback) -> list[Int64s]:
    """The rows of the states that something may be missing in."""
    return [row for row in feedback.gaps if row[fb.O_KIND_COUNT]]


def _place_demand(row: Int64s, memory: Memory, slots: int) -> None:
    row[fb.D_TABLE] = memory.allocate(slots * int(row[fb.D_STRIDE]))
    row[[fb.D_MASK, fb.D_COUNT, fb.D_WANTING]] = slots - 1, 0, 0


def _place_gaps(row: Int64s, memory: Memory, slots: int) -> None:
    row[fb.O_TABLE] = memory.allocate(slots * DIRECTORY_FIELDS)
    row[[fb.O_MASK, fb.O_COUNT, fb.O_ALL]] = slots - 1, 0, 0


def _filter_words(mask: int) -> int:
    return (mask + 64) // 64
