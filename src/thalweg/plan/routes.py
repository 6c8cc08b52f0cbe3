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
from dataclasses import dataclass, replace

from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.program import Program, Programs, Rank, Step, compile_programs
from thalweg.plan.tree import Node, Plan


@dataclass(frozen=True, slots=True)
class Routes:
    """The modules of a plan.

    Attributes:
        programs: its heads are unordered: per stream, the modules that its tuples may be sent to, first those that
            the plan would probe first. A module checks the classes that are known by then, and the thetas
            whose other stream is there by then.
        climbs: per stream, the kept states that its tuples are stored in, one after the other.

    """

    programs: Programs
    climbs: tuple[tuple[Node, ...], ...]


def compile_routes(plan: Plan, graph: JoinGraph, rank: Rank | None = None, *, fills: bool = False) -> Routes:
    """Compile a plan for an eddy; ``fills`` asks for programs that compute whole states.

    >>> from thalweg.plan.tree import parse_plan
    >>> graph = JoinGraph(3, classes=(frozenset({0, 1, 2}),))
    >>> routes = compile_routes(parse_plan("(A B) C", "ABC").keeping_all(), graph)
    >>> [[sorted(module.target) for module in program.steps] for program in routes.programs.heads]
    [[[1], [2]], [[0], [2]], [[0, 1], [0], [1]]]
    >>> [[sorted(node) for node in climb] for climb in routes.climbs]
    [[[0, 1]], [[0, 1]], []]
    """
    planned = compile_programs(plan, graph, rank, fills=fills)
    heads = tuple(_unordered(program, planned, graph) for program in planned.heads)
    climbs = tuple(
        tuple(sorted((node for node in planned.keys if stream in node), key=len)) for stream in range(graph.streams)
    )
    return Routes(replace(planned, heads=heads), climbs)


def _unordered(program: Program, planned: Programs, graph: JoinGraph) -> Program:
    modules = sorted(_modules(program.head, planned, graph), key=lambda module: _place(module, program))
    return Program(program.head, tuple(modules), unordered=True)


def _modules(head: Node, planned: Programs, graph: JoinGraph) -> Iterator[Step]:
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


def _module(target: Node, key: tuple[int, ...], graph: JoinGraph) -> Step:
    # One class is compared when candidates are looked up; several only share a hash.
    checks = tuple(c for c in sorted(graph.carried(target)) if c not in key or len(key) > 1)
    others = frozenset(range(graph.streams)) - target
    return Step(target, key, checks, graph.thetas_completed(others, target), None)


def _place(module: Step, program: Program) -> tuple[int, bool, bool]:
    """Where the plan probes these streams; the module that it would use there comes first."""
    place, step = next((i, step) for i, step in enumerate(program.steps) if step.target & module.target)
    return place, step.target != module.target, step.key[:1] != module.key[:1]
