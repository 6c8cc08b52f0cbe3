"""An engine as somebody else sees it who chooses its gates, with ``production="auto"``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from thalweg.engine.feedback.gates import Gates
from thalweg.engine.join.programming import Manner
from thalweg.engine.observations import Counts, Glimpse
from thalweg.engine.rows.layout import StreamLayout
from thalweg.errors import ThalwegError
from thalweg.plan.program import Programs
from thalweg.plan.tree import Node, Plan

if TYPE_CHECKING:
    from thalweg.engine.join.engine import JoinEngine


class GateChoice:
    """See :class:`thalweg.engine.feedback.gates.Gated`."""

    def __init__(self, engine: JoinEngine, manner: Manner) -> None:
        self._engine = engine
        self._manner = manner

    @property
    def plan(self) -> Plan:
        return self._engine.plan

    @property
    def gates(self) -> Gates:
        return self._engine.programming.gates

    @property
    def may_choose(self) -> bool:
        """Programs that go straight or pass states over have no place for gates."""
        engine = self._engine
        return self._manner.weighs_feedback and not (engine.is_straight or engine.programming.passes_over)

    @property
    def counts(self) -> Counts:
        return self._engine.counts

    @property
    def tests(self) -> int:
        return self._engine.feedback.tests

    @property
    def programs(self) -> Programs:
        return self._engine.programming.programs

    @property
    def glimpse_layouts(self) -> Sequence[StreamLayout]:
        return self._engine.glimpse_layouts

    def all_held(self) -> int:
        return self._engine.windows.all_held()

    def idle(self) -> frozenset[Node]:
        bits = self._engine.states.idle()
        return frozenset(node for i, node in enumerate(self._engine.workspace.nodes) if bits >> i & 1)

    def share_within(self, nodes: tuple[Node, ...]) -> float:
        return self._engine.states.share_within(nodes)

    def glimpse(self, most: int) -> Glimpse:
        return self._engine.glimpse(most)

    def choose(self, gates: Gates) -> None:
        if not self.may_choose:
            raise ThalwegError(
                f"a join was to run with gates {gates}, and its programs can have no others now. Ask may_choose first."
            )
        self._engine.run_with(gates)
