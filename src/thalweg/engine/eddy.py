"""Eddies: engines that decide after every hop where a tuple goes next (CACQ and STAIRs; JISC 3.1, 3.2, 4.6).

They are rivals of the pipeline and its lazy migration, and share everything with it but that decision: windows,
states, completion and memory are those of :class:`~thalweg.engine.join.JoinEngine`, in the same kernel.

=============== ============================ =====================================================
policy          what is kept                 a change of plan
=============== ============================ =====================================================
``cacq``        windows alone (SteMs)        changes what the eddy prefers, and nothing else
``stairs``      the states of the plan       demotes the states that only the old plan had (drops
                (STAIRs)                     them), and promotes those that only the new one has
                                             (completes all their keys) before the next tuple
``stairs_jisc`` the same                     promotes a key when it is first probed
=============== ============================ =====================================================

With feedback (JIT V), the windows of ``cacq`` tell the eddy what has no partner in them, and that goes nowhere. The
others keep their states whole, and push.

An eddy follows the plan until it has seen what its modules cost; a change of plan starts that anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

import numpy as np

from thalweg.cql.query import Query
from thalweg.engine.assembly import Assembly
from thalweg.engine.join import Completion, JoinEngine
from thalweg.engine.kernels import eddy as k
from thalweg.engine.kernels.join import G_FIRST
from thalweg.errors import PlanError
from thalweg.options import Feedback, Production
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.program import Program, Programs, Rank, Step
from thalweg.plan.routes import Routes, compile_routes
from thalweg.plan.tree import Node, Plan, TreePlan

Policy = Literal["cacq", "stairs", "stairs_jisc"]
_SEED = 1
"""Where the random numbers of every eddy begin, so that runs repeat."""
_PATIENCE = 1024
"""Tuples between two judgements of the modules: rare enough to cost nothing."""
_ENOUGH = 16
"""Probes that a judgement takes: fewer say nothing."""
_ADVENTURE = 64
"""One hop in so many (a power of two) does not follow the order of preference."""


class EddyEngine(JoinEngine):
    """A join engine whose tuples are routed by an eddy, beginning with the order of its plan."""

    __image__: ClassVar = ("_eddy",)
    _may_gather = False  # a state is promoted as a whole or not at all

    def __init__(
        self,
        query: Query,
        plan: Plan,
        rank: Rank | None = None,
        *,
        policy: Policy,
        timed: bool = True,
        production: Production | Feedback = "push",
    ) -> None:
        for what, count in (("streams", len(query.streams)), ("different join keys", len(query.classes))):
            if count > k.BITS:
                raise PlanError(
                    f"query '{query.name}' has {count} {what}; an eddy routes at most {k.BITS}. "
                    f"Use another migration policy than '{policy}'."
                )
        self.policy = policy
        feedback = Feedback.of(production)
        if policy != "cacq" or feedback is None or feedback.when == "auto":
            production = "push"
        completion: Completion = "moving_state" if policy == "stairs" else "jisc"
        super().__init__(query, plan, rank, timed=timed, completion=completion, production=production)

    def transition(self, plan: Plan, rank: Rank | None = None) -> None:
        """Let the eddy begin anew with the order and the states of another plan."""
        if self.policy == "cacq" and isinstance(plan, TreePlan):
            plan = plan.keeping_none()
        super().transition(plan, rank)
        self._eddy = _eddy(self._routes, self._assembly, self.graph)

    def _compile(self, plan: Plan, rank: Rank | None, unprobed: frozenset[Node]) -> Programs:  # noqa: ARG002 - none is
        self._routes = compile_routes(plan, self.graph, rank, fills=self.policy == "stairs")
        return self._routes.programs


def _eddy(routes: Routes, assembly: Assembly, graph: JoinGraph) -> k.Eddy:
    """The tables of an eddy that has seen nothing yet."""
    heads = routes.programs.heads
    steps = max(1, sum(len(program.steps) for program in heads))
    modules = np.zeros((steps, k.MODULE_FIELDS), np.int64)
    spans = np.zeros((len(heads), k.HEAD_FIELDS), np.int64)
    climbs = np.zeros((len(heads), len(heads), k.LEVEL_FIELDS), np.int64)
    for stream, (program, climb) in enumerate(zip(heads, routes.climbs, strict=True)):
        first = int(assembly.programs[stream, G_FIRST])
        spans[stream] = _bits(graph.carried(program.head)), first, len(program.steps)
        if program.steps:
            modules[first : first + len(program.steps)] = _modules(program, first, graph)
        levels = [(_bits(node), assembly.nodes.index(node)) for node in climb]
        climbs[stream, : len(levels) + 1] = [*levels, (_bits(range(graph.streams)), -1)]
    return k.Eddy(
        modules=modules,
        heads=spans,
        climbs=climbs,
        order=np.arange(steps),
        seen=np.zeros((steps, k.SEEN_FIELDS), np.int64),
        price=np.full(steps, np.inf),
        hops=np.zeros((len(heads) + 1, k.HOP_FIELDS), np.int64),
        temper=np.array([_SEED, _PATIENCE, _PATIENCE, _ENOUGH, _ADVENTURE - 1]),
    )


def _modules(program: Program, first: int, graph: JoinGraph) -> list[list[int]]:
    states = {step.target: first + i for i, step in enumerate(program.steps) if len(step.target) > 1}

    def around(step: Step) -> int:
        larger = [node for node in states if step.target < node]
        return states[min(larger, key=len)] if larger else -1

    return [
        [
            _bits(step.target),
            _bits(step.key),
            _bits(graph.carried(step.target)),
            _bits(stream for theta in step.thetas for stream in graph.thetas[theta] - step.target),
            int(len(step.target) == 1 and not step.key),
            around(step),
        ]
        for step in program.steps
    ]


def _bits(numbers: Iterable[int]) -> int:
    return sum(1 << number for number in set(numbers))
