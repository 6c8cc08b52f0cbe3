"""What the joins further up ask for: where a program may stop because nobody needs what it would produce (JIT).

A join whose other side has no partner for a part of a tuple does not need any tuple with that part (JIT III): a
*minimal non-demanded sub-tuple*. Whether there is a partner depends on the values of the attribute classes by which
the part meets the other side, and on nothing else of it. So a *demand* is asked of values: does the other side
have a combination of base tuples with them? Base windows are facts, whatever states hold, so the answer is right even
while both sides wait for each other.

A *site* is a place in a program where the part is bound and its demand is known: there the tuple stops if
nothing on the other side wants it. What stops there is missing in the states that it would have become an entry of: the
site's *gaps*, told by what is known of their keys at that place. A state's key with a gap is computed anew when
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
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import combinations

from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.program import Program, Programs, Step, expand_leaves
from thalweg.plan.tree import Join, Node, Plan, Tree, TreePlan, joins

MOST_PARTS = 64
"""Parts of one join's input that are told apart, at most: the lattice has as many as there are subsets of streams."""

Gap = tuple[Node, tuple[int, ...]]
"""A kept state, and the classes of its key whose values say where something is missing in it."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Whether some streams have a combination of tuples with given values.

    Attributes:
        key: the classes whose values are given; none: whether there is anything at all.
        others: the streams, each of which carries one of the classes.
        witness: the program that looks for a combination.
        state: without a key, the kept state that holds the combinations, if that is what is asked and nothing will be
            missing in it: it tells at once.

    """

    key: tuple[int, ...]
    others: tuple[int, ...]
    witness: Program
    state: Node | None = None


@dataclass(frozen=True, slots=True)
class Site:
    """A place in a stream's program where it stops if a demand is not met.

    Attributes:
        demand: which one.
        depth: the step after which it is looked at (of an eddy, the module); -1: before the first.
        size: how many components the part has; 0: the empty one.
        producer: the streams whose join would produce what nobody needs.
        gaps: where something is missing if the program stops here.

    """

    demand: int
    depth: int
    size: int
    producer: Node
    gaps: tuple[Gap, ...]


_NOWHERE = Site(-1, sys.maxsize, 0, frozenset(), ())


@dataclass(frozen=True, slots=True)
class Demands:
    """All demands of a plan, and per stream the sites in its program.

    ``searches``: for kept states, how to find out whether a key has any entry, where it is dear to complete one.
    """

    demands: tuple[Demand, ...] = ()
    sites: tuple[tuple[Site, ...], ...] = ()
    searches: dict[Node, Program] = field(default_factory=dict)

    def gaps(self, node: Node) -> tuple[tuple[int, ...], ...]:
        """The different classes by which something can be missing in a state."""
        found = {classes for sites in self.sites for site in sites for state, classes in site.gaps if state == node}
        return tuple(sorted(found))


