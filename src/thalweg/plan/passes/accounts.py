"""Accounts: probes that a budget may refuse (JAQPOT 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from thalweg.errors import PlanError
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.passes.setting import Setting
from thalweg.plan.program import Gap, Instruction, Pay, Probe, Program, Programs, Store
from thalweg.plan.tree import Join, Node, Plan, Tree, TreePlan


def open_accounts(programs: Programs, setting: Setting) -> Programs:
    """Let every probe of a new tuple be paid for.

    Inserts, completions and what gates look for are never refused. A probe that is refused leaves gaps in the states
    that would have stored what it leads to, as a closed gate does. So whoever probes such a state finds all there is.

    >>> from thalweg.plan.compiler import compile_programs
    >>> from thalweg.plan.join_graph import JoinGraph
    >>> from thalweg.plan.tree import parse_plan
    >>> graph = JoinGraph(3, classes=(frozenset({0, 1, 2}),))
    >>> plan = parse_plan("(A B) C", "ABC").keeping_all()
    >>> programs = open_accounts(compile_programs(plan, graph), Setting(plan, graph, budgeted=True))
    >>> [type(each).__name__ for each in programs.heads[0].instructions]
    ['Pay', 'Probe', 'Store', 'Pay', 'Probe', 'Emit']
    >>> [[sorted(state) for state, _ in each.gaps] for each in programs.heads[0].instructions if isinstance(each, Pay)]
    [[[0, 1]], []]
    """
    if not setting.budgeted:
        return programs
    if any(head.unordered for head in programs.heads):
        raise PlanError("a plan runs under a budget, and leaves the order of probes to an eddy")
    heads = tuple(_paying(head, programs, setting.graph) for head in programs.heads)
    return replace(programs, heads=heads)


def _paying(program: Program, programs: Programs, graph: JoinGraph) -> Program:
    instructions: list[Instruction] = []
    account, bound = 0, program.head
    for place, each in enumerate(program.instructions):
        if isinstance(each, Probe):
            instructions.append(Pay(account, _gaps(program.instructions[place:], programs, graph.carried(bound))))
            account += 1
            bound |= each.target
        instructions.append(each)
    return replace(program, instructions=tuple(instructions))


def _gaps(instructions: Sequence[Instruction], programs: Programs, known: frozenset[int]) -> tuple[Gap, ...]:
    """What is missing if these instructions are not done, told by the classes that are known."""
    states = [each.state for each in instructions if isinstance(each, Store)]
    return tuple((state, tuple(c for c in programs.keys[state] if c in known)) for state in states)


def payable(plan: Plan, graph: JoinGraph) -> Plan:
    """The plan with those of its states that a refused probe leaves a small gap in.

    A state is kept if every stream below it carries a part of its key. Then each refused probe says for which values
    something is missing. Else all of the state would have to be computed again.

    >>> from thalweg.plan.tree import parse_plan
    >>> graph = JoinGraph(4, classes=(frozenset({0, 1, 2}), frozenset({2, 3})))
    >>> plan = parse_plan("((A B) C) D", "ABCD").keeping_all()
    >>> sorted(map(sorted, payable(plan, graph).kept))
    [[0, 1]]
    """
    if not isinstance(plan, TreePlan):
        return plan
    return TreePlan(plan.tree, frozenset(node for node in _told(plan.tree, graph) if node in plan.kept))


def _told(tree: Tree, graph: JoinGraph) -> list[Node]:
    """The joins below the root whose gaps can be told by values."""
    if not isinstance(tree, Join):
        return []
    found: list[Node] = []
    for child, sibling in ((tree.left, tree.right), (tree.right, tree.left)):
        key = graph.connecting(child.node, sibling.node)
        if isinstance(child, Join) and all(graph.carried(frozenset((s,))) & set(key) for s in child.node):
            found.append(child.node)
        found += _told(child, graph)
    return found
