"""Accounts: probes that a budget may refuse (JAQPOT 4)."""

from __future__ import annotations

from dataclasses import replace

from thalweg.errors import PlanError
from thalweg.plan.passes.setting import Setting
from thalweg.plan.program import Instruction, Pay, Probe, Program, Programs


def open_accounts(programs: Programs, setting: Setting) -> Programs:
    """Let every probe of a new tuple be paid for, behind its gates.

    Inserts, completions and what gates look for are not paid for. The plan keeps no states: a probe that is refused
    would leave something out of them, and so change what later tuples find.

    >>> from thalweg.plan.join_graph import JoinGraph
    >>> from thalweg.plan.compiler import compile_programs
    >>> from thalweg.plan.tree import parse_plan
    >>> graph = JoinGraph(3, classes=(frozenset({0, 1, 2}),))
    >>> plan = parse_plan("(A B) C", "ABC")
    >>> programs = open_accounts(compile_programs(plan, graph), Setting(plan, graph, budgeted=True))
    >>> [type(each).__name__ for each in programs.heads[0].instructions]
    ['Pay', 'Probe', 'Pay', 'Probe', 'Emit']
    """
    if not setting.budgeted:
        return programs
    if programs.keys or any(head.unordered for head in programs.heads):
        raise PlanError("a plan runs under a budget, and keeps states or leaves the order of probes to an eddy")
    return replace(programs, heads=tuple(map(_paying, programs.heads)))


def _paying(program: Program) -> Program:
    instructions: list[Instruction] = []
    account = 0
    for each in program.instructions:
        if isinstance(each, Probe):
            instructions.append(Pay(account))
            account += 1
        instructions.append(each)
    return replace(program, instructions=tuple(instructions))
