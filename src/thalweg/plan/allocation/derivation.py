"""From a plan and its statistics to a budget model; and from a tree and plain numbers, as papers give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thalweg.errors import AllocationError
from thalweg.plan.allocation.model import AllocationModel, HalfWayJoin, StateLoad, StreamLoad, names_of
from thalweg.plan.compiler import compile_programs
from thalweg.plan.cost import DEFAULT_COSTS, Costs
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.plan_cost import growth_rank
from thalweg.plan.program import Programs
from thalweg.plan.statistics import Statistics
from thalweg.plan.tree import Join, Node, Plan, Tree, format_tree, joins, state_nodes


def model_of_plan(
    plan: Plan,
    graph: JoinGraph,
    statistics: Statistics,
    *,
    names: Sequence[str] = (),
    freshness: Sequence[float | None] = (),
    costs: Costs = DEFAULT_COSTS,
) -> AllocationModel:
    """The model of a plan as it is compiled by default.

    ``freshness``: per stream, the seconds that were asked for, or None. ``names``: the streams in error texts.
    """
    programs = compile_programs(plan, graph, growth_rank(graph, statistics, costs))
    return model_of_programs(programs, graph, statistics, names=names, freshness=freshness)


def model_of_programs(
    programs: Programs,
    graph: JoinGraph,
    statistics: Statistics,
    *,
    names: Sequence[str] = (),
    freshness: Sequence[float | None] = (),
) -> AllocationModel:
    """The model of compiled programs: step ``j`` of a stream's path is probe ``j`` of its program.

    Only kept states can be stale. A subtree that is not kept is probed part by part, with a half-way join for each.
    """
    if any(program.unordered for program in programs.heads):
        raise AllocationError("budget model: an eddy decides after every probe, so its tuples have no fixed path")
    found: dict[tuple[Node, tuple[Node, ...]], int] = {}
    half_ways: list[HalfWayJoin] = []
    paths: list[tuple[int, ...]] = []
    for program in programs.heads:
        bound, path = program.head, []
        targets = tuple(probe.target for probe in program.probes)
        for step, target in enumerate(targets):
            meeting = (bound, targets[step:])
            if meeting not in found:
                found[meeting] = len(half_ways)
                size = statistics.size(graph, target)
                half_ways.append(HalfWayJoin(bound, target, statistics.matches(graph, bound, target) / size, size))
            path.append(found[meeting])
            bound |= target
        paths.append(tuple(path))
    called = names or names_of(len(paths))
    asked = freshness or [None] * len(paths)
    if not len(called) == len(asked) == len(statistics.rates) == len(paths):
        raise AllocationError(
            f"budget model: {len(paths)} programs, {len(statistics.rates)} rates, {len(called)} names and "
            f"{len(asked)} values of freshness. There has to be one of each per stream."
        )
    loads = [StreamLoad(*each) for each in zip(called, statistics.rates, statistics.windows, asked, strict=True)]
    states = tuple(StateLoad(node, statistics.size(graph, node)) for node in sorted(programs.keys, key=_by_size))
    return AllocationModel(tuple(loads), tuple(half_ways), tuple(paths), states)


def model_of_tree(
    tree: Tree, streams: Sequence[StreamLoad], selectivities: Mapping[Node, float], sizes: Mapping[Node, float]
) -> AllocationModel:
    """A tree that keeps every state, in the numbers of JAQPOT's section 5.

    ``selectivities``: per join, the share of pairs that join. ``sizes``: per state, its entries.
    """
    missing = [join.node for join in joins(tree) if join.node not in selectivities]
    missing += [node for node in state_nodes(tree) if node not in sizes]
    if missing or tree.node != frozenset(range(len(streams))):
        raise AllocationError(
            f"budget model: {len(streams)} streams do not make the tree "
            f"{format_tree(tree, names_of(max(tree.node) + 1))}, "
            f"or a selectivity or size is missing of {[sorted(node) for node in missing]}"
        )
    half_ways: list[HalfWayJoin] = []
    above: dict[Node, int] = {}
    parents: dict[Node, Node] = {}
    held = {frozenset((i,)): stream.window for i, stream in enumerate(streams)} | dict(sizes)
    for join in joins(tree):
        for side, other in ((join.left.node, join.right.node), (join.right.node, join.left.node)):
            above[side] = len(half_ways)
            parents[side] = join.node
            half_ways.append(HalfWayJoin(side, other, selectivities[join.node], held[other]))
    paths = tuple(_climb(frozenset((head,)), above, parents) for head in range(len(streams)))
    states = tuple(StateLoad(node, sizes[node]) for node in state_nodes(tree)) if isinstance(tree, Join) else ()
    return AllocationModel(tuple(streams), tuple(half_ways), paths, states)


def _climb(node: Node, above: Mapping[Node, int], parents: Mapping[Node, Node]) -> tuple[int, ...]:
    path: list[int] = []
    while node in above:
        path.append(above[node])
        node = parents[node]
    return tuple(path)


def _by_size(node: Node) -> tuple[int, list[int]]:
    return len(node), sorted(node)
