"""Kernels of the running aggregates: results enter and leave groups, and each touch is a change.

Design
    :func:`route` turns events (a result enters or leaves at an instant) into *changes*: all
    events of one group at one instant. The other kernels replay the same events in the same
    order for one aggregate each, note its value at the first event of a change (which is
    the value before the instant) and after the last (which is the value at the instant).

Invariants
    Sums are linear: what a result added when it entered is exactly what is subtracted when it
    leaves, so a group without results is all zeros, whatever its history, and its number can
    serve another group at once. The order of events within an instant cannot matter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thalweg.engine.kernels.compiled import Int64s, jit

Int8s = NDArray[np.int8]

NOTHING = -1
"""No group, no result, no entry."""


class Routed(NamedTuple):
    """The events of a call, each with its change, and the changes, in time order.

    A change with ``first[c] == e`` begins with event ``e``, and ends with ``last[c]``.
    """

    slot: Int64s  # [event] the result
    entry: Int64s  # [event] which of the entering results it is; NOTHING if it leaves
    change: Int64s  # [event]
    group: Int64s  # [change]
    first: Int64s  # [change] event
    last: Int64s  # [change] event
    before: Int64s  # [change] results in the group before the instant
    after: Int64s  # [change] results in the group at the instant


@jit
def route(
    times: Int64s,
    signs: Int8s,
    slots: Int64s,
    groups: Int64s,
    slot_group: Int64s,
    alive: Int64s,
    mark: Int64s,
    routed: Routed,
) -> int:
    """Find the changes of a batch of events, and return their number.

    ``groups`` has the group of each entering result; ``slot_group[slot]``, ``alive[group]`` and all arrays
    of ``routed`` (long enough for a change per event) are updated; ``mark[group]`` is NOTHING before and after.
    An event that makes no sense (a held slot is entered, a free one left) ends the call: ``-1 - event``
    is returned.
    """
    entered = 0
    changes = 0
    opened = 0  # the first change of this instant
    for event in range(len(times)):
        if event > 0 and times[event] != times[event - 1]:
            opened = changes
        slot = slots[event]
        if (signs[event] > 0) != (slot_group[slot] == NOTHING):
            return -1 - event
        if signs[event] > 0:
            group = groups[entered]
            slot_group[slot] = group
            routed.entry[event] = entered
            entered += 1
            step = 1
        else:
            group = slot_group[slot]
            slot_group[slot] = NOTHING
            routed.entry[event] = NOTHING
            step = -1
        change = mark[group]
        if change < opened:
            change = changes
            changes += 1
            mark[group] = change
            routed.group[change] = group
            routed.first[change] = event
            routed.before[change] = alive[group]
        alive[group] += step
        routed.slot[event] = slot
        routed.change[event] = change
        routed.last[change] = event
        routed.after[change] = alive[group]
    for change in range(changes):
        mark[routed.group[change]] = NOTHING
    return changes


@jit
def count(routed: Routed, valid: Int8s, slot_valid: Int8s, counts: Int64s, before: Int64s, after: Int64s) -> None:
    """Count the values that are not NULL.

    ``valid`` has one flag per entering result; ``slot_valid[slot]`` and ``counts[group]`` are updated,
    ``before`` and ``after`` filled per change.
    """
    for event in range(len(routed.slot)):
        change = routed.change[event]
        group = routed.group[change]
        slot = routed.slot[event]
        if event == routed.first[change]:
            before[change] = counts[group]
        if routed.entry[event] != NOTHING:
            slot_valid[slot] = valid[routed.entry[event]]
            counts[group] += slot_valid[slot]
        else:
            counts[group] -= slot_valid[slot]
        if event == routed.last[change]:
            after[change] = counts[group]
