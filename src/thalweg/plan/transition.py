"""Which states survive a change of plan (JISC, definition 1 and section 4.5).

A state is known by the streams it covers, whatever the shape of the tree below it. One
that the old plan kept and had complete is taken over; any other state of the new plan
starts incomplete, its keys absent, to be completed when something probes them; a state
that the new plan does not keep is discarded. Base windows are facts and always complete,
and so is the root: its results were handed out, and nothing ever probes it.

Intermediate set differences move in the same way (JISC 4.7).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from thalweg.errors import PlanError
from thalweg.plan.difference import AnyPlan, DifferencePlan
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.tree import Leaf, Node, Plan, Tree, TreePlan

Completeness = Literal["complete", "incomplete"]


@dataclass(frozen=True, slots=True)
class Transition:
    """What becomes of the states.

    Attributes:
        states: the states of the new plan, the root included.
        discarded: the states of the old plan that the new one does not keep.

    """

    states: dict[Node, Completeness]
    discarded: frozenset[Node]

    @property
    def complete(self) -> frozenset[Node]:
        return frozenset(node for node, status in self.states.items() if status == "complete")

    @property
    def incomplete(self) -> frozenset[Node]:
        """What a next transition needs to know of this one, less what was completed meanwhile."""
        return frozenset(node for node, status in self.states.items() if status == "incomplete")


def classify(old: AnyPlan, new: AnyPlan, incomplete: frozenset[Node] = frozenset()) -> Transition:
    """Classify the states of ``new`` when it replaces ``old``.

    ``incomplete``: the states of the old plan that are themselves still incomplete, from an
    earlier transition; they stay so (JISC 4.5).

    >>> from thalweg.plan.tree import parse_plan
    >>> old, new = (parse_plan(text, "RSTU").keeping_all() for text in ("((R S) T) U", "((S T) R) U"))
    >>> change = classify(old, new)
    >>> sorted(map(sorted, change.incomplete)), sorted(map(sorted, change.discarded))
    ([[1, 2]], [[0, 1]])
    """
    root = _root(old)
    if root != _root(new):
        raise PlanError(f"a plan of {len(_root(new))} streams cannot replace one of {len(root)}")
    had_complete = _kept(old) - incomplete
    states: dict[Node, Completeness] = {
        node: "complete" if node in had_complete else "incomplete"
        for node in sorted(_kept(new), key=lambda node: (len(node), sorted(node)))
    }
    states[root] = "complete"
    return Transition(states, _kept(old) - _kept(new))


def without_a_key(plan: Plan, graph: JoinGraph, complete: Collection[Node] = ()) -> frozenset[Node]:
    """The kept states that no equality connects with their sibling, and that only nested loops could complete.

    Such a state has a single key, so that to complete the key that is asked for is to compute all of it; and by nested
    loops, however deep below, that takes as long as many probes that do without it. ``complete``: those that are there.

    >>> from thalweg.plan.tree import parse_plan
    >>> graph = JoinGraph(4, classes=(frozenset({0, 1}),), thetas=(frozenset({1, 2}), frozenset({2, 3})))
    >>> plan = parse_plan("((A B) C) D", "ABCD").keeping_all()
    >>> sorted(map(sorted, without_a_key(plan, graph)))
    [[0, 1, 2]]
    """
    found: set[Node] = set()
    kept = _kept(plan)

    def walk(tree: Tree) -> tuple[Node, bool]:
        """Its node, and whether it takes nested loops to compute."""
        if isinstance(tree, Leaf):
            return tree.node, False
        sides = walk(tree.left), walk(tree.right)
        key = graph.connecting(sides[0][0], sides[1][0])
        if not key:
            found.update(node for node, loops in sides if loops and node in kept)
        node = sides[0][0] | sides[1][0]
        return node, node not in complete and (not key or any(loops for _, loops in sides))

    if isinstance(plan, TreePlan):
        walk(plan.tree)
    return frozenset(found)


def _kept(plan: AnyPlan) -> frozenset[Node]:
    if isinstance(plan, DifferencePlan):
        return frozenset(plan.intermediate)
    return plan.kept if isinstance(plan, TreePlan) else frozenset()


def _root(plan: AnyPlan) -> Node:
    if isinstance(plan, DifferencePlan):
        return frozenset(plan.streams)
    return plan.tree.node if isinstance(plan, TreePlan) else frozenset(range(len(plan.orders)))
