"""What passes go by."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.tree import Node, Plan


@dataclass(frozen=True, slots=True)
class Gating:
    """Where gates are put (JIT).

    Attributes:
        lattice: of how many components a part may be that a join finds no partner for.
        producers: the nodes whose joins are to be stopped; None: all.
        unchanging: streams to which nothing is added while it runs. Their tuples come one stream after the other, so
            what has no partner yet is not without one: their programs have no gates.
        searches: whether it is dear to complete a key, so that base windows are asked first whether it has any entry.

    """

    lattice: int = 1
    producers: Collection[Node] | None = None
    unchanging: Node = frozenset()
    searches: bool = False


@dataclass(frozen=True, slots=True)
class Setting:
    """The plan, and the policies that are asked for.

    Attributes:
        routed: an eddy picks the next probe of every tuple (CACQ, STAIRs).
        gating: joins tell those below them what nobody needs; None: they do not.
        budgeted: probes of new tuples are paid for.

    """

    plan: Plan
    graph: JoinGraph
    routed: bool = False
    gating: Gating | None = None
    budgeted: bool = False
