"""When another chain of slices pays: slices are split and merged while a join runs (State-Slice 5.3).

Design
    Which chain costs least depends on how many tuples have which lineage. That is sampled from the masks of tuples in
    the windows. What the best chain would have saved of the work since the last change is set aside. Once that would
    have paid for the change, it is made: so it never costs more than it would have saved by then.

Invariant
    Decisions depend on the input alone, never on a clock. The answer does not depend on them at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import sub
from typing import Any

from thalweg.adapt.ledger import Ledger
from thalweg.adapt.monitor import NO_WORK
from thalweg.adapt.prices import Prices, chain_price
from thalweg.engine.bucket import Bucket
from thalweg.engine.observations import Counts

PERIOD = 1 << 16
"""Tuples between two looks, at least; and at least as many as the windows hold."""
_LEAST = 0.05
"""The share of the cost of probes that a change must promise to save: less than that is in the noise of the model."""
_PRICES = Prices.standard()


class ChainDecider:
    """Decides about the chain of slices of one bucket.

    Attributes:
        changes: how often it has changed it.

    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._last: Counts = NO_WORK
        self.changes = 0

    def begin_with(self, join: Bucket) -> None:
        """The windows were filled anew: what that took is not what the chain costs."""
        self._last = join.counts

    def consider(self, join: Bucket) -> bool:
        """Look at the join, if it is time to; says whether its chain has changed."""
        if not join.may_choose_chain:
            return False
        counts = join.counts
        held = sum(size.tuples for size in join.sizes() if len(size.node) == 1) if self._is_due(counts) else 0
        if counts[0] - self._last[0] < max(PERIOD, held):
            return False
        total = _PRICES.total(tuple(map(sub, counts, self._last)))
        self._last = counts
        shares = join.lineage_shares()
        gain, price = join.chain_gain(shares), chain_price(held)
        if gain < _LEAST:
            return False
        self._ledger.set_aside("chain", gain * total, price)
        if self._ledger.aside("chain") < price:
            return False
        self._ledger.pay(price, "chain")
        join.choose_chain(shares)
        self.changes += 1
        self._last = join.counts
        return True

    def _is_due(self, counts: Counts) -> bool:
        return counts[0] - self._last[0] >= PERIOD

    def to_json(self) -> dict[str, Any]:
        return {"last": self._last, "changes": self.changes}

    def restore(self, known: Mapping[str, Any]) -> None:
        """Go on where :meth:`to_json` was."""
        self._last, self.changes = tuple(known["last"]), known["changes"]
