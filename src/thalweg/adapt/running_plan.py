"""The plan that runs, with what follows from it: its programs, their order of probes, the prices of its work."""

from __future__ import annotations

from thalweg.adapt.prices import Prices
from thalweg.plan.compiler import compile_programs
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.plan_cost import programs_cost
from thalweg.plan.program import Programs, Rank
from thalweg.plan.search import rank
from thalweg.plan.statistics import Statistics
from thalweg.plan.tree import LinearPlan, Plan


class RunningPlan:
    """A plan that runs.

    Programs and prices take milliseconds where there are many streams, and many a batch comes and goes without a look.
    So each is made when it is first asked for.

    Attributes:
        plan: the plan.
        ranked_by: the statistics that it was compiled with.
        known_prices: its prices, once they have been asked for.

    """

    def __init__(self, plan: Plan, graph: JoinGraph, ranked_by: Statistics) -> None:
        self.plan = plan
        self.ranked_by = ranked_by
        self.known_prices: Prices | None = None
        self._graph = graph
        self._compiled: Programs | None = None

    @property
    def rank(self) -> Rank:
        """The order of probes that the plan was compiled with."""
        return rank(self._graph, self.ranked_by)

    @property
    def is_only_one(self) -> bool:
        """Whether no other plan could be better: a straight join looks into every window once, in whatever order."""
        return self._graph.streams < 3 or (self._graph.straight and isinstance(self.plan, LinearPlan))

    @property
    def prices(self) -> Prices:
        """What its work costs: as predicted last, or by the statistics that it was compiled with."""
        if self.known_prices is None:
            self.known_prices = Prices.of(programs_cost(self._programs, self._graph, self.ranked_by))
        return self.known_prices

    def predict(self, statistics: Statistics) -> float:
        """What a tuple costs, for streams like these; from now on, work is priced accordingly."""
        predicted = programs_cost(self._programs, self._graph, statistics)
        self.known_prices = Prices.of(predicted)
        return predicted.per_tuple

    @property
    def _programs(self) -> Programs:
        if self._compiled is None:
            self._compiled = compile_programs(self.plan, self._graph, self.rank)
        return self._compiled
