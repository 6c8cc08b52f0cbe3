"""The partitioning of a query: the axes that it allows, with the best shares."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from thalweg.cql.query import Query
from thalweg.errors import OptionError, PlanError
from thalweg.plan.partitioning.axes import Candidate, allowed_axes, obstacle, torn_apart
from thalweg.plan.partitioning.grid import BY_ROW, TO_ALL, Axis, Kind, Partitioning
from thalweg.plan.partitioning.shares import Floats, best_shares
from thalweg.plan.partitioning.wording import reason

MOST_BUCKETS = 4_096
"""Each bucket has an engine and a log of its own: far more than any cluster has cores would only cost."""


def choose_partitioning(query: Query, buckets: int, rates: Sequence[float] | None = None) -> Partitioning:
    """Spread a query over at most ``buckets`` buckets.

    ``rates`` are the streams' relative ones; None: equal, and nothing for static relations, which are copied once.
    """
    if not 1 <= buckets <= MOST_BUCKETS:
        raise OptionError(f"buckets is {buckets}. Use a whole number from 1 to {MOST_BUCKETS}.")
    weights = _weights(query, rates)
    why = "one bucket was asked for" if buckets == 1 else obstacle(query)
    if why is not None:
        return _single(query, why)
    candidates = allowed_axes(query)
    if not candidates:
        return _single(query, torn_apart(query))
    knows = np.array([[s in c.known for s in range(len(query.streams))] for c in candidates])
    shares = best_shares(knows, weights, buckets)
    used = [(c, share) for c, share in zip(candidates, shares, strict=True) if share > 1]
    if not used:
        return _single(query, "copying streams into several buckets would cost more than it saves")
    axes = tuple(Axis(share, c.classes, c.stream) for c, share in used)
    kind = _kind(query, [candidate for candidate, _ in used])
    return Partitioning(
        kind,
        math.prod(axis.share for axis in axes),
        reason(query, kind, axes, [c for c, _ in used]),
        axes,
        tuple(tuple(c.known.get(s, TO_ALL) for c, _ in used) for s in range(len(query.streams))),
    )


def _kind(query: Query, axes: Sequence[Candidate]) -> Kind:
    if len(axes) == 1 and all(s in axes[0].known or stream.is_static for s, stream in enumerate(query.streams)):
        return "grid" if BY_ROW in axes[0].known.values() else "key"
    return "hypercube" if any(axis.classes for axis in axes) else "grid"


def _weights(query: Query, rates: Sequence[float] | None) -> Floats:
    assumed = [0.0 if stream.is_static else 1.0 for stream in query.streams]
    weights = np.asarray(assumed if rates is None else rates, np.float64)
    if weights.shape != (len(query.streams),) or not np.isfinite(weights).all() or (weights < 0).any():
        what = f"rates are {weights.tolist()}, which is not one number from 0 for each of {', '.join(query.aliases)}"
        raise PlanError(f"{what}. Give one per stream, in the order of FROM.")
    return weights if weights.any() else np.ones(len(query.streams))


def _single(query: Query, reason: str) -> Partitioning:
    return Partitioning("single", 1, reason, (), ((),) * len(query.streams))
