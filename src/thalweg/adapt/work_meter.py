"""The work that a bucket has done, and whether its tuples cost more than usual."""

from __future__ import annotations

from collections.abc import Mapping
from operator import sub
from typing import Any

from thalweg.adapt.monitor import NO_WORK
from thalweg.adapt.prices import Prices
from thalweg.engine.observations import Counts
from thalweg.settings import Adaptivity

_ALARM = 0.2
"""The share of a join's excess cost that is entered in the ledger."""
_SHOCK = 2.0
"""Times the usual cost at which nothing that was seen before counts any more."""


class WorkMeter:
    """Counts the work of one bucket.

    Attributes:
        position: tuples processed so far.
        usual: what a tuple usually costs under the running plan, in nanoseconds; None: not known yet.
        is_alarmed: whether what was counted last cost far more than that.

    """

    def __init__(self) -> None:
        self._seen = self._looked = NO_WORK
        self.position = 0
        self.usual: float | None = None
        self.is_alarmed = False

    def begin_with(self, work: Counts) -> None:
        """What was counted by now is nobody's."""
        self._seen = self._looked = work

    def plan_changed(self) -> None:
        """What the former plan usually cost says nothing about the new one."""
        self.usual = None
        self.is_alarmed = False

    def count(self, work: Counts, prices: Prices, settings: Adaptivity) -> float:
        """What is to be put into the ledger: a share of the work done since the last call.

        A larger share of what it cost more than usual: that is lost already, and the sooner plans are compared the less
        will be.
        """
        done = _less(work, self._seen)
        self._seen = work
        self.position += done[0]
        spent = prices.total(done)
        due = settings.overhead * spent
        self.is_alarmed = False
        if self.usual is not None:
            usual = self.usual * done[0]
            due += _ALARM * max(0.0, spent - (1 + settings.deviation) * usual)
            self.is_alarmed = spent > max(_SHOCK, 1 + settings.deviation) * usual
        return due

    def look(self) -> Counts:
        """The work since the last call."""
        unlooked, self._looked = self._unlooked, self._seen
        return unlooked

    @property
    def _unlooked(self) -> Counts:
        return _less(self._seen, self._looked)

    def to_json(self) -> dict[str, Any]:
        return {
            "seen": self._seen,
            "unlooked": self._unlooked,
            "position": self.position,
            "usual": self.usual,
            "alarmed": self.is_alarmed,
        }

    def restore(self, known: Mapping[str, Any]) -> None:
        """Be what another meter was."""
        self._seen = tuple(known["seen"])
        self._looked = _less(self._seen, tuple(known["unlooked"]))
        self.position = known["position"]
        self.usual, self.is_alarmed = known["usual"], known["alarmed"]


def _less(work: Counts, earlier: Counts) -> Counts:
    """The work since an earlier count."""
    return tuple(map(sub, work, earlier))
