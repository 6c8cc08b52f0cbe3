"""What watching a join may cost: it is paid for by a share of the join's own work, never by a clock.

Prices were measured in running joins of 3 to 20 streams, where kernels leave little of Python in the caches.
"""

from __future__ import annotations

from thalweg.plan.join_graph import JoinGraph


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


def look_price(graph: JoinGraph) -> float:
    """Nanoseconds of a look: samples are drawn and compared pair by pair, and the running programs costed by step."""
    n = graph.streams
    pairs = sum(len(members) * (len(members) + 1) // 2 for members in graph.classes)
    return 1e3 * (300 + 150 * n + 80 * pairs + 300 * len(graph.thetas) + 20.0 * n**2)


def glance_price(graph: JoinGraph) -> float:
    """Nanoseconds of a search among plans that keep no state, and for costing some others."""
    n = graph.streams
    return 1e6 * (0.03 * 2.0 ** min(n, 12) + 0.1 * n**2)


def search_price(graph: JoinGraph) -> float:
    """Nanoseconds of a search: for the plan, and for costing some others.

    Up to eight streams, plans are searched with all choices of states in mind (:mod:`thalweg.plan.search`).
    """
    n = graph.streams
    return 1e6 * (0.4 * 2.0 ** min(n, 8) + 0.05 * n**3)
