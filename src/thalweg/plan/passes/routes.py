"""Routes: what a plan leaves an eddy to decide (CACQ and STAIRs; JISC 3.1, 4.6).

A probe program fixes what a tuple does next. An eddy decides it after every hop, among
*modules*: a base window looked up by one attribute class (a SteM), a base window scanned, or
a kept state looked up by its own key (a STAIR).

What is kept must stay whole: a tuple climbs through the kept states that its stream is part of,
and is an entry of one before it goes beyond. Between two of them the eddy is free. So a plan
that keeps no state leaves it every choice, which is CACQ, and the pipeline of a left-deep
tree leaves it none; the order of the plan is otherwise only what it begins with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.passes.setting import Setting
from thalweg.plan.program import Emit, Instruction, Land, Probe, Program, Programs, Send, Store
from thalweg.plan.tree import Node


def leave_open(programs: Programs, setting: Setting) -> Programs:
    """Leave it to an eddy which probe is next.

    SEND picks a module, LAND takes back what has grown by a match. Modules stand in the order in which the plan would
    probe them; behind them stand the states that a tuple is stored in on its way up. A module checks the classes that
    are known by then, and the thetas whose other stream is there by then.

    >>> from thalweg.plan.compiler import compile_programs
    >>> from thalweg.plan.tree import parse_plan
    >>> graph = JoinGraph(3, classes=(frozenset({0, 1, 2}),))
    >>> plan = parse_plan("(A B) C", "ABC").keeping_all()
    >>> heads = leave_open(compile_programs(plan, graph), Setting(plan, graph, routed=True)).heads
    >>> [[sorted(module.target) for module in program.probes] for program in heads]
    [[[1], [2]], [[0], [2]], [[0, 1], [0], [1]]]
    >>> [type(each).__name__ for each in heads[0].instructions]
    ['Send', 'Probe', 'Land', 'Probe', 'Land', 'Store', 'Send', 'Emit']
    """
    if not setting.routed:
        return programs
    return replace(programs, heads=tuple(_unordered(head, programs, setting.graph) for head in programs.heads))


def _unordered(program: Program, planned: Programs, graph: JoinGraph) -> Program:
    modules = sorted(_modules(program.head, planned, graph), key=lambda module: _place(module, program))
    if not modules:
        return program
    instructions: list[Instruction] = [Send()]
    for module in modules:
        instructions += [module, Land()]
    for state in sorted((node for node in planned.keys if program.head <= node), key=len):
        instructions += [Store(state), Send()]
    return Program(program.head, (*instructions, Emit()), unordered=True)


def _modules(head: Node, planned: Programs, graph: JoinGraph) -> Iterator[Probe]:
    for node, key in planned.keys.items():
        if not head <= node:
            yield _module(node, key, graph)
    for stream in range(graph.streams):
        target = frozenset((stream,))
        if target == head:
            continue
        carried = graph.carried(target)
        for attribute in sorted(carried):
            yield _module(target, (attribute,), graph)
        if not carried & graph.carried(head):
            yield _module(target, (), graph)


def _module(target: Node, key: tuple[int, ...], graph: JoinGraph) -> Probe:
    # One class is compared when candidates are looked up; several only share a hash.
    checks = tuple(c for c in sorted(graph.carried(target)) if c not in key or len(key) > 1)
    others = frozenset(range(graph.streams)) - target
    return Probe(target, key, checks, graph.thetas_completed(others, target))


def _place(module: Probe, program: Program) -> tuple[int, bool, bool]:
    """Where the plan probes these streams; the module that it would use there comes first."""
    place, probe = next((i, probe) for i, probe in enumerate(program.probes) if probe.target & module.target)
    return place, probe.target != module.target, probe.key[:1] != module.key[:1]
