"""How the tuples of a query are spread over buckets, so that every result is found in exactly one.

The buckets are the points of a grid. A tuple knows its coordinate on some of the grid's axes and is copied
along the others: it goes to one bucket if it knows them all, and to a whole plane if it knows one of three.

======= ========================================================= ==============================
an axis gives a tuple as coordinate                               and is known to
======= ========================================================= ==============================
of keys a hash of its members of attribute classes                the members of these classes
of rows a hash of anything fixed about the row, or of expressions one stream
======= ========================================================= ==============================

**Every result is found exactly once.** Take one tuple per stream that together satisfy the classes. On an axis of
keys all members have the same coordinate, because equal values have equal hashes; on an axis of rows the one
stream has one. So on every axis the tuples that know it, and there are some, agree on one coordinate. These
coordinates are a bucket that every tuple is sent to: it has that coordinate where it knows the axis, and goes
everywhere where it does not. Any other bucket has another coordinate on some axis, and a tuple that knows this axis is
not there. A result of ``EXCEPT`` is one tuple of the first stream, and its bucket needs all tuples of the
others with its key. It has them, as long as no other stream has an axis of rows.

**What must not be torn apart.** ``PARTITION BY p ROWS n`` counts the rows of a partition, so an axis may split
such a stream only if its coordinate follows from ``p``; where the stream is copied it is complete. A row with a NULL
key joins nothing but still counts, so it goes where its hash sends it, like any other. A group of an aggregation
must be in one bucket: every coordinate must follow from the group's key. A coordinate follows from the same
expressions; also if it casts them, unless they are floating point, whose -0.0 and 0.0 are one group but two strings.

**Which shares.** The HyperCube algorithm (Afrati and Ullman; Beame, Koutris and Suciu): a bucket gets, of each
stream, its rate divided by the shares of the axes that it knows. An axis all of whose streams know another one
is never better than that one; the shares of the axes that remain are searched in whole numbers.

State lives in buckets, so a running query keeps the partitioning that it began with.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from sqlglot import exp

from thalweg.cql.nodes import rewrite
from thalweg.cql.predicates import HASHABLE
from thalweg.cql.query import Query, RowsWindow
from thalweg.cql.rendering import render
from thalweg.cql.types import canonical, family
from thalweg.errors import OptionError, PlanError
from thalweg.plan.names import class_names

Int64s = np.ndarray[tuple[int], np.dtype[np.int64]]
Int32s = np.ndarray[tuple[int], np.dtype[np.int32]]
Integers = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Booleans = np.ndarray[Any, np.dtype[np.bool_]]

Kind = Literal["key", "hypercube", "grid", "single"]

LOAD_OVER_WORK = 16
"""One percent less load of the fullest bucket is worth up to sixteen percent more work of all buckets together.

Load comes first, but copying a stream into 64 buckets to save the last two percent is not worth it.
"""
MOST_BUCKETS = 4_096
"""Each bucket has an engine and a log of its own: far more than any cluster has cores would only cost."""
CANDIDATES = 100_000
"""Shares looked at per axis. The search is exhaustive while this suffices, which it does for up to 1,000 buckets
and six axes, or 4,096 and four; it keeps the worst case to tens of milliseconds."""
BLOCK = 1 << 16
"""Rows routed at a time, so that the passes over them stay in the processor's cache."""

_ONE_SPELLING = HASHABLE - {"float"}
"""Families of types whose equal values are identical, so that their casts are equal too."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension of the grid of buckets.

    Attributes:
        share: how many coordinates it has.
        classes: the attribute classes whose members are hashed together; empty for an axis of rows.
        stream: the stream of an axis of rows.

    """

    share: int
    classes: tuple[int, ...] = ()
    stream: int | None = None


@dataclass(frozen=True, slots=True)
class Coordinate:
    """How the tuples of one stream find their coordinate on one axis.

    ``hash``: by one hash of all ``expressions``, in which values that SQL calls equal are equal (NULL and NULL,
    NaN and NaN, -0.0 and 0.0). ``row``: by a hash of anything that is fixed about the row. ``all``: copied to all.
    """

    kind: Literal["hash", "row", "all"]
    expressions: tuple[exp.Expression, ...] = ()


_ROW = Coordinate("row")
_ALL = Coordinate("all")


