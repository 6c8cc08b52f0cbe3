"""Kernels of MIN and MAX: a heap of results per group."""

from __future__ import annotations

from typing import NamedTuple

from thalweg.engine.kernels.aggregate import NOTHING, Int8s, Routed
from thalweg.engine.kernels.compiled import Int64s, jit

# Columns of Heaps.node: the key, the first child, the parent's next child, and the child before
# (of the first child: the parent).
KEY, CHILD, SIBLING, PREVIOUS = 0, 1, 2, 3


class Heaps(NamedTuple):
    """A pairing heap of results per group, least key at the root, linked through the slots.

    Fredman, Sedgewick, Sleator and Tarjan 1986: entering takes constant and leaving, from anywhere
    in the heap, logarithmic amortised time, without any memory but these links.
    """

    node: Int64s  # [slot, KEY..PREVIOUS] together, as they are used together
    held: Int8s  # [slot] whether it is in a heap: NULL is not
    root: Int64s  # [group]


@jit
def _meld(nodes: Int64s, one: int, other: int) -> int:
    """Make the greater of two roots the first child of the other, which is returned."""
    if one == NOTHING:
        return other
    if other == NOTHING:
        return one
    if nodes[other, KEY] < nodes[one, KEY]:
        one, other = other, one
    first = nodes[one, CHILD]
    nodes[other, SIBLING] = first
    if first != NOTHING:
        nodes[first, PREVIOUS] = other
    nodes[other, PREVIOUS] = one
    nodes[one, CHILD] = other
    return one


@jit
def _meld_siblings(nodes: Int64s, first: int) -> int:
    """Meld a list of siblings, in pairs from left to right, then the pairs from right to left."""
    pairs = NOTHING
    while first != NOTHING:
        second = nodes[first, SIBLING]
        rest = NOTHING
        if second != NOTHING:
            rest = nodes[second, SIBLING]
            nodes[second, SIBLING] = NOTHING
        nodes[first, SIBLING] = NOTHING
        pair = _meld(nodes, first, second)
        nodes[pair, SIBLING] = pairs
        pairs = pair
        first = rest
    root = NOTHING
    while pairs != NOTHING:
        rest = nodes[pairs, SIBLING]
        nodes[pairs, SIBLING] = NOTHING
        root = _meld(nodes, root, pairs)
        pairs = rest
    return root


@jit
def _enter_heap(nodes: Int64s, root: int, slot: int, key: int) -> int:
    """The root of a heap with one more result."""
    nodes[slot, KEY] = key
    nodes[slot, CHILD] = NOTHING
    nodes[slot, SIBLING] = NOTHING
    return _meld(nodes, root, slot)


@jit
def _leave_heap(nodes: Int64s, root: int, slot: int) -> int:
    """The root of a heap without one of its results."""
    orphans = _meld_siblings(nodes, nodes[slot, CHILD])
    if root == slot:
        return orphans
    previous = nodes[slot, PREVIOUS]
    sibling = nodes[slot, SIBLING]
    if nodes[previous, CHILD] == slot:
        nodes[previous, CHILD] = sibling
    else:
        nodes[previous, SIBLING] = sibling
    if sibling != NOTHING:
        nodes[sibling, PREVIOUS] = previous
    return _meld(nodes, root, orphans)


@jit
def least(
    routed: Routed,
    keys: Int64s,
    valid: Int8s,
    heaps: Heaps,
    before: Int64s,
    before_null: Int8s,
    after: Int64s,
    after_null: Int8s,
) -> None:
    """Follow the least key of each group.

    ``keys[entry]`` are the arguments as integers of the same order, ``valid[entry]`` is 0 for NULL; ``heaps``
    is updated; ``before`` and ``after`` get the least key per change, or the flag that there is none.
    """
    for event in range(len(routed.slot)):
        change = routed.change[event]
        group = routed.group[change]
        slot = routed.slot[event]
        if event == routed.first[change]:
            root = heaps.root[group]
            before_null[change] = root == NOTHING
            before[change] = 0 if root == NOTHING else heaps.node[root, KEY]
        entry = routed.entry[event]
        if entry != NOTHING:
            heaps.held[slot] = valid[entry]
            if valid[entry]:
                heaps.root[group] = _enter_heap(heaps.node, heaps.root[group], slot, keys[entry])
        elif heaps.held[slot]:
            heaps.held[slot] = 0
            heaps.root[group] = _leave_heap(heaps.node, heaps.root[group], slot)
        if event == routed.last[change]:
            root = heaps.root[group]
            after_null[change] = root == NOTHING
            after[change] = 0 if root == NOTHING else heaps.node[root, KEY]
