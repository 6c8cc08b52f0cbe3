"""Probe programs: what a plan makes every new tuple do.

A plan compiles to one program per head stream: the steps by which a new tuple of that
stream finds its partners, each probing a base window or a kept state, and the states
that the growing tuple is stored in on its way up. A tree that keeps every state gives
the programs of a pipeline of symmetric joins; one that keeps none gives those of an
M-Join; anything between is expanded where a state is not kept. One kernel runs them all.

Each kept state also has a *completion program*, which computes the entries of one of
its keys from its children: the on-demand completion of JISC 4, and equally what a
restart or a memory limit calls for.

Invariant: a kept state is always probed by its own key, the classes that connect it
with its sibling in the tree. Where a program cannot supply that key (several attribute
classes), the state is passed over and its children are probed instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.tree import Join, Leaf, LinearPlan, Node, Plan, Tree, TreePlan, joins

Rank = Callable[[Node, Tree], float]
"""How much a partial result over these streams grows by joining this subtree: the least goes first."""


@dataclass(frozen=True, slots=True)
class Step:
    """Probe one target for partners of the tuple so far.

    Attributes:
        target: a single stream (its base window) or the node of a kept state.
        key: the attribute classes by which it is looked up, if there are any.
        checks: further classes on which candidates must agree.
        thetas: the theta predicates that become decidable here.
        stores: the kept state that the tuple is an entry of after this step, if any.
        loops: whether candidates are compared one after the other although a key could look them up.

    """

    target: Node
    key: tuple[int, ...]
    checks: tuple[int, ...]
    thetas: tuple[int, ...]
    stores: Node | None
    loops: bool = False

    @property
    def scans(self) -> bool:
        """Whether everything in the target is a candidate: a nested loop."""
        return self.loops or not self.key


@dataclass(frozen=True, slots=True)
class Program:
    """Steps that extend a tuple of ``head``, or compute entries of ``head``'s state from the classes ``given``.

    ``unordered``: an eddy takes some of them, in any order (:mod:`thalweg.plan.routes`).
    """

    head: Node
    steps: tuple[Step, ...]
    given: tuple[int, ...] = ()
    unordered: bool = False


@dataclass(frozen=True, slots=True)
class Programs:
    """All programs of a plan.

    Attributes:
        heads: per stream, what its new tuples do.
        completions: per kept state, how one key of it is computed.
        keys: per kept state, the classes of its key.
        fills: per kept state, how all of it is computed, if that was asked for.

    """

    heads: tuple[Program, ...]
    completions: dict[Node, Program]
    keys: dict[Node, tuple[int, ...]]
    fills: dict[Node, Program]


def compile_programs(
    plan: Plan, graph: JoinGraph, rank: Rank | None = None, *, fills: bool = False, nested_loops: bool = False
) -> Programs:
    """Compile a plan; ``rank`` orders the parts of subtrees that are not kept.

    ``nested_loops``: no step looks anything up, as in experiments with joins that cannot. Keys still say which entries
    of a state belong together.

    >>> from thalweg.plan.tree import parse_plan
    >>> graph = JoinGraph(3, classes=(frozenset({0, 1, 2}),))
    >>> plan = parse_plan("(A B) C", "ABC").keeping_all()
    >>> [[sorted(step.target) for step in program.steps] for program in compile_programs(plan, graph).heads]
    [[[1], [2]], [[0], [2]], [[0, 1]]]
    """
    return _Compiler(graph, plan, rank or (lambda _bound, _tree: 0.0), loops=nested_loops).compile(fills=fills)


def expand_leaves(graph: JoinGraph, given: frozenset[int], streams: Sequence[int]) -> Program:
    """Steps that look for a combination of tuples of these streams with the values ``given``.

    >>> graph = JoinGraph(3, classes=(frozenset({0, 1}), frozenset({1, 2})))
    >>> [(sorted(step.target), step.key) for step in expand_leaves(graph, frozenset({0}), (1, 2)).steps]
    [([1], (0,)), ([2], (1,))]
    """
    compiler = _Compiler(graph, LinearPlan(()), lambda _bound, _tree: 0.0, loops=False)
    steps = compiler.expand(frozenset(), given, [Leaf(stream) for stream in streams])
    return Program(frozenset(streams), tuple(steps), tuple(sorted(given)))


class _Compiler:
    def __init__(self, graph: JoinGraph, plan: Plan, rank: Rank, *, loops: bool) -> None:
        self.graph = graph
        self.plan = plan
        self.rank = rank
        self.loops = loops
        self.keys: dict[Node, tuple[int, ...]] = {}
        if isinstance(plan, TreePlan):
            self._find_keys(plan.tree, plan.kept)

    def _find_keys(self, tree: Tree, kept: frozenset[Node]) -> None:
        """A state is probed by what connects it with its sibling."""
        if isinstance(tree, Join):
            for child, sibling in ((tree.left, tree.right), (tree.right, tree.left)):
                if isinstance(child, Join) and child.node in kept:
                    self.keys[child.node] = self.graph.connecting(child.node, sibling.node)
                self._find_keys(child, kept)

    def compile(self, *, fills: bool) -> Programs:
        if not isinstance(self.plan, TreePlan):
            heads = tuple(self._linear(head, order) for head, order in enumerate(self.plan.orders))
            return Programs(heads, {}, {}, {})
        tree = self.plan.tree
        heads = tuple(self._climb(tree, stream) for stream in range(self.graph.streams))
        kept = [join for join in joins(tree) if join.node in self.keys]
        completions = {join.node: self._completion(join) for join in kept}
        return Programs(heads, completions, self.keys, {join.node: self._fill(join) for join in kept} if fills else {})

    def _linear(self, head: int, order: Sequence[int]) -> Program:
        start = frozenset((head,))
        bound, steps = start, []
        for stream in order:
            steps.append(self._step(bound, self.graph.carried(bound), frozenset((stream,))))
            bound |= steps[-1].target
        return Program(start, tuple(steps))

    def _climb(self, tree: Tree, stream: int) -> Program:
        """From the leaf to the root: join with the sibling, store in the parent's state."""
        bound = frozenset((stream,))
        steps: list[Step] = []
        for join in reversed(_path(tree, stream)):
            sibling = join.right if stream in join.left.node else join.left
            steps += self.expand(bound, self.graph.carried(bound), [sibling])
            bound = join.node
            if bound in self.keys:
                steps[-1] = _storing(steps[-1], bound)
        return Program(frozenset((stream,)), tuple(steps))

    def _completion(self, join: Join) -> Program:
        given = frozenset(self.keys[join.node])
        steps = self.expand(frozenset(), given, [join.left, join.right])
        steps[-1] = _storing(steps[-1], join.node)
        return Program(join.node, tuple(steps), self.keys[join.node])

    def _fill(self, join: Join) -> Program:
        """What a new tuple of a stream does up to this join, for every tuple in its window and this state alone."""
        children = sorted((join.left, join.right), key=lambda child: len(child.node))
        stream = min(children[0].node)
        scan = Step(frozenset((stream,)), (), (), (), None)
        steps = [_storing(step, None) for step in self._climb(join, stream).steps]
        steps[-1] = _storing(steps[-1], join.node)
        return Program(join.node, (scan, *steps))

    def expand(self, bound: Node, known: frozenset[int], items: list[Tree]) -> list[Step]:
        """Steps that bind all of ``items``, taking those with a known key first.

        ``known``: the classes whose value is known, from ``bound`` or given from outside.
        """
        items = list(items)
        steps: list[Step] = []
        while items:
            if len(items) > 1:  # ranking takes most of the time of a compilation
                items.sort(key=lambda item: self._preference(bound, known, item))
            item = items.pop(0)
            if isinstance(item, Join) and not self._usable(known, item):
                items += [item.left, item.right]
                continue
            step = self._step(bound, known, item.node)
            steps.append(step)
            bound |= item.node
            known |= self.graph.carried(item.node)
        return steps

    def _usable(self, known: frozenset[int], item: Join) -> bool:
        return item.node in self.keys and known >= frozenset(self.keys[item.node])

    def _preference(self, bound: Node, known: frozenset[int], item: Tree) -> tuple[bool, float, list[int]]:
        by_key = bool(known & self.graph.carried(item.node))
        by_theta = bool(self.graph.thetas_completed(bound, item.node))
        return (not (by_key or by_theta), self.rank(bound, item), sorted(item.node))

    def _step(self, bound: Node, known: frozenset[int], target: Node) -> Step:
        shared = tuple(sorted(known & self.graph.carried(target)))
        key = self.keys[target] if len(target) > 1 else shared
        # One class is compared when candidates are looked up; several only share a hash.
        checks = tuple(c for c in shared if c not in key or len(key) > 1)
        return Step(target, key, checks, self.graph.thetas_completed(bound, target), None, self.loops)


def _storing(step: Step, node: Node | None) -> Step:
    return Step(step.target, step.key, step.checks, step.thetas, node, step.loops)


def _path(tree: Tree, stream: int) -> list[Join]:
    """The joins above a stream's leaf, from the root down."""
    if isinstance(tree, Leaf):
        return []
    child = tree.left if stream in tree.left.node else tree.right
    return [tree, *_path(child, stream)]
