"""From a plan to the tables that the machine runs, under the policies of one engine.

A plan is compiled to programs (:mod:`thalweg.plan.program`), each pass changes them for its policy
(:mod:`thalweg.plan.passes`), and the result is laid out as numbers (:mod:`thalweg.engine.programs.assembly`). Policies
last as long as the engine. Plan, order of probes and gates change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from thalweg.cql.query import Query
from thalweg.engine.feedback.gates import NO_GATES, Gates
from thalweg.engine.machine.workspace import Workspace
from thalweg.engine.programs.assembly import Assembly, assemble
from thalweg.plan.compiler import compile_programs
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.passes import Gating, Setting, apply_passes, payable
from thalweg.plan.program import Programs, Rank
from thalweg.plan.tree import Node, Plan, TreePlan
from thalweg.policies import Policies
from thalweg.settings import Feedback

Filling = Literal["jisc", "jisc_printed", "moving_state"]
"""How the states of a new plan get the entries that they lack: when a probe asks for their key, likewise but by JISC's
procedure 1 as printed, or all at once."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How an engine has its plans made into programs: what it makes of its policies.

    Attributes:
        filling: how states of a new plan get the entries that they lack.
        feedback: whether joins tell those below them what nobody needs (:mod:`thalweg.plan.demand`); None: they do not.
        nested_loops: probes compare with everything in their window or state.
        routed: an eddy picks the next probe of every tuple (:mod:`thalweg.engine.machine.eddy`).
        budgeted: probes are paid from accounts (:mod:`thalweg.engine.machine.accounts`).
        stateless: plans keep no states.
        unchanging: the streams to which nothing is added.

    """

    filling: Filling = "jisc"
    feedback: Feedback | None = None
    nested_loops: bool = False
    routed: bool = False
    budgeted: bool = False
    stateless: bool = False
    unchanging: Node = frozenset()

    @staticmethod
    def of(query: Query, policies: Policies, *, as_printed: bool = False) -> Manner:
        """That of an engine for a query; ``as_printed``: keys are completed as in JISC's printed procedure."""
        migration, feedback = policies.migration, policies.feedback
        filling: Filling = "moving_state" if migration in ("moving_state", "stairs") else "jisc"
        if policies.is_eddy and feedback is not None and feedback.when == "auto":
            feedback = None  # an eddy's programs have no gates to choose
        return Manner(
            "jisc_printed" if as_printed else filling,
            feedback,
            nested_loops=policies.nested_loops and not policies.is_eddy,  # whose modules are looked up by keys
            routed=policies.is_eddy,
            budgeted=policies.budget is not None,
            stateless=migration == "cacq",
            unchanging=frozenset(stream for stream, ref in enumerate(query.streams) if ref.is_static),
        )

    @property
    def weighs_feedback(self) -> bool:
        """Whether somebody else chooses the gates (:mod:`thalweg.engine.feedback.gates`)."""
        return self.feedback is not None and self.feedback.when == "auto"

    @property
    def computes_whole_states(self) -> bool:
        """Whether a state may be computed at once, so that there must be programs for it."""
        return self.filling == "moving_state" or self.weighs_feedback

    def suited(self, plan: Plan, graph: JoinGraph) -> Plan:
        """A plan as it can be run."""
        if self.stateless and isinstance(plan, TreePlan):
            return plan.keeping_none()
        return payable(plan, graph) if self.budgeted else plan

    def gating(self, gates: Gates) -> Gating | None:
        """Where programs have gates; None: nowhere."""
        feedback = self.feedback
        if feedback is None or (self.weighs_feedback and gates == NO_GATES):
            return None
        if self.weighs_feedback and not gates.everywhere:
            return Gating(0, gates.sleepers, self.unchanging, self.nested_loops)
        return Gating(feedback.lattice, None, self.unchanging, self.nested_loops)


class Programming:
    """The plan that runs, and its programs.

    Attributes:
        plan: the one that runs.
        rank: the order of its probes, where it leaves that open.
        gates: those that somebody chose; a change of plan takes them away.
        running: the programs that were laid out last, with everything that passes put in.
        passes_over: whether they pass states over; then ``goal`` is what is to follow.

    """

    __image__: ClassVar = ("plan", "gates", "goal")
    plan: Plan
    running: Programs

    def __init__(self, workspace: Workspace, manner: Manner) -> None:
        self._workspace = workspace
        self._manner = manner
        self.rank: Rank | None = None
        self.gates = NO_GATES
        self.passes_over = False
        self._goal: Assembly | None = None
        self._compiled: tuple[Plan, Rank | None, frozenset[Node], Programs] | None = None

    def change(self, plan: Plan, rank: Rank | None, unprobed: frozenset[Node]) -> Assembly:
        """Go on with another plan, as a table of programs that pass some of its states over."""
        self.gates = NO_GATES
        assembly = self._assembled(plan, rank, unprobed)
        self.plan, self.rank = plan, rank
        self._goal, self.passes_over = None, bool(unprobed)
        return assembly

    def choose(self, gates: Gates) -> Assembly:
        """The same plan with other gates."""
        self.gates = gates
        return self._assembled(self.plan, self.rank, frozenset())

    @property
    def programs(self) -> Programs:
        """Those of the plan as they are before any pass."""
        return self._programs_of(self.plan, self.rank, frozenset())

    @property
    def goal(self) -> Assembly | None:
        """While states are passed over, the programs that will probe all of them.

        They are part of an image, since the same plan can be compiled in more than one way.
        """
        if self.passes_over and self._goal is None:
            self._goal = self._assembled(self.plan, self.rank, frozenset())
        return self._goal

    @goal.setter
    def goal(self, assembly: Assembly | None) -> None:
        self._goal, self.passes_over = assembly, assembly is not None

    def _programs_of(self, plan: Plan, rank: Rank | None, unprobed: frozenset[Node]) -> Programs:
        if self._compiled is None or self._compiled[:3] != (plan, rank, unprobed):
            manner = self._manner
            programs = compile_programs(
                plan,
                self._workspace.graph,
                rank,
                fills=manner.computes_whole_states,
                unprobed=unprobed,
                nested_loops=manner.nested_loops,
            )
            self._compiled = plan, rank, unprobed, programs
        return self._compiled[3]

    def _assembled(self, plan: Plan, rank: Rank | None, unprobed: frozenset[Node]) -> Assembly:
        manner, workspace = self._manner, self._workspace
        setting = Setting(plan, workspace.graph, manner.routed, manner.gating(self.gates), manner.budgeted)
        self.running = apply_passes(self._programs_of(plan, rank, unprobed), setting)
        filter_bits = None if manner.feedback is None else manner.feedback.filter_bits
        return assemble(self.running, workspace.layouts, filter_bits=filter_bits, unchanging=manner.unchanging)
