"""A model of the paper's join, not the engine: a pipeline of binary joins whose states get stale (JAQPOT 2 to 4).

Design
    Each stream has a window of so many tuples. Each join below the root has a state of so many entries: a window of its
    own, in which an entry stays until so many newer ones have come, however old its tuples are by then. Nothing but
    probes that are paid for makes entries. That is what starves a state, and what makes results stale.

    Every half-way join has an allowance of probes per second. It is saved for up to a minute: a path may pay for one
    tuple in many seconds, each with hundreds of matches. The paper calls that a mega execution cycle. A probe that
    finds no allowance is refused. The others join each entry of the partner state with the same probability, which is
    the selectivity of the join. Results are counted. One that holds a tuple older than its freshness is stale.

Cost
    One event per arriving tuple. Matches are found by geometric jumps, so that a probe costs what it finds.

Invariant
    The same seed leads to the same results, whatever the machine.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thalweg.engine.kernels.compiled import Float64s, Int64s, jit
from thalweg.errors import ThalwegError
from thalweg.plan.allocation import AllocationModel
from thalweg.plan.tree import Join, Node, Tree, joins

_LONGEST_FILL = 100
"""Seconds after which states that are not full will never be."""
_FILLING = 1_000.0
"""Probes per second of each half-way join while states fill: each of table 3 is full within seconds."""
SAVED = 60.0
"""Seconds for which an allowance is saved."""
NEVER = -math.inf
"""The time of a tuple that a partial result does not have."""
RESULTS = 0
PROBES = 1
COUNTS = 2
"""What is counted: results, and probes that were paid for."""


class Pipeline(NamedTuple):
    """A tree of joins. Nodes are numbered: the streams, then the joins from below; the root is the last."""

    parent: Int64s  # [node]
    sibling: Int64s  # [node] whose state is probed
    selectivity: Float64s  # [node] of the join with the sibling
    sizes: Int64s  # [node] entries that its state holds
    entries: NDArray[np.float64]  # [node, place, stream] times of the tuples of an entry
    inserted: Int64s  # [node] entries that ever came
    credit: Float64s  # [node] probes that may be made
    fed_until: Float64s  # [node] the time up to which credit was given
    stack: NDArray[np.float64]  # [depth, stream] the partial result of each depth
    at: Int64s  # [depth] its node
    place: Int64s  # [depth] the next place of the sibling's state to look at


class Counted(NamedTuple):
    """What a run counted.

    Attributes:
        results: all.
        stale: per factor of freshness, those that held a tuple that was too old.
        probes: that were paid for.

    """

    results: int
    stale: tuple[int, ...]
    probes: int


def pipeline_of(tree: Tree, model: AllocationModel) -> Pipeline:
    """The empty pipeline of a tree; ``model`` is that of the same tree (``model_of_tree``)."""
    nodes = _nodes(tree)
    numbers = {node: i for i, node in enumerate(nodes)}
    parent, sibling = np.full(len(nodes), -1), np.full(len(nodes), -1)
    selectivity = np.zeros(len(nodes))
    for half_way in model.half_ways:
        node = numbers[half_way.bound]
        parent[node], sibling[node] = numbers[half_way.output], numbers[half_way.target]
        selectivity[node] = half_way.selectivity
    held = {state.node: state.size for state in model.states}
    held |= {frozenset((i,)): stream.window for i, stream in enumerate(model.streams)}
    sizes = np.array([round(held.get(node, 1)) for node in nodes])
    streams, depth = len(model.streams), len(model.streams) + 1
    return Pipeline(
        parent,
        sibling,
        selectivity,
        sizes,
        np.full((len(nodes), int(sizes.max()), streams), NEVER),
        np.zeros(len(nodes), np.int64),
        np.zeros(len(nodes)),
        np.zeros(len(nodes)),
        np.full((depth, streams), NEVER),
        np.zeros(depth, np.int64),
        np.zeros(depth, np.int64),
    )


def allowances_of(tree: Tree, model: AllocationModel, half_ways: tuple[float, ...]) -> Float64s:
    """Per node, the allowance of the half-way join by which its entries probe."""
    numbers = {node: i for i, node in enumerate(_nodes(tree))}
    found = np.zeros(len(numbers))
    for half_way, allowance in zip(model.half_ways, half_ways, strict=True):
        found[numbers[half_way.bound]] = allowance
    return found


def _nodes(tree: Tree) -> list[Node]:
    if not isinstance(tree, Join):
        raise ThalwegError("a pipeline joins two streams at least")
    return [*(frozenset((i,)) for i in range(len(tree.node))), *(join.node for join in joins(tree))]


def fill(pipeline: Pipeline, model: AllocationModel, rng: np.random.Generator) -> float:
    """Run until all states are full, with allowances that keep them fresh; returns when that is."""
    allowances = np.full(len(pipeline.parent), _FILLING)
    allowances[pipeline.parent == len(pipeline.parent) - 1] = 0.0  # no results are needed
    for start in range(_LONGEST_FILL):
        run(pipeline, model, allowances, (), rng, start, 1.0)
        if (pipeline.inserted[:-1] >= pipeline.sizes[:-1]).all():
            pipeline.credit[:] = 0.0
            return start + 1.0
    raise ThalwegError("the states of a pipeline do not fill: too little joins")


def run(
    pipeline: Pipeline,
    model: AllocationModel,
    allowances: Float64s,
    factors: tuple[float, ...],
    rng: np.random.Generator,
    start: float,
    seconds: float,
) -> Counted:
    """Let Poisson arrivals come for so many seconds.

    ``factors``: results are stale if a tuple is older than so many times the lifetime of its window.
    """
    times, streams = _arrivals(model, rng, start, seconds)
    lifetimes = np.array([stream.lifetime for stream in model.streams])
    limits = np.outer(np.array(factors, float).reshape(-1), lifetimes)
    counts, stale = np.zeros(COUNTS, np.int64), np.zeros(len(factors), np.int64)
    pipeline.fed_until[:] = start
    seed = np.array([rng.integers(1, 2**62)])
    _run_kernel(pipeline, times, streams, allowances, limits, counts, stale, seed)
    return Counted(int(counts[RESULTS]), tuple(stale.tolist()), int(counts[PROBES]))


def _arrivals(
    model: AllocationModel, rng: np.random.Generator, start: float, seconds: float
) -> tuple[Float64s, Int64s]:
    counts = [rng.poisson(stream.rate * seconds) for stream in model.streams]
    times = np.concatenate([rng.uniform(start, start + seconds, count) for count in counts])
    order = np.argsort(times, kind="stable")
    return times[order], np.repeat(np.arange(len(counts)), counts)[order]


@jit
def _uniform(seed: Int64s) -> float:
    """A random number above 0 and up to 1 (xorshift)."""
    drawn = seed[0]
    drawn ^= drawn << 13
    drawn ^= (drawn >> 7) & 0x01FFFFFFFFFFFFFF
    drawn ^= drawn << 17
    seed[0] = drawn
    return float((drawn >> 11) & 0x1FFFFFFFFFFFFF) / 9007199254740992.0 + 1e-17


@jit
def _jump(selectivity: float, seed: Int64s) -> int:
    """How many entries are passed over until one joins."""
    if selectivity >= 1.0:
        return 0
    if selectivity <= 0.0:
        return 1 << 40
    return int(min(math.log(_uniform(seed)) / math.log(1.0 - selectivity), 1e12))


@jit
def _may_probe(pipeline: Pipeline, node: int, now: float, allowances: Float64s) -> bool:
    """Pay for a probe, if there is something to pay with."""
    allowance = allowances[node]
    if allowance == math.inf:
        return True
    most = max(1.0, allowance * SAVED)
    pipeline.credit[node] = min(most, pipeline.credit[node] + allowance * (now - pipeline.fed_until[node]))
    pipeline.fed_until[node] = now
    if pipeline.credit[node] < 1.0:
        return False
    pipeline.credit[node] -= 1.0
    return True


@jit
def _enter(
    pipeline: Pipeline, depth: int, node: int, now: float, allowances: Float64s, counts: Int64s, seed: Int64s
) -> bool:
    """Insert the partial result of a depth into its state; whether it may probe."""
    place = pipeline.inserted[node] % pipeline.sizes[node]
    for stream in range(pipeline.stack.shape[1]):
        pipeline.entries[node, place, stream] = pipeline.stack[depth, stream]
    pipeline.inserted[node] += 1
    if not _may_probe(pipeline, node, now, allowances):
        return False
    counts[PROBES] += 1
    pipeline.at[depth] = node
    pipeline.place[depth] = _jump(pipeline.selectivity[node], seed)
    return True


@jit
def _run_kernel(
    pipeline: Pipeline,
    times: Float64s,
    streams: Int64s,
    allowances: Float64s,
    limits: NDArray[np.float64],
    counts: Int64s,
    stale: Int64s,
    seed: Int64s,
) -> None:
    """Every arriving tuple is inserted and probes; what it finds is inserted and probes, depth first."""
    stack, entries = pipeline.stack, pipeline.entries
    width, root = stack.shape[1], len(pipeline.parent) - 1
    for arrival in range(len(times)):
        now, head = times[arrival], streams[arrival]
        for stream in range(width):
            stack[0, stream] = NEVER
        stack[0, head] = now
        depth = 0 if _enter(pipeline, 0, head, now, allowances, counts, seed) else -1
        while depth >= 0:
            node = pipeline.at[depth]
            partner = pipeline.sibling[node]
            place = pipeline.place[depth]
            held = min(pipeline.inserted[partner], pipeline.sizes[partner])
            if place >= held:
                depth -= 1
                continue
            slot = (pipeline.inserted[partner] - held + place) % pipeline.sizes[partner]  # the oldest first
            pipeline.place[depth] = place + 1 + _jump(pipeline.selectivity[node], seed)
            for stream in range(width):
                stack[depth + 1, stream] = max(stack[depth, stream], entries[partner, slot, stream])  # one has it
            above = pipeline.parent[node]
            if above != root:
                if _enter(pipeline, depth + 1, above, now, allowances, counts, seed):
                    depth += 1
                continue
            counts[RESULTS] += 1
            for factor in range(len(stale)):
                for stream in range(width):
                    if now - stack[depth + 1, stream] > limits[factor, stream]:
                        stale[factor] += 1
                        break
