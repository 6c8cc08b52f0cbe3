"""Which lineages the tuples of windows have, and what another chain of slices for them would save (State-Slice 5.3)."""

from __future__ import annotations

import numpy as np

from thalweg.cql.group import Group
from thalweg.engine.windows.base_windows import BaseWindows
from thalweg.plan.slices import Shared, chain_cost, share

LineageShares = tuple[tuple[float, ...], ...]
"""For each stream, which share of its tuples has each lineage."""
_SAMPLE = 1 << 9
"""Tuples of each slice that are looked at for their lineage."""


def lineage_shares(shared: Shared, windows: BaseWindows | None) -> LineageShares:
    """From a sample of windows; None: nothing is known of them, so lineages are alike."""
    shares = []
    for stream, reach in enumerate(shared.slicing.reach):
        spans = shared.lineages(stream)
        found = np.zeros(len(spans))
        if windows is not None:
            masks, weights = windows.lineage_masks(stream, _SAMPLE)
            places = np.zeros(len(masks), np.int64)
            for place, span in enumerate(spans[1:], 1):
                bits = sum(1 << bit for bit, each in enumerate(reach) if each == span)
                places[masks & bits != 0] = place
            found += np.bincount(places, weights, len(spans))
        shares.append(tuple((found / found.sum()).tolist() if found.sum() else [1 / len(spans)] * len(spans)))
    return tuple(shares)


def chain_gain(group: Group, shared: Shared, shares: LineageShares, *, is_keyed: bool) -> float:
    """The share of what probes cost that the best chain for such lineages would save."""
    best = share(group, "auto", shares, is_keyed=is_keyed).slicing
    costs = []
    for slicing in (shared.slicing, best):
        spans = map(shared.lineages, range(len(shares)))
        chains = zip(slicing.ends, spans, shares, strict=True)
        costs.append(sum(chain_cost(*each, is_keyed=is_keyed) for each in chains))
    return 1 - costs[1] / costs[0]
