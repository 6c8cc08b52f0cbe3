"""The join graph: which streams are connected, and by what.

Equalities on one attribute class connect all of its members at once
(``A.k = B.k = C.k`` also connects A and C); thetas connect two streams.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from thalweg.cql.query import Query, RangeWindow
from thalweg.plan.tree import Node


@dataclass(frozen=True, slots=True)
class JoinGraph:
    """Streams, and what connects them.

    Attributes:
        streams: how many there are.
        classes: the members of each attribute class.
        thetas: the two streams of each theta predicate.
        straight: all streams meet by one key in RANGE windows, and nothing else is asked of them.

    """

    streams: int
    classes: tuple[Node, ...] = ()
    thetas: tuple[Node, ...] = ()
    straight: bool = False

    @staticmethod
    def of(query: Query) -> JoinGraph:
        classes = tuple(frozenset(c.members) for c in query.classes)
        thetas = tuple(frozenset((t.left.stream, t.right.stream)) for t in query.thetas)
        ranges = all(isinstance(ref.window, RangeWindow) for ref in query.streams)
        straight = ranges and not thetas and [len(members) for members in classes] == [len(query.streams)]
        return JoinGraph(len(query.streams), classes, thetas, straight)

    def carried(self, node: Node) -> frozenset[int]:
        """The attribute classes that some stream of ``node`` carries."""
        return frozenset(c for c, members in enumerate(self.classes) if members & node)

    def connecting(self, left: Node, right: Node) -> tuple[int, ...]:
        """The attribute classes that both sides carry: the key of their hash join."""
        return tuple(sorted(self.carried(left) & self.carried(right)))

    def thetas_completed(self, bound: Node, target: Node) -> tuple[int, ...]:
        """The thetas between ``bound`` and ``target``."""
        return tuple(i for i, ends in enumerate(self.thetas) if ends & bound and ends & target)

    def connected(self, left: Node, right: Node) -> bool:
        return bool(self.connecting(left, right) or self.thetas_completed(left, right))

    def neighbours(self, node: Node, among: Iterable[int]) -> list[int]:
        """The streams of ``among`` that a predicate connects with ``node``."""
        return [s for s in among if self.connected(node, frozenset((s,)))]
