"""Which joins give feedback, and what whoever decides about that may ask of an engine.

With ``production="auto"`` an engine pushes until somebody tells it otherwise (:mod:`thalweg.adapt.production`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from thalweg.engine.observations import Counts, Glimpse
from thalweg.engine.rows.layout import StreamLayout
from thalweg.plan.program import Programs
from thalweg.plan.tree import Node, Plan


@dataclass(frozen=True, slots=True)
class Gates:
    """Where programs have gates.

    Attributes:
        everywhere: all joins ask for parts that somebody needs.
        sleepers: if not, the producers that stop while their siblings have nothing.

    """

    everywhere: bool = False
    sleepers: tuple[Node, ...] = ()


NO_GATES = Gates()


class Gated(Protocol):
    """An engine whose gates somebody else chooses, between two stretches of tuples."""

    @property
    def plan(self) -> Plan:
        """The plan that runs."""

    @property
    def gates(self) -> Gates:
        """Those that its programs have now; a change of plan takes them away."""

    @property
    def may_choose(self) -> bool:
        """Whether gates could be of use now, and be changed."""

    @property
    def counts(self) -> Counts:
        """The work that was done so far."""

    @property
    def tests(self) -> int:
        """How often a partner was looked for under the programs that run."""

    @property
    def programs(self) -> Programs:
        """Those of the plan as they are without gates."""

    @property
    def glimpse_layouts(self) -> Sequence[StreamLayout]:
        """How the tuples of each stream look in a glimpse."""

    def all_held(self) -> int:
        """How many tuples all windows hold together."""

    def idle(self) -> frozenset[Node]:
        """The kept states that are complete and have no entry."""

    def share_within(self, nodes: tuple[Node, ...]) -> float:
        """Of the entries in all states, the share of those within some nodes."""

    def glimpse(self, most: int) -> Glimpse:
        """A look at up to so many tuples of every window."""

    def choose(self, gates: Gates) -> None:
        """Run programs with these gates from the next tuple on; the answer stays what it is."""
