"""Passes over programs: policies that concern what a tuple does, one file each.

A plan compiles to programs that probe, store and emit (:mod:`thalweg.plan.program`). Each pass below may change them
for one policy. A pass whose policy is not asked for leaves them as they are.
"""

from __future__ import annotations

from collections.abc import Callable

from thalweg.plan.passes.accounts import open_accounts, payable
from thalweg.plan.passes.gates import insert_gates
from thalweg.plan.passes.routes import leave_open
from thalweg.plan.passes.setting import Gating, Setting
from thalweg.plan.program import Programs

Pass = Callable[[Programs, Setting], Programs]

PASSES: tuple[Pass, ...] = (leave_open, open_accounts, insert_gates)
"""In this order: gates go into the programs that run, whoever picks their next probe, and have to know in which states
something may be missing. They stand before the account of their probe: what they stop pays nothing."""


def apply_passes(programs: Programs, setting: Setting) -> Programs:
    """The programs of a plan under all policies that are asked for."""
    for each in PASSES:
        programs = each(programs, setting)
    return programs


__all__ = ["PASSES", "Gating", "Pass", "Setting", "apply_passes", "payable"]
