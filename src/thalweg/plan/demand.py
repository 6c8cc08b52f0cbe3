"""What the joins further up ask for: where a program may stop because nobody needs what it would produce (JIT).

A join whose other side has no partner for a part of a tuple does not need any tuple with that part (JIT III): a
*minimal non-demanded sub-tuple*. Whether there is a partner depends on the values of the attribute classes by which
the part meets the other side, and on nothing else of it. So a *demand* is asked of values: does the other side
have a combination of base tuples with them? Base windows are facts, whatever states hold, so the answer is right even
while both sides wait for each other.

A *gate* stands in a program where the part is bound and its demand is known: there the tuple stops if
nothing on the other side wants it. What stops there is missing in the states that it would have become an entry of: the
gate's *gaps*, told by what is known of their keys at that place. A state's key with a gap is computed anew when
something asks for it.

========================= ==========================================================================
the paper (JIT IV)        here
========================= ==========================================================================
the empty sub-tuple       a demand without values: is the other window empty? (DOE)
a single component        a demand for the values by which one stream meets the other side
the lattice               demands of several components at once, up to a number of them
type I and II sub-tuples  where all components of a part are bound, whichever children they come from
propagation upstream      every join above a component has a demand of its own for it
========================= ==========================================================================
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from thalweg.plan.compiler import expand_leaves
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.program import Demand, Gap, Gate, Instruction, Probe, Program, Programs, Store
from thalweg.plan.tree import Join, Node, Plan, Tree, TreePlan, joins

MOST_PARTS = 64
"""Parts of one join's input that are told apart, at most: the lattice has as many as there are subsets of streams."""

_NOWHERE = Gate(-1, sys.maxsize, 0, frozenset(), ())


@dataclass(frozen=True, slots=True)
class Demands:
    """All demands of a plan, and per stream the gates of its program."""

    demands: tuple[Demand, ...] = ()
    gates: tuple[tuple[Gate, ...], ...] = ()


def find_demands(
    plan: Plan, graph: JoinGraph, programs: Programs, lattice: int = 1, producers: Collection[Node] | None = None
) -> Demands:
    """The demands of a plan's joins.

    ``lattice``: of parts with up to so many components. ``producers``: of what these nodes produce alone; None: all.

    >>> from thalweg.plan.compiler import compile_programs
    >>> from thalweg.plan.tree import parse_plan
    >>> graph = JoinGraph(3, classes=(frozenset({0, 1}), frozenset({0, 2})))  # A.x = B.x, A.y = C.y
    >>> plan = parse_plan("(A B) C", "ABC").keeping_all()
    >>> found = find_demands(plan, graph, compile_programs(plan, graph))
    >>> [(demand.key, demand.others) for demand in found.demands]
    [((), (2,)), ((1,), (2,))]
    >>> [[(gate.demand, gate.depth) for gate in gates] for gates in found.gates]
    [[(0, -1), (1, -1)], [(0, -1), (1, 0)], []]
    """
    return _Finder(plan, graph, programs, lattice, producers).find()


def find_searches(graph: JoinGraph, programs: Programs) -> dict[Node, Program]:
    """For every kept state with a key, how to look for a combination of base tuples with its values."""
    return {
        node: expand_leaves(graph, frozenset(key), sorted(node))
        for node, key in sorted(programs.keys.items(), key=str)
        if key
    }


def siblings(plan: Plan) -> dict[Node, Node]:
    """For every join below the root of a tree, what it is joined with.

    >>> from thalweg.plan.tree import parse_plan
    >>> [(sorted(node), sorted(other)) for node, other in siblings(parse_plan("(A B) C", "ABC")).items()]
    [([0, 1], [2])]
    """
    found: dict[Node, Node] = {}
    for join in joins(plan.tree) if isinstance(plan, TreePlan) else ():
        for child, other in ((join.left, join.right), (join.right, join.left)):
            if isinstance(child, Join):
                found[child.node] = other.node
    return found


@dataclass(frozen=True, slots=True)
class _Level:
    """A join on a tuple's way: what it has joined by then, what it meets there, and by which probe first."""

    joined: Node
    other: Node
    probe: int


