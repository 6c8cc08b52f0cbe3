"""The account out of which watching a join is paid: by a share of the join's own work, never by a clock."""

from __future__ import annotations


class Ledger:
    """Saves up to ``most``; what it holds in the beginning is on credit."""

    def __init__(self, held: float, most: float) -> None:
        self.held = held
        self._most = most

    def put(self, amount: float) -> None:
        self.held = min(self.held + amount, self._most)

    def give_back(self, most: float) -> None:
        """Keep so much; the rest was meant for something that is over."""
        self.held = min(self.held, most)

    def pay(self, price: float) -> None:
        self.held -= price