@dataclass(frozen=True, slots=True)
class Partitioning:
    """A grid of buckets, and what each stream knows of it.

    Attributes:
        kind: ``key``: every stream knows the one axis, no tuple is copied (only static relations, if they do not know
            it); ``hypercube``: several axes, or streams
            that are copied, and some axis of keys; ``grid``: axes of rows alone; ``single``: one bucket.
        buckets: how many there are, the product of the shares.
        reason: why it is so, in one sentence.
        axes: the dimensions; a bucket's number is that of its coordinates, the last axis varying fastest.
        coordinates: for each stream, its way to a coordinate on each axis.

    """

    kind: Kind
    buckets: int
    reason: str
    axes: tuple[Axis, ...]
    coordinates: tuple[tuple[Coordinate, ...], ...]

    def known(self, stream: int) -> tuple[Coordinate, ...]:
        """The coordinates of which :meth:`route` needs hashes, in its order."""
        return tuple(c for c in self.coordinates[stream] if c.kind != "all")

    def copies(self, stream: int) -> int:
        """How many buckets each tuple of a stream goes to."""
        pairs = zip(self.axes, self.coordinates[stream], strict=True)
        return math.prod(axis.share for axis, coordinate in pairs if coordinate.kind == "all")

    def is_first_copy(self, stream: int, bucket: int) -> bool:
        """Whether tuples of a stream that reach this bucket have no copy in one with a lesser number."""
        stride = self.buckets
        for axis, coordinate in zip(self.axes, self.coordinates[stream], strict=True):
            stride //= axis.share
            if coordinate.kind == "all" and bucket // stride % axis.share:
                return False
        return True

    def route(self, stream: int, hashes: Sequence[Int64s], count: int) -> tuple[Int64s, Int32s]:
        """The buckets of ``count`` rows of a stream: pairs of row number and bucket number.

        ``hashes`` are well mixed 64-bit hashes, one array for each of :meth:`known`. Within a bucket the
        rows keep their order.
        """
        needed = len(self.known(stream))
        if len(hashes) != needed or any(h.shape != (count,) or h.dtype != np.int64 for h in hashes):
            given = ", ".join(f"{h.dtype}{list(h.shape)}" for h in hashes) or "none"
            raise PlanError(f"stream {stream} is routed by {needed} arrays of {count} 64-bit hashes, not by: {given}")
        own = np.zeros(count, np.int32)
        copies = np.zeros(1, np.int32)
        given_hashes, stride = list(hashes), self.buckets
        for axis, coordinate in zip(self.axes, self.coordinates[stream], strict=True):
            stride //= axis.share
            if coordinate.kind == "all":
                copies = np.add.outer(copies, np.arange(axis.share, dtype=np.int32) * np.int32(stride)).ravel()
            else:
                _add_coordinates(own, given_hashes.pop(0), axis.share, stride)
        rows = np.arange(count, dtype=np.int64)
        if len(copies) == 1:
            return rows, own
        return np.tile(rows, len(copies)), np.add.outer(copies, own).ravel()


def _add_coordinates(buckets: Int32s, hashes: Int64s, share: int, stride: int) -> None:
    """Scale the upper 32 bits of each hash to ``0 .. share - 1``, and add ``stride`` times that to its bucket."""
    for start in range(0, len(hashes), BLOCK):
        bits = hashes[start : start + BLOCK].view(np.uint64) >> np.uint64(32)
        bits *= np.uint64(share)
        bits >>= np.uint64(32)
        bits *= np.uint64(stride)
        buckets[start : start + BLOCK] += bits.astype(np.int32)


class _Candidate(NamedTuple):
    """An axis that the query allows: ``known`` says which streams know it, and by what."""

    known: dict[int, Coordinate]
    classes: tuple[int, ...] = ()
    stream: int | None = None


def choose_partitioning(query: Query, buckets: int, rates: Sequence[float] | None = None) -> Partitioning:
    """Spread a query over at most ``buckets`` buckets.

    ``rates`` are the streams' relative ones; None: equal, and nothing for static relations, which are copied once.
    """
    if not 1 <= buckets <= MOST_BUCKETS:
        raise OptionError(f"buckets is {buckets}. Use a whole number from 1 to {MOST_BUCKETS}.")
    weights = _weights(query, rates)
    obstacle = "one bucket was asked for" if buckets == 1 else _obstacle(query)
    if obstacle is not None:
        return _single(query, obstacle)
    candidates = _maximal([*_key_axes(query), *_row_axes(query)])
    if not candidates:
        return _single(query, _torn_apart(query))
    knows = np.array([[s in c.known for s in range(len(query.streams))] for c in candidates])
    shares = _best_shares(knows, weights, buckets)
    used = [(c, share) for c, share in zip(candidates, shares, strict=True) if share > 1]
    if not used:
        return _single(query, "copying streams into several buckets would cost more than it saves")
    axes = tuple(Axis(share, c.classes, c.stream) for c, share in used)
    kind = _kind(query, [candidate for candidate, _ in used])
    return Partitioning(
        kind,
        math.prod(axis.share for axis in axes),
        _reason(query, kind, axes, [c for c, _ in used]),
        axes,
        tuple(tuple(c.known.get(s, _ALL) for c, _ in used) for s in range(len(query.streams))),
    )


