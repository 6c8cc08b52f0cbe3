"""From a plan to the probe programs of its head streams.

A tree that keeps every state gives the programs of a pipeline of symmetric joins. One that keeps none gives those of an
M-Join. Anything between is expanded where a state is not kept.

Invariant: a kept state is always probed by its own key, the classes that connect it with its sibling in the tree. Where
a program cannot supply that key (several attribute classes), the state is passed over and its children are probed
instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.program import Emit, Instruction, Probe, Program, Programs, Rank, Store
from thalweg.plan.tree import Join, Leaf, LinearPlan, Node, Plan, Tree, TreePlan, joins


def compile_programs(
    plan: Plan,
    graph: JoinGraph,
    rank: Rank | None = None,
    *,
    fills: bool = False,
    unprobed: frozenset[Node] = frozenset(),
    nested_loops: bool = False,
) -> Programs:
    """Compile a plan; ``rank`` orders the parts of subtrees that are not kept, or kept and ``unprobed`` for now.

    ``nested_loops``: no step looks anything up, as in experiments with joins that cannot. Keys still say which entries
    of a state belong together.

    >>> from thalweg.plan.tree import parse_plan
    >>> graph = JoinGraph(3, classes=(frozenset({0, 1, 2}),))
    >>> plan = parse_plan("(A B) C", "ABC").keeping_all()
    >>> [[sorted(probe.target) for probe in program.probes] for program in compile_programs(plan, graph).heads]
    [[[1], [2]], [[0], [2]], [[0, 1]]]
    """
    ranked = rank or (lambda _bound, _target: 0.0)
    return _Compiler(graph, plan, ranked, unprobed, loops=nested_loops).compile(fills=fills)


def expand_leaves(graph: JoinGraph, given: frozenset[int], streams: Sequence[int]) -> Program:
    """Probes that look for a combination of tuples of these streams with the values ``given``.

    >>> graph = JoinGraph(3, classes=(frozenset({0, 1}), frozenset({1, 2})))
    >>> [(sorted(probe.target), probe.key) for probe in expand_leaves(graph, frozenset({0}), (1, 2)).probes]
    [([1], (0,)), ([2], (1,))]
    """
    compiler = _Compiler(graph, LinearPlan(()), lambda _bound, _target: 0.0, frozenset(), loops=False)
    probes = compiler.expand(frozenset(), given, [Leaf(stream) for stream in streams])
    return Program(frozenset(streams), tuple(probes), tuple(sorted(given)))


_Preference = tuple[bool, float, int, list[int]]
"""The least is probed first."""


class _Compiler:
    def __init__(self, graph: JoinGraph, plan: Plan, rank: Rank, unprobed: frozenset[Node], *, loops: bool) -> None:
        self.graph = graph
        self.plan = plan
        self.rank = rank
        self.unprobed = unprobed
        self.loops = loops
        self.keys: dict[Node, tuple[int, ...]] = {}
        # A join derives its node from all that is below it, and all streams below it climb alike from there on.
        self._nodes: dict[int, Node] = {}
        self._carried: dict[Node, frozenset[int]] = {}
        self._thetas_of = [[i for i, ends in enumerate(graph.thetas) if s in ends] for s in range(graph.streams)]
        self._adjacent: dict[Node, Node] = {}
        self._preferences: dict[tuple[Node, frozenset[int], Node, bool], _Preference] = {}
        self._ways_up: dict[tuple[int, bool], list[Instruction]] = {}
        if isinstance(plan, TreePlan):
            self._find_keys(plan.tree, plan.kept)

    def _find_keys(self, tree: Tree, kept: frozenset[Node]) -> None:
        """A state is probed by what connects it with its sibling."""
        if isinstance(tree, Join):
            for child, sibling in ((tree.left, tree.right), (tree.right, tree.left)):
                if isinstance(child, Join) and self._node(child) in kept:
                    shared = self._carried_by(self._node(child)) & self._carried_by(self._node(sibling))
                    self.keys[self._node(child)] = tuple(sorted(shared))
                self._find_keys(child, kept)

    def _node(self, tree: Tree) -> Node:
        if isinstance(tree, Leaf):
            return tree.node
        known = self._nodes.get(id(tree))
        if known is None:
            known = self._nodes[id(tree)] = self._node(tree.left) | self._node(tree.right)
        return known

    def _carried_by(self, node: Node) -> frozenset[int]:
        known = self._carried.get(node)
        if known is None:
            known = self._carried[node] = self.graph.carried(node)
        return known

    def _neighbours(self, node: Node) -> Node:
        """The streams that share a predicate with some of these."""
        known = self._adjacent.get(node)
        if known is None:
            connecting = [ends for ends in (*self.graph.classes, *self.graph.thetas) if not ends.isdisjoint(node)]
            known = self._adjacent[node] = frozenset().union(*connecting)
        return known

    def _thetas(self, bound: Node, target: Node) -> tuple[int, ...]:
        """Those between them, as :meth:`JoinGraph.thetas_completed` finds them among all there are."""
        ends = self.graph.thetas
        near = {theta for stream in target for theta in self._thetas_of[stream]}
        return tuple(sorted(theta for theta in near if not ends[theta].isdisjoint(bound)))

    def compile(self, *, fills: bool) -> Programs:
        if not isinstance(self.plan, TreePlan):
            heads = tuple(self._linear(head, order) for head, order in enumerate(self.plan.orders))
            return Programs(heads, {}, {}, {})
        tree = self.plan.tree
        heads = tuple(self._climb(tree, stream) for stream in range(self.graph.streams))
        kept = [join for join in joins(tree) if self._node(join) in self.keys]
        completions = {self._node(join): self._completion(join) for join in kept}
        fillings = {self._node(join): self._fill(join) for join in kept} if fills else {}
        return Programs(heads, completions, self.keys, fillings)

    def _linear(self, head: int, order: Sequence[int]) -> Program:
        start = frozenset((head,))
        bound: Node = start
        probes: list[Probe] = []
        for stream in order:
            probes.append(self._probe(bound, self._carried_by(bound), frozenset((stream,))))
            bound |= probes[-1].target
        return Program(start, (*probes, Emit()))

    def _climb(self, tree: Tree, stream: int) -> Program:
        """From the leaf to the root: join with the sibling, store in the parent's state."""
        instructions: list[Instruction] = []
        for join in reversed(self._path(tree, stream)):
            instructions += self._way_up(join, from_left=stream in self._node(join.left))
        return Program(frozenset((stream,)), (*instructions, Emit()))

    def _path(self, tree: Tree, stream: int) -> list[Join]:
        """The joins above a stream's leaf, from the root down."""
        path: list[Join] = []
        while isinstance(tree, Join):
            path.append(tree)
            tree = tree.left if stream in self._node(tree.left) else tree.right
        return path

    def _way_up(self, join: Join, *, from_left: bool) -> list[Instruction]:
        known = self._ways_up.get((id(join), from_left))
        if known is None:
            child, sibling = (join.left, join.right) if from_left else (join.right, join.left)
            bound = self._node(child)
            known = [*self.expand(bound, self._carried_by(bound), [sibling])]
            if self._node(join) in self.keys:
                known.append(Store(self._node(join)))
            self._ways_up[id(join), from_left] = known
        return known

    def _completion(self, join: Join) -> Program:
        node = self._node(join)
        if node in self.unprobed:
            return Program(node, ())
        probes = self.expand(frozenset(), frozenset(self.keys[node]), [join.left, join.right])
        return Program(node, (*probes, Store(node, always=True)), self.keys[node])

    def _fill(self, join: Join) -> Program:
        """What a new tuple of a stream does up to this join, for every tuple in its window and this state alone."""
        children = sorted((join.left, join.right), key=lambda child: len(self._node(child)))
        stream = min(self._node(children[0]))
        scan = Probe(frozenset((stream,)), (), (), ())
        store = Store(self._node(join), always=True)
        return Program(self._node(join), (scan, *self._climb(join, stream).probes, store))

    def expand(self, bound: Node, known: frozenset[int], items: list[Tree]) -> list[Probe]:
        """Probes that bind all of ``items``, taking those with a known key first.

        ``known``: the classes whose value is known, from ``bound`` or given from outside.
        """
        probes: list[Probe] = []
        waiting = self._ranked(bound, known, items)
        while waiting:
            _, item = waiting.pop(min(range(len(waiting)), key=lambda i: waiting[i][0]))
            if isinstance(item, Join) and not self._usable(known, item):
                waiting += self._ranked(bound, known, [item.left, item.right])
                continue
            node = self._node(item)
            probes.append(self._probe(bound, known, node))
            bound |= node
            known |= self._carried_by(node)
            waiting = self._ranked(bound, known, [item for _, item in waiting])
        return probes

    def _ranked(self, bound: Node, known: frozenset[int], items: Sequence[Tree]) -> list[tuple[_Preference, Tree]]:
        if len(items) == 1:  # ranking takes most of the time of a compilation
            return [((False, 0.0, 0, []), items[0])]
        return [(self._preference(bound, known, item), item) for item in items]

    def _usable(self, known: frozenset[int], item: Join) -> bool:
        node = self._node(item)
        return node in self.keys and node not in self.unprobed and known >= frozenset(self.keys[node])

    def _preference(self, bound: Node, known: frozenset[int], item: Tree) -> _Preference:
        """What is connected goes first, then what grows least.

        Where nothing is bound yet (a completion), of equal parts the one of fewer streams: if it has no entry of the
        key, the other needs not be completed for it.
        """
        node = self._node(item)
        shared = known & self._carried_by(node)
        beside = bound & self._neighbours(node)  # all that growth depends on
        asked = (node, shared, beside, not bound)
        found = self._preferences.get(asked)
        if found is None:
            is_connected = bool(shared or self._thetas(bound, node))
            found = (not is_connected, self.rank(bound, node), 0 if bound else len(node), sorted(node))
            self._preferences[asked] = found
        return found

    def _probe(self, bound: Node, known: frozenset[int], target: Node) -> Probe:
        shared = tuple(sorted(known & self._carried_by(target)))
        key = self.keys[target] if len(target) > 1 else shared
        # One class is compared when candidates are looked up; several only share a hash.
        checks = tuple(c for c in shared if c not in key or len(key) > 1)
        return Probe(target, key, checks, self._thetas(bound, target), self.loops)