class _Finder:
    def __init__(
        self, plan: Plan, graph: JoinGraph, programs: Programs, lattice: int, producers: Collection[Node] | None
    ) -> None:
        self.plan = plan
        self.graph = graph
        self.programs = programs
        self.lattice = lattice
        self.producers = producers
        self.demands: dict[tuple[tuple[int, ...], Node], int] = {}

    def find(self) -> Demands:
        gates = [self._gates(program) for program in self.programs.heads]
        lacking = {node for each in gates for gate in each for node, _ in gate.gaps}
        lacking |= {node for node in self.programs.keys if self.programs.gaps(node)}
        states = {number for (key, asked), number in self.demands.items() if not key and asked in lacking}
        gates = [[gate for gate in each if gate.demand not in states] for each in gates]
        return Demands(tuple(self._demand(key, asked) for key, asked in self.demands), tuple(map(tuple, gates)))

    def _demand(self, key: tuple[int, ...], asked: Node) -> Demand:
        others = tuple(sorted(asked))
        witness = expand_leaves(self.graph, frozenset(key), others)
        return Demand(key, others, witness, asked if not key and len(asked) > 1 else None)

    def _gates(self, program: Program) -> list[Gate]:
        if program.unordered:
            return list(self._loose_gates(program))
        found: dict[int, Gate] = {}
        for level in self._levels(program):
            if self.producers is not None and level.joined not in self.producers:
                continue
            for part, asked in self._parts(level):
                gate = self._gate(program, level, part, asked)
                if gate is not None and gate.depth < found.get(gate.demand, _NOWHERE).depth:
                    found[gate.demand] = gate
        return sorted(found.values(), key=lambda gate: (gate.depth, gate.size))

    def _loose_gates(self, program: Program) -> Iterator[Gate]:
        """Where an eddy stops: every window is the consumer of whatever a tuple has before (JIT V)."""
        bound = [program.head, *(probe.target for probe in program.probes)]
        for depth, part in enumerate(bound, start=-1):
            for other in range(self.graph.streams):
                asked = frozenset((other,))
                key = self.graph.connecting(part, asked)
                if asked & (part | program.head) or len(part) > 1:
                    continue
                if depth < 0:
                    yield Gate(self._number((), asked), depth, 0, part, ())
                if key:
                    yield Gate(self._number(key, asked), depth, 1, part, ())

    def _number(self, key: tuple[int, ...], asked: Node) -> int:
        return self.demands.setdefault((key, self._asked(key, asked)), len(self.demands))

    def _levels(self, program: Program) -> Iterator[_Level]:
        """The joins that a new tuple passes after the first, from the bottom up."""
        if isinstance(self.plan, TreePlan):
            (stream,) = program.head
            for joined, other in _path(self.plan.tree, stream):
                first = next(i for i, step in enumerate(program.probes) if step.target & other)
                if first > 0:
                    yield _Level(joined, other, first)
        else:
            joined = program.head
            for i, step in enumerate(program.probes):
                if i > 0:
                    yield _Level(joined, step.target, i)
                joined |= step.target

    def _parts(self, level: _Level) -> Iterator[tuple[Node, Node]]:
        """What a join may have no partner for, and in what: everything in a state or window, then parts of a tuple."""
        if level.other in self.programs.keys:
            yield frozenset(), level.other
        for stream in sorted(level.other):
            yield frozenset(), frozenset((stream,))
        meeting = [s for s in sorted(level.joined) if self.graph.connecting(frozenset((s,)), level.other)]
        left = MOST_PARTS
        for size in range(1, min(self.lattice, len(meeting)) + 1):
            for part in combinations(meeting, size):
                if left == 0:
                    return
                left -= 1
                yield frozenset(part), level.other

    def _gate(self, program: Program, level: _Level, part: Node, asked: Node) -> Gate | None:
        key, size = self.graph.connecting(part, asked), len(part)
        last = next(i for i, probe in enumerate(program.probes) if probe.target & asked)
        if part and not isinstance(self.plan, TreePlan):
            last -= 1  # what is probed next anyway needs no asking; nothing is stored before it
        bound = program.head
        for depth, step in enumerate((None, *program.probes[:last]), start=-1):
            bound |= step.target if step is not None else frozenset()
            if not part <= bound:
                continue
            gaps = self._gaps(
                _from_probe(program, max(0, depth)), level.joined, self.graph.carried(bound), at_least=min(size, 1)
            )
            if gaps is not None:
                return Gate(self._number(key, asked), depth, size, level.joined, gaps)
        return None

    def _asked(self, key: tuple[int, ...], asked: Node) -> Node:
        """Of the other side, the streams that carry some of the key; without one, all of it."""
        return frozenset(s for s in asked if self.graph.carried(frozenset((s,))) & set(key)) if key else asked

    def _gaps(
        self, instructions: Sequence[Instruction], within: Node, known: frozenset[int], at_least: int
    ) -> tuple[Gap, ...] | None:
        """What these instructions store within a producer; None if too little is known to say where it is missing.

        ``at_least`` so many classes of the state's key. A whole producer that sleeps may leave a gap everywhere.
        """
        gaps = []
        for each in instructions:
            if isinstance(each, Store) and each.state <= within:
                key = self.programs.keys[each.state]
                classes = tuple(c for c in key if c in known)
                if not key or len(classes) < at_least:
                    return None
                gaps.append((each.state, classes))
        return tuple(gaps)


def _path(tree: Tree, stream: int) -> list[tuple[Node, Node]]:
    """(What a stream's tuples have joined, what they meet) at every join above its leaf, from the bottom up."""
    if not isinstance(tree, Join):
        return []
    child, other = (tree.left, tree.right) if stream in tree.left.node else (tree.right, tree.left)
    return [*_path(child, stream), (child.node, other.node)]


def _from_probe(program: Program, depth: int) -> Sequence[Instruction]:
    """The instructions of a program from its probe at a depth on."""
    places = [i for i, each in enumerate(program.instructions) if isinstance(each, Probe)]
    return program.instructions[places[depth] :] if depth < len(places) else ()
