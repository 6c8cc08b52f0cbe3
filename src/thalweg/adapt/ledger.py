"""The account out of which watching a join is paid: by shares of the join's own work, never by a clock.

Looks and searches are paid from what is held in common. For other things a share of its own is set aside, up to their
price, and they are paid from that alone. So whatever is watched for, it cannot cost more than the shares that were put
in for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Purpose = Literal["promise", "gates", "chain"]
"""What is saved for alone: see :data:`thalweg.adapt.prices.Watching`."""


class Ledger:
    """Saves up to ``most`` in common; what it holds in the beginning is on credit."""

    def __init__(self, held: float = 0.0, most: float = 0.0) -> None:
        self._aside: dict[str, float] = {}
        self.open(held, most)

    def open(self, held: float, most: float) -> None:
        """Begin anew with what is held in common; what was set aside stays."""
        self.held = held
        self._most = most

    def put(self, amount: float) -> None:
        self.held = min(self.held + amount, self._most)

    def give_back(self, most: float) -> None:
        """Keep so much; the rest was meant for something that is over."""
        self.held = min(self.held, most)

    def set_aside(self, purpose: Purpose, amount: float, most: float) -> None:
        """Save for one thing alone, up to its price."""
        self._aside[purpose] = min(self.aside(purpose) + amount, most)

    def aside(self, purpose: Purpose) -> float:
        """What is there for one thing alone; less than nothing: something was paid in advance."""
        return self._aside.get(purpose, 0.0)

    def pay(self, price: float, purpose: Purpose | None = None) -> None:
        """Out of what was set aside for a purpose; without one, out of what is held in common."""
        if purpose is None:
            self.held -= price
        else:
            self._aside[purpose] = self.aside(purpose) - price

    def aside_to_json(self) -> dict[str, float]:
        """What was set aside."""
        return dict(self._aside)

    def restore_aside(self, known: Mapping[str, float]) -> None:
        """Have as much set aside as another ledger had."""
        self._aside = dict(known)
