"""Linear orders: for every head stream, in which order a new tuple probes the other windows.

The cheapest way on from a set of bound streams does not depend on how that set came
about. So one dynamic programme over all sets of streams finds the orders of all heads.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from thalweg.plan.estimator import Estimator, clearly_less, streams_of
from thalweg.plan.tree import LinearPlan

EXACT_ORDERS = 12
"""Streams up to which the orders are exact: 2^n sets."""

SHORTLIST = 3
"""Steps of each kind that the greedy search looks ahead from."""


def best_linear(estimator: Estimator) -> tuple[float, LinearPlan]:
    """(cost, plan): exact up to :data:`EXACT_ORDERS` streams, greedy by rank beyond."""
    find = _exact_orders if estimator.graph.streams <= EXACT_ORDERS else _greedy_orders
    orders = find(estimator)
    cost = estimator.fixed()
    for head, order in enumerate(orders):
        flow, bound = estimator.statistics.rates[head], 1 << head
        for stream in order:
            work, growth = estimator.probe(bound, 1 << stream)
            cost += flow * work
            flow *= growth
            bound |= 1 << stream
    return cost, LinearPlan(tuple(orders))


def _next_streams(estimator: Estimator, bound: int) -> list[int]:
    """The streams to probe next: the connected ones, or if there are none, all that are left."""
    left = estimator.all ^ bound
    return [1 << s for s in streams_of(estimator.adjacent(bound) & left or left)]


def _exact_orders(estimator: Estimator) -> list[tuple[int, ...]]:
    rest = {estimator.all: 0.0}
    chosen: dict[int, int] = {}
    for bound in range(estimator.all - 1, 0, -1):
        for stream in _next_streams(estimator, bound):
            work, growth = estimator.probe(bound, stream)
            cost = work + growth * rest[bound | stream]
            if bound not in rest or clearly_less(cost, rest[bound]):
                rest[bound], chosen[bound] = cost, stream
    return [_order(head, chosen.__getitem__, estimator) for head in range(estimator.graph.streams)]


def _greedy_orders(estimator: Estimator) -> list[tuple[int, ...]]:
    """Choose the step that is cheapest together with the cheapest step after it.

    Without the look ahead, a step that costs little and multiplies the work of all others looks good.
    Only the few steps that cost least or grow least are looked at.
    """
    chosen: dict[int, int] = {}

    def two_steps(bound: int, stream: int) -> tuple[float, int]:
        work, growth = estimator.probe(bound, stream)
        both = bound | stream
        after = [estimator.probe(both, s)[0] for s in _next_streams(estimator, both)] if both != estimator.all else [0]
        return work + growth * min(after), stream

    def choose(bound: int) -> int:
        if bound not in chosen:
            left = _next_streams(estimator, bound)
            by_work = heapq.nsmallest(SHORTLIST, left, key=lambda s: estimator.probe(bound, s)[0])
            by_growth = heapq.nsmallest(SHORTLIST, left, key=lambda s: estimator.probe(bound, s)[1])
            chosen[bound] = min({*by_work, *by_growth}, key=lambda s: two_steps(bound, s))
        return chosen[bound]

    return [_order(head, choose, estimator) for head in range(estimator.graph.streams)]


def _order(head: int, choose: Callable[[int], int], estimator: Estimator) -> tuple[int, ...]:
    bound, order = 1 << head, []
    while bound != estimator.all:
        stream = choose(bound)
        order.append(stream.bit_length() - 1)
        bound |= stream
    return tuple(order)
