"""What is saved for, and paid, of looks and searches, in common out of a ledger.

A search among all plans may take long to save for. So where plans may keep any states, a glance at those that keep none
comes first, unless there is enough for all. Only if that was in vain, all of them are saved for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thalweg.adapt.ledger import Ledger
from thalweg.adapt.prices import watching_price
from thalweg.plan.join_graph import JoinGraph
from thalweg.settings import States

_CLOSE = 1e-9
"""What is missing by this share of a price is there: what is left of a sum of floats may be a hair less than it was."""


class SearchFund:
    """Pays for looks and searches among plans that may keep ``states``."""

    def __init__(self, graph: JoinGraph, states: States, ledger: Ledger) -> None:
        self._states = states
        self._look, self._glance = watching_price("look", graph), watching_price("glance", graph)
        self._search = self._glance if states == "none" else watching_price("search", graph)
        self._ledger = ledger
        ledger.open(self._look, self._look + self._search)
        self._saving_for = 0.0
        self._has_glanced = states != "auto"

    def put(self, amount: float) -> None:
        """Save a share of the work that was done."""
        self._ledger.put(amount)

    @property
    def has_look(self) -> bool:
        """Whether there is enough for a look, and for the search that is saved for."""
        return self._holds(self._look + self._saving_for)

    def _holds(self, price: float) -> bool:
        return self._ledger.held >= price * (1 - _CLOSE)

    def pay_look(self) -> None:
        self._ledger.pay(self._look)

    @property
    def is_saving(self) -> bool:
        """Whether a search is due that cannot be paid yet."""
        return bool(self._saving_for)

    def stop_saving(self) -> None:
        """Nothing is due."""
        self._saving_for = 0.0

    @property
    def owes_search(self) -> bool:
        """Whether a glance at plans that keep no state was in vain, so that all of them are to be searched."""
        return self._has_glanced and self._states == "auto"

    def pay_search(self) -> States | None:
        """Pay for a search, and say which states its plans may keep; None: it has to be saved for."""
        is_glance = not (self._has_glanced or self._holds(self._search))
        price = self._glance if is_glance else self._search
        self._saving_for = 0.0 if self._holds(price) else price
        if self._saving_for:
            return None
        self._ledger.pay(price)
        return "none" if is_glance else self._states

    def searched(self, states: States, *, is_better: bool) -> None:
        """Take note of a search among plans with these states, and whether it has found a better one."""
        self._has_glanced = self._states != "auto" or (states == "none" and not is_better)

    def plan_changed(self) -> None:
        """Keep enough for a look. The rest was saved for a comparison that is over."""
        self._ledger.give_back(self._look)

    def to_json(self) -> dict[str, Any]:
        return {"ledger": self._ledger.held, "saving_for": self._saving_for, "glanced": self._has_glanced}

    def restore(self, known: Mapping[str, Any]) -> None:
        """Be what another fund of the same query was."""
        self._ledger.held, self._saving_for, self._has_glanced = known["ledger"], known["saving_for"], known["glanced"]