def _kind(query: Query, axes: Sequence[_Candidate]) -> Kind:
    if len(axes) == 1 and all(s in axes[0].known or stream.is_static for s, stream in enumerate(query.streams)):
        return "grid" if _ROW in axes[0].known.values() else "key"
    return "hypercube" if any(axis.classes for axis in axes) else "grid"


def describe(query: Query, partitioning: Partitioning) -> tuple[str, ...]:
    """The partitioning in lines for a person: the grid and why, then where the tuples of each stream go."""
    grid = " × ".join(str(axis.share) for axis in partitioning.axes)
    shape = f" ({grid})" if len(partitioning.axes) > 1 else ""
    plural = "" if partitioning.buckets == 1 else "s"
    lines = [f"{partitioning.buckets} bucket{plural}{shape}, {partitioning.kind}: {partitioning.reason}"]
    for stream, alias in enumerate(query.aliases if partitioning.axes else ()):
        by = [", ".join(map(render, coordinate.expressions)) or "row" for coordinate in partitioning.known(stream)]
        copies = partitioning.copies(stream)
        place = "to one bucket" if copies == 1 else f"to {copies} buckets" if by else "to every bucket"
        lines.append(f"{alias}: each tuple {place}" + (f", by {' × '.join(by)}" if by else ""))
    return tuple(lines)


def _weights(query: Query, rates: Sequence[float] | None) -> Floats:
    assumed = [0.0 if stream.is_static else 1.0 for stream in query.streams]
    weights = np.asarray(assumed if rates is None else rates, np.float64)
    if weights.shape != (len(query.streams),) or not np.isfinite(weights).all() or (weights < 0).any():
        what = f"rates are {weights.tolist()}, which is not one number from 0 for each of {', '.join(query.aliases)}"
        raise PlanError(f"{what}. Give one per stream, in the order of FROM.")
    return weights if weights.any() else np.ones(len(query.streams))


# What the query allows


def _obstacle(query: Query) -> str | None:
    """Why nothing may be split at all."""
    for stream in query.streams:
        if isinstance(stream.window, RowsWindow) and not stream.window.partition_by:
            rows = f"[ROWS {stream.window.rows}] of {stream.alias}"
            return f"{rows} counts all tuples of the stream in one place; PARTITION BY would let it be split"
    if query.aggregation is not None and not query.aggregation.keys:
        return "an aggregate without GROUP BY needs all results in one place"
    return None


def _torn_apart(query: Query) -> str:
    """Why no axis is left though nothing forbids splitting as such."""
    if query.aggregation is not None:
        keys = ", ".join(render(key.expression) for key in query.aggregation.keys)
        return f"no join key and no stream can be split without splitting the groups of GROUP BY {keys}"
    return "every way to split a stream would split the partitions of its ROWS window"


class _Given(NamedTuple):
    """An expression whose value is the same for what must stay together."""

    expression: exp.Expression
    type: pa.DataType | None


def _group_keys(query: Query) -> list[_Given] | None:
    """What a group has in common; None if the query does not group."""
    return None if query.aggregation is None else [_Given(k.expression, k.type) for k in query.aggregation.keys]


def _partition_keys(query: Query, stream: int) -> list[_Given] | None:
    """What the rows of one partition of a ROWS window have in common; None for a RANGE window."""
    ref = query.streams[stream]
    if not isinstance(ref.window, RowsWindow):
        return None
    return [_Given(e, _column_type(query, stream, e)) for e in ref.window.partition_by]


def _column_type(query: Query, stream: int, expression: exp.Expression) -> pa.DataType | None:
    column = _plain(expression)
    return canonical(query.streams[stream].schema.field(column.name).type) if isinstance(column, exp.Column) else None