def find_demands(
    plan: Plan, graph: JoinGraph, programs: Programs, lattice: int = 1, producers: Collection[Node] | None = None
) -> Demands:
    """The demands of a plan's joins.

    ``lattice``: of parts with up to so many components. ``producers``: of what these nodes produce alone; None: all.

    >>> from thalweg.plan.program import compile_programs
    >>> from thalweg.plan.tree import parse_plan
    >>> graph = JoinGraph(3, classes=(frozenset({0, 1}), frozenset({0, 2})))  # A.x = B.x, A.y = C.y
    >>> plan = parse_plan("(A B) C", "ABC").keeping_all()
    >>> found = find_demands(plan, graph, compile_programs(plan, graph))
    >>> [(demand.key, demand.others) for demand in found.demands]
    [((), (2,)), ((1,), (2,))]
    >>> [[(site.demand, site.depth) for site in sites] for sites in found.sites]
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
    """A join on a tuple's way: what it has joined by then, what it meets there, and by which step first."""

    joined: Node
    other: Node
    step: int


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
        sites = [self._sites(program) for program in self.programs.heads]
        lacking = {node for each in sites for site in each for node, _ in site.gaps}
        states = {number for (key, asked), number in self.demands.items() if not key and asked in lacking}
        sites = [[site for site in each if site.demand not in states] for each in sites]
        return Demands(tuple(self._demand(key, asked) for key, asked in self.demands), tuple(map(tuple, sites)))

    def _demand(self, key: tuple[int, ...], asked: Node) -> Demand:
        others = tuple(sorted(asked))
        witness = expand_leaves(self.graph, frozenset(key), others)
        return Demand(key, others, witness, asked if not key and len(asked) > 1 else None)

    def _sites(self, program: Program) -> list[Site]:
        if program.unordered:
            return list(self._loose_sites(program))
        found: dict[int, Site] = {}
        for level in self._levels(program):
            if self.producers is not None and level.joined not in self.producers:
                continue
            for part, asked in self._parts(level):
                site = self._site(program, level, part, asked)
                if site is not None and site.depth < found.get(site.demand, _NOWHERE).depth:
                    found[site.demand] = site
        return sorted(found.values(), key=lambda site: (site.depth, site.size))

    def _loose_sites(self, program: Program) -> Iterator[Site]:
        """Where an eddy stops: every window is the consumer of whatever a tuple has before (JIT V)."""
        bound = [program.head, *(step.target for step in program.steps)]
        for depth, part in enumerate(bound, start=-1):
            for other in range(self.graph.streams):
                asked = frozenset((other,))
                key = self.graph.connecting(part, asked)
                if asked & (part | program.head) or len(part) > 1:
                    continue
                if depth < 0:
                    yield Site(self._number((), asked), depth, 0, part, ())
                if key:
                    yield Site(self._number(key, asked), depth, 1, part, ())

    def _number(self, key: tuple[int, ...], asked: Node) -> int:
        return self.demands.setdefault((key, self._asked(key, asked)), len(self.demands))

    def _levels(self, program: Program) -> Iterator[_Level]:
        """The joins that a new tuple passes after the first, from the bottom up."""
        if isinstance(self.plan, TreePlan):
            (stream,) = program.head
            for joined, other in _path(self.plan.tree, stream):
                first = next(i for i, step in enumerate(program.steps) if step.target & other)
                if first > 0:
                    yield _Level(joined, other, first)
        else:
            joined = program.head
            for i, step in enumerate(program.steps):
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

    def _site(self, program: Program, level: _Level, part: Node, asked: Node) -> Site | None:
        key, size = self.graph.connecting(part, asked), len(part)
        last = next(i for i, probe in enumerate(program.steps) if probe.target & asked)
        if part and not isinstance(self.plan, TreePlan):
            last -= 1  # what is probed next anyway needs no asking; nothing is stored before it
        bound = program.head
        for depth, step in enumerate((None, *program.steps[:last]), start=-1):
            bound |= step.target if step is not None else frozenset()
            if not part <= bound:
                continue
            gaps = self._gaps(
                program.steps[max(0, depth) :], level.joined, self.graph.carried(bound), at_least=min(size, 1)
            )
            if gaps is not None:
                return Site(self._number(key, asked), depth, size, level.joined, gaps)
        return None

    def _asked(self, key: tuple[int, ...], asked: Node) -> Node:
        """Of the other side, the streams that carry some of the key; without one, all of it."""
        return frozenset(s for s in asked if self.graph.carried(frozenset((s,))) & set(key)) if key else asked

    def _gaps(
        self, steps: tuple[Step, ...], within: Node, known: frozenset[int], at_least: int
    ) -> tuple[Gap, ...] | None:
        """What these steps store within a producer; None if too little is known to say where in a state it is missing.

        ``at_least`` so many classes of the state's key. A whole producer that sleeps may leave a gap everywhere.
        """
        gaps = []
        for step in steps:
            if step.stores is not None and step.stores <= within:
                key = self.programs.keys[step.stores]
                classes = tuple(c for c in key if c in known)
                if not key or len(classes) < at_least:
                    return None
                gaps.append((step.stores, classes))
        return tuple(gaps)


def _path(tree: Tree, stream: int) -> list[tuple[Node, Node]]:
    """(What a stream's tuples have joined, what they meet) at every join above its leaf, from the bottom up."""
    if not isinstance(tree, Join):
        return []
    child, other = (tree.left, tree.right) if stream in tree.left.node else (tree.right, tree.left)
    return [*_path(child, stream), (child.node, other.node)]
