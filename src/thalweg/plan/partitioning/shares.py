"""How many coordinates each axis gets: the shares of the HyperCube algorithm, searched in whole numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from thalweg.plan.partitioning.grid import Int64s

Integers = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Booleans = np.ndarray[Any, np.dtype[np.bool_]]

LOAD_OVER_WORK = 16
"""One percent less load of the fullest bucket is worth up to sixteen percent more work of all buckets together.

Load comes first, but copying a stream into 64 buckets to save the last two percent is not worth it.
"""
CANDIDATES = 100_000
"""Shares looked at per axis. The search is exhaustive while this suffices, which it does for up to 1,000 buckets
and six axes, or 4,096 and four; it keeps the worst case to tens of milliseconds."""


def best_shares(knows: Booleans, rates: Floats, buckets: int) -> tuple[int, ...]:
    """The shares of axes, where ``knows[axis, stream]`` and the product is at most ``buckets``."""
    patterns, index = np.unique(knows, axis=1, return_inverse=True)
    merged: Floats = np.bincount(index.ravel(), weights=rates).astype(np.float64)
    order = np.argsort(patterns @ merged, kind="stable")  # bounds tighten sooner if the heavy axes come last
    found = _improve_pairs(patterns[order], merged, buckets)
    price = _price_of(patterns[order], merged, found)
    best = _search(patterns[order], merged, buckets, price * (1 - 1e-9)) if len(order) > 2 else ()
    if best and _price_of(patterns[order], merged, best) < price:
        found = best
    shares = dict(zip(order, found, strict=True))
    return tuple(shares[axis] for axis in range(len(knows)))


def _improve_pairs(knows: Booleans, rates: Floats, buckets: int) -> tuple[int, ...]:
    """Shares that changing no two of them makes better."""
    shares = [1] * len(knows)
    better = True
    while better:
        before = _price_of(knows, rates, shares)
        for pair in combinations(range(len(knows)), min(2, len(knows))):
            for axis in pair:
                shares[axis] = 1
            load = rates / np.where(knows, np.array(shares)[:, np.newaxis], 1).prod(axis=0)
            found = _search(knows[list(pair)], load, buckets // math.prod(shares), math.inf)
            for axis, share in zip(pair, found, strict=True):
                shares[axis] = share
        better = _price_of(knows, rates, shares) < before * (1 - 1e-9)
    return tuple(shares)


def _price_of(knows: Booleans, rates: Floats, shares: Sequence[int]) -> float:
    load = (rates / np.where(knows, np.array(shares)[:, np.newaxis], 1).prod(axis=0)).sum()
    return float(_price(load, load * math.prod(shares)))


def _price(load: Floats, work: Floats | float) -> Floats:
    """What is minimised: the load of a bucket, and to a small power the work of all buckets."""
    price: Floats = load * work ** (1 / LOAD_OVER_WORK)
    return price


def _search(knows: Booleans, rates: Floats, buckets: int, limit: float) -> tuple[int, ...]:
    """The best shares by branch and bound, axis by axis; empty if none with a price up to ``limit`` is found.

    A candidate has shares for the axes so far. It is dropped if its price would be above ``limit`` even if
    every stream that knows some axis to come were split by all the buckets that are left.
    """
    load = rates[np.newaxis, :]
    product = np.ones(1, np.int64)
    shares = np.ones((1, 0), np.int64)
    total = rates.sum()
    for axis in range(len(knows) - 1):
        room = buckets // product
        parent = np.repeat(np.arange(len(room)), room)
        share = np.arange(1, len(parent) + 1) - np.repeat(np.cumsum(room) - room, room)
        product = product[parent] * share
        here, later = knows[axis], knows[axis + 1 :].any(axis=0)
        left = buckets // product
        floor = (
            load[:, here & later].sum(axis=1)[parent] / (share * left)
            + load[:, here & ~later].sum(axis=1)[parent] / share
            + load[:, ~here & later].sum(axis=1)[parent] / left
            + load[:, ~here & ~later].sum(axis=1)[parent]
        )
        kept = np.flatnonzero(_price(floor, total) <= limit)
        least = _price(floor[kept], np.maximum(total, floor[kept] * product[kept]))
        kept = _most_promising(kept[least <= limit], least[least <= limit], left)
        if not len(kept):
            return ()
        parent, share, product = parent[kept], share[kept], product[kept]
        load = np.where(here, load[parent] / share[:, np.newaxis], load[parent])
        shares = np.column_stack([shares[parent], share])
    return _finish(load[:, ~knows[-1]].sum(axis=1), load[:, knows[-1]].sum(axis=1), product, shares, buckets)


def _most_promising(kept: Int64s, least: Floats, left: Int64s) -> Int64s:
    """Of the candidates ``kept``, those of the least price that together have at most :data:`CANDIDATES` successors."""
    if left[kept].sum() <= CANDIDATES:
        return kept
    kept = kept[np.argsort(least, kind="stable")]
    return np.sort(kept[: max(1, int(np.searchsorted(np.cumsum(left[kept]), CANDIDATES)))])


def _finish(copied: Floats, split: Floats, product: Int64s, shares: Integers, buckets: int) -> tuple[int, ...]:
    """The best candidate with the best share of the last axis, which splits a part of the load and copies the rest.

    The price as a function of that share falls until ``LOAD_OVER_WORK * split / copied`` and rises from there.
    """
    room = buckets // product
    ideal = np.minimum(np.divide(LOAD_OVER_WORK * split, copied, out=room.astype(np.float64), where=copied > 0), room)
    choices = np.stack([np.maximum(np.floor(ideal), 1), np.minimum(np.floor(ideal) + 1, room)]).astype(np.int64)
    load = copied + split / choices
    prices = _price(load, load * product * choices)
    least = float(prices.min())
    which, candidate = np.argwhere(prices <= least * (1 + 1e-9))[0]
    return *map(int, shares[candidate]), int(choices[which, candidate])