def _plain(expression: exp.Expr) -> exp.Expression:
    """The tree without parentheses, which it does not need."""
    return rewrite(expression.copy(), lambda node: node.this if isinstance(node, exp.Paren) else node)


def _follows(expression: exp.Expression, given: Sequence[_Given] | None) -> bool:
    """Whether an expression has one value wherever the given ones have; None asks for nothing."""
    return given is None or any(_casts(_plain(expression), _plain(g.expression), g.type) for g in given)


def _casts(expression: exp.Expr, source: exp.Expr, kind: pa.DataType | None) -> bool:
    """Whether an expression is ``source``, or a cast of it that keeps equal values equal."""
    if expression == source:
        return True
    if kind is None or family(kind) not in _ONE_SPELLING or not isinstance(expression, exp.Cast):
        return False
    return _casts(expression.this, source, kind)


def _key_axes(query: Query) -> Iterator[_Candidate]:
    """An axis for each set of streams that share allowed classes.

    Classes of the same streams are hashed together: the axis costs no more copies for that, and a value that
    is frequent in one class is spread by the others.
    """
    groups = _group_keys(query)
    axes: dict[frozenset[int], list[int]] = {}
    for index, cls in enumerate(query.classes):
        if not all(_follows(member, _partition_keys(query, stream)) for stream, member in cls.members.items()):
            continue
        if any(_follows(member, groups) for member in cls.members.values()):
            axes.setdefault(frozenset(cls.members), []).append(index)
    for streams, classes in axes.items():
        known = {s: Coordinate("hash", tuple(query.classes[c].members[s] for c in classes)) for s in sorted(streams)}
        yield _Candidate(known, tuple(classes))


def _row_axes(query: Query) -> Iterator[_Candidate]:
    """An axis for each stream that may be split by itself: anyhow, or by what must stay together."""
    groups = _group_keys(query)
    for stream in range(1 if query.kind == "difference" else len(query.streams)):
        partitions = _partition_keys(query, stream)
        if partitions is None and groups is None:
            yield _Candidate({stream: _ROW}, stream=stream)
            continue
        alias = query.streams[stream].alias
        kept = [
            given.expression
            for given in (partitions if partitions is not None else groups or [])
            if {column.table for column in given.expression.find_all(exp.Column)} == {alias}
            and given.type is not None
            and family(given.type) in HASHABLE
            and _follows(given.expression, groups)
        ]
        if kept:
            yield _Candidate({stream: Coordinate("hash", tuple(kept))}, stream=stream)


def _maximal(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """Those that are worth a share: no other axis is known to the same streams and more."""
    sets = [frozenset(candidate.known) for candidate in candidates]
    return [candidate for i, candidate in enumerate(candidates) if not any(sets[i] < other for other in sets)]


# How many coordinates each axis gets


def _best_shares(knows: Booleans, rates: Floats, buckets: int) -> tuple[int, ...]:
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


# Why, in words


def _single(query: Query, reason: str) -> Partitioning:
    return Partitioning("single", 1, reason, (), ((),) * len(query.streams))


def _reason(query: Query, kind: Kind, axes: Sequence[Axis], candidates: Sequence[_Candidate]) -> str:
    labels = [_label(query, candidate) for candidate in candidates]
    if kind == "key":
        together = " hashed together" if len(axes[0].classes) > 1 else ""
        copied = [stream.alias for s, stream in enumerate(query.streams) if s not in candidates[0].known]
        static = f"; every bucket has all of {' and '.join(copied)}, static" if copied else ""
        return f"all tuples that must meet agree on {labels[0]}{together}, so none is copied{static}"
    if len(query.streams) == 1:
        return "one stream, whose tuples need not meet"
    shares = ", ".join(f"{axis.share} by {label}" for axis, label in zip(axes, labels, strict=True))
    why = "no join key that may split tuples reaches every stream"
    if kind == "grid":
        why = "no join key may split tuples" if query.classes else "no equality connects the streams"
    return f"{why}, so each is split by what it has and copied along the rest: {shares}"


def _label(query: Query, candidate: _Candidate) -> str:
    if candidate.classes:
        names = class_names(query)
        return ", ".join(names[c] for c in candidate.classes)
    ((stream, coordinate),) = candidate.known.items()
    if coordinate.expressions:
        return ", ".join(map(render, coordinate.expressions))
    return f"rows of {query.streams[stream].alias}"
