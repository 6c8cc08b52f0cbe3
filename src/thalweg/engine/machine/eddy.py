"""Eddies: engines that decide after every hop where a tuple goes next (CACQ and STAIRs; JISC 3.1, 3.2, 4.6).

They are rivals of the pipeline and its lazy migration, and share everything with it but that decision: windows,
states, completion and memory are those of :class:`~thalweg.engine.join.engine.JoinEngine`, in the same kernel. So a
:class:`EddyRouting` is a part of such an engine.

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

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from thalweg.cql.query import Query
from thalweg.engine.kernels import eddy as k
from thalweg.engine.kernels.tables import G_FIRST, WORK_FIELDS
from thalweg.engine.programs.assembly import Assembly
from thalweg.errors import PlanError
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.program import Emit, Instruction, Probe, Program, Send, Store
from thalweg.settings import Migration

_SEED = 1
"""Where the random numbers of every eddy begin, so that runs repeat."""
_PATIENCE = 1024
"""Tuples between two judgements of the modules: rare enough to cost nothing."""
_ENOUGH = 16
"""Probes that a judgement takes: fewer say nothing."""
_ADVENTURE = 64
"""One hop in so many (a power of two) does not follow the order of preference."""


class EddyRouting:
    """Picks the next probe of every tuple. The policies above have the same routing, over other programs."""

    def __init__(self, query: Query, policy: Migration) -> None:
        for what, count in (("streams", len(query.streams)), ("different join keys", len(query.classes))):
            if count > k.BITS:
                raise PlanError(
                    f"query '{query.name}' has {count} {what}; an eddy routes at most {k.BITS}. "
                    f"Use another migration policy than '{policy}'."
                )

    def tables(self, programs: Sequence[Program], assembly: Assembly, graph: JoinGraph) -> k.Eddy:
        """What an eddy goes by that has seen nothing yet, and begins with the order and the states of a plan."""
        return _eddy(programs, assembly, graph)


def _eddy(programs: Sequence[Program], assembly: Assembly, graph: JoinGraph) -> k.Eddy:
    """The tables of an eddy that has seen nothing yet."""
    rows = max(1, len(assembly.steps))
    modules = np.zeros((rows, k.MODULE_FIELDS), np.int64)
    heads = np.zeros((len(programs), k.HEAD_FIELDS), np.int64)
    climbs = np.zeros((len(programs), len(programs), k.LEVEL_FIELDS), np.int64)
    order: list[int] = []
    for stream, program in enumerate(programs):
        first = int(assembly.programs[stream, G_FIRST])
        places = {each: first + i for i, each in reversed(list(enumerate(program.instructions)))}
        heads[stream] = (
            _bits(graph.carried(program.head)),
            len(order),
            len(program.probes),
            places.get(Send(), 0),
        )
        for probe in program.probes:
            modules[places[probe]] = _module(probe, places, graph)
            order.append(places[probe])
        levels = [(_bits(each.state), places[each]) for each in program.instructions if isinstance(each, Store)]
        climbs[stream, : len(levels) + 1] = [*levels, (_bits(range(graph.streams)), places[Emit()])]
    return k.Eddy(
        modules=modules,
        heads=heads,
        climbs=climbs,
        order=np.array(order or [0], np.int64),
        judged=np.zeros((rows, WORK_FIELDS), np.int64),
        price=np.full(rows, np.inf),
        hops=np.zeros((len(programs) + 1, k.HOP_FIELDS), np.int64),
        temper=np.array([_SEED, _PATIENCE, _PATIENCE, _ENOUGH, _ADVENTURE - 1]),
    )


def _module(probe: Probe, places: Mapping[Instruction, int], graph: JoinGraph) -> list[int]:
    larger = [each for each in places if isinstance(each, Probe) and probe.target < each.target]
    around = places[min(larger, key=lambda each: len(each.target))] if larger else -1
    return [
        _bits(probe.target),
        _bits(probe.key),
        _bits(graph.carried(probe.target)),
        _bits(stream for theta in probe.thetas for stream in graph.thetas[theta] - probe.target),
        int(len(probe.target) == 1 and not probe.key),
        around,
    ]


def _bits(numbers: Iterable[int]) -> int:
    return sum(1 << number for number in set(numbers))
