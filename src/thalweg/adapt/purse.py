"""What watching a join may cost: it is paid for by a share of the join's own work, never by a clock."""

from __future__ import annotations

from thalweg.plan.join_graph import JoinGraph


class Purse:
    """Saves up for one kind of expense; the first one is on credit, and there is never more than two in it."""

    def __init__(self, price: float) -> None:
        self.price = price
        self.held = price

    def put(self, amount: float) -> None:
        self.held = min(self.held + amount, 2 * self.price)

    @property
    def suffices(self) -> bool:
        return self.held >= self.price

    def pay(self) -> None:
        self.held -= self.price


def look_price(graph: JoinGraph) -> float:
    """Nanoseconds that a look takes, about: samples are drawn per window and compared pair by pair."""
    n = graph.streams
    pairs = sum(len(members) * (len(members) + 1) // 2 for members in graph.classes)
    return 1e3 * (100 + 40 * n + 50 * pairs + 150 * len(graph.thetas) + 12 * n * (n - 1))


def search_price(graph: JoinGraph) -> float:
    """Nanoseconds that a search takes, about, by the number of streams (:mod:`thalweg.plan.search`)."""
    n = graph.streams
    return 1e6 * (n**2 if n < 5 else 20 * n**2)
