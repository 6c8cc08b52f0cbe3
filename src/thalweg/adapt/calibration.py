"""Statistics of samples, set right by what probes have found.

A look at the rows of a batch (:mod:`thalweg.adapt.batch_view`) compares them with each other. Windows last longer. If
partners come at about the same time, those of a batch agree far more often than those of windows do. Probes have
counted how often these do: the first probe of every stream's tuples meets the window of one other stream. So for each
pair of streams, the ratio of what was counted to what the sample says is remembered. It says how streams hang together
in time, and is kept when another plan begins with other pairs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.statistics import Statistics
from thalweg.plan.tree import Node

Ratios = Mapping[Node, float]
"""By pairs of streams; 1: it is as the sample says."""
_MOST = 1e6
_FADING = 0.97
"""What a look leaves of a ratio, as a logarithm, that nothing new is said of: half of it is gone after 23 looks."""


def ratios(
    statistics: Statistics, graph: JoinGraph, counted: Mapping[tuple[int, int], float], known: Ratios
) -> dict[Node, float]:
    """Those of the pairs that were ``counted``, and the others as they were ``known``.

    ``counted``: by stream, and the stream whose window its tuples probe first, matches per probe. Of both directions
    the geometric mean counts.

    >>> graph = JoinGraph(2, classes=(frozenset({0, 1}),))
    >>> known = Statistics((1.0, 1.0), (100.0, 100.0), ({0: 50.0, 1: 50.0},))
    >>> round(ratios(known, graph, {(0, 1): 1.0, (1, 0): 4.0}, {})[frozenset({0, 1})], 6)
    1.0
    """
    logarithms: dict[Node, list[float]] = {}
    for (head, target), matches in counted.items():
        expected = statistics.matches(graph, frozenset((head,)), frozenset((target,)))
        ratio = min(max(matches / expected, 1 / _MOST), _MOST)
        logarithms.setdefault(frozenset((head, target)), []).append(math.log(ratio))
    now = {pair: math.fsum(each) / len(each) for pair, each in logarithms.items()}
    before = {pair: math.log(ratio) for pair, ratio in known.items()}
    mixed = {pair: (each + before.get(pair, each)) / 2 for pair, each in now.items()}
    faded = {pair: _FADING * each for pair, each in before.items()}
    return {pair: math.exp(each) for pair, each in (faded | mixed).items()}


def calibrated(statistics: Statistics, graph: JoinGraph, found: Ratios) -> Statistics:
    """The statistics by which pairs agree so many times as often.

    All streams of an attribute class have so many more values as its pairs agree more seldom on average. What is left
    is said of each pair.

    >>> graph = JoinGraph(3, classes=(frozenset({0, 1, 2}),))
    >>> known = Statistics((1.0,) * 3, (100.0,) * 3, ({0: 50.0, 1: 50.0, 2: 50.0},))
    >>> other = calibrated(known, graph, {frozenset({0, 1}): 0.1, frozenset({1, 2}): 0.1})
    >>> [round(other.matches(graph, frozenset({0}), frozenset({other_one})), 6) for other_one in (1, 2)]
    [0.2, 0.2]
    """
    distinct, common = [dict(each) for each in statistics.distinct], []
    for cls, counts in enumerate(distinct):
        mine = {pair: math.log(ratio) / _links(graph, pair) for pair, ratio in found.items() if pair <= counts.keys()}
        usual = math.fsum(mine.values()) / len(mine) if mine else 0.0
        shared = {
            frozenset((one, other)): statistics.in_common(cls, one, other)
            * math.exp(mine.get(frozenset((one, other)), usual) - 2 * usual)
            for one in counts
            for other in counts
            if one < other
        }
        distinct[cls] = {stream: count * math.exp(-usual) for stream, count in counts.items()}
        common.append(shared)
    thetas = [
        min(1.0, share * found[ends] ** (1 / _links(graph, ends))) if ends in found else share
        for ends, share in zip(graph.thetas, statistics.thetas, strict=True)
    ]
    return replace(statistics, distinct=tuple(distinct), common=tuple(common), thetas=tuple(thetas))


def _links(graph: JoinGraph, pair: Node) -> int:
    """How many predicates connect a pair."""
    return sum(pair <= cls for cls in graph.classes) + sum(ends == pair for ends in graph.thetas)
