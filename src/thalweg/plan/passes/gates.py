"""Gates: programs stop where nobody needs what they would produce (JIT III)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from thalweg.plan.demand import find_demands, find_searches
from thalweg.plan.passes.setting import Setting
from thalweg.plan.program import Gate, Instruction, Probe, Program, Programs


def insert_gates(programs: Programs, setting: Setting) -> Programs:
    """Put a gate wherever a part is bound that a join further up may have no partner for.

    >>> from thalweg.plan.join_graph import JoinGraph
    >>> from thalweg.plan.passes.setting import Gating
    >>> from thalweg.plan.compiler import compile_programs
    >>> from thalweg.plan.tree import parse_plan
    >>> graph = JoinGraph(3, classes=(frozenset({0, 1}), frozenset({0, 2})))  # A.x = B.x, A.y = C.y
    >>> plan = parse_plan("(A B) C", "ABC").keeping_all()
    >>> programs = insert_gates(compile_programs(plan, graph), Setting(plan, graph, gating=Gating()))
    >>> [type(each).__name__ for each in programs.heads[1].instructions]
    ['Gate', 'Probe', 'Gate', 'Store', 'Probe', 'Emit']
    """
    gating = setting.gating
    if gating is None:
        return programs
    found = find_demands(setting.plan, setting.graph, programs, gating.lattice, gating.producers)
    heads = [
        head if stream in gating.unchanging else _gated(head, gates)
        for stream, (head, gates) in enumerate(zip(programs.heads, found.gates, strict=True))
    ]
    searches = find_searches(setting.graph, programs) if gating.searches else {}
    return replace(programs, heads=tuple(heads), demands=found.demands, searches=searches)


def _gated(program: Program, gates: Sequence[Gate]) -> Program:
    """A program with each gate behind its probe: nothing is stored that it stops."""
    instructions: list[Instruction] = [gate for gate in gates if gate.depth < 0]
    depth = -1
    for each in program.instructions:
        instructions.append(each)
        if isinstance(each, Probe):
            depth += 1
            instructions += [gate for gate in gates if gate.depth == depth]
    return replace(program, instructions=tuple(instructions))
