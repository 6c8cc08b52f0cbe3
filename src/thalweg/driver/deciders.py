"""Those who decide about a bucket while it runs, and out of what they are paid.

A controller changes the plan. Another decider chooses the gates of its programs. A third splits and merges the slices
of windows. Each is there only if the policies leave something to decide. All are paid out of one ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thalweg.adapt.batch_view import Watched
from thalweg.adapt.chains import ChainDecider
from thalweg.adapt.controller import Controller
from thalweg.adapt.ledger import Ledger
from thalweg.adapt.production import ProductionDecider
from thalweg.cql.query import Query
from thalweg.engine.bucket import Bucket
from thalweg.plan.difference import AnyPlan, DifferencePlan
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.statistics import Statistics
from thalweg.policies import Policies


class Deciders:
    """Who decides about one bucket.

    Attributes:
        controller: who adapts the plan; None: nobody.
        production: who decides which gates its programs have; None: nobody.
        chains: who decides how windows are sliced.

    """

    def __init__(self, query: Query, policies: Policies) -> None:
        self._policies = policies
        self._ledger = Ledger()
        self.controller: Controller | None = None
        feedback = policies.feedback
        weighs_feedback = query.kind == "join" and feedback is not None and feedback.when == "auto"
        self.production = ProductionDecider(JoinGraph.of(query), self._ledger) if weighs_feedback else None
        self.chains = ChainDecider(self._ledger)

    # -- The plan -----------------------------------------------------------------------

    def watch(
        self, query: Query, plan: AnyPlan | None, statistics: Statistics, *, chosen: bool, held: bool = False
    ) -> Controller | None:
        """Let a plan be adapted from now on, if plans adapt; who does so, for whom there are no former decisions.

        ``chosen``: the planner chose it for these statistics. ``held``: it stays until it is released.
        """
        states, settings = self._policies.states, self._policies.adaptive
        if plan is not None and settings is not None and not isinstance(plan, DifferencePlan):
            self.controller = Controller(
                query, plan, statistics, states, settings, chosen=chosen, held=held, ledger=self._ledger
            )
        return self.controller

    def watch_again(self, query: Query, plan: AnyPlan | None, known: Mapping[str, Any] | None) -> None:
        """Let a plan be adapted by a controller that knows what another one did; None: there was none."""
        states, settings = self._policies.states, self._policies.adaptive
        if known is not None and plan is not None and settings is not None and not isinstance(plan, DifferencePlan):
            self.controller = Controller.from_json(query, plan, states, settings, known, self._ledger)

    def go_on(
        self, query: Query, plan: AnyPlan | None, statistics: Statistics, watched: Watched, *, held: bool
    ) -> None:
        """The windows were filled anew while a plan was watched: look anew. What was decided stays known."""
        former = self.controller
        if former is not None:
            now = self.watch(query, plan, statistics, chosen=not held, held=held)
            if now is not None and now is not former:
                now.begin_with(watched, former)

    # -- The gates ----------------------------------------------------------------------

    def consider_gates(self, join: Bucket | None) -> None:
        """Let gates be decided about."""
        if self.production is not None and join is not None:
            self.production.consider(join.gated)

    def gates_are_gone(self, join: Bucket | None) -> None:
        """The programs are others, and have no gates that anybody has chosen."""
        if self.production is not None and join is not None:
            self.production.plan_changed(join.gated)

    def begin_with_gates(self, join: Bucket) -> None:
        """The windows were filled anew: what that took is not what gates cost."""
        if self.production is not None:
            self.production.begin_with(join.gated)

    # -- What is remembered -------------------------------------------------------------

    def to_json(self, *, controller: bool) -> dict[str, Any]:
        """What they have learned; ``controller``: what of that the one has who adapts the plan, too."""
        return {
            "controller": self.controller.to_json() if controller and self.controller is not None else None,
            "production": None if self.production is None else self.production.to_json(),
            "chains": self.chains.to_json(),
        }

    def restore(self, known: Mapping[str, Any]) -> None:
        """Know what others had learned about gates and slices."""
        if self.production is not None:
            self.production.restore(known["production"])
        self.chains.restore(known["chains"])
