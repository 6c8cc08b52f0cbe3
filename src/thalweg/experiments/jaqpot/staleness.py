"""Figure 9 and figure 7 with the paper's kind of states: by the model in :mod:`.pipeline`, not by the engine.

In the engine an entry leaves with its oldest tuple, whatever was refused. So no result is stale there, and nothing has
to be spent on freshness. In the paper a state is a window of its own, which stays as it is when nobody pays for new
entries. That is what figure 9 is about.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from thalweg.errors import FreshnessError
from thalweg.experiments.experiment import Claim, Report, Row, at_most, rounded
from thalweg.experiments.jaqpot.pipeline import SAVED, Counted, allowances_of, fill, pipeline_of, run
from thalweg.experiments.jaqpot.sizes import SEED, Budgets, Staleness
from thalweg.experiments.jaqpot.throughput import Shares, claims_of
from thalweg.experiments.jaqpot.workloads import RATES, SELECTIVITIES, SHAPES, WINDOWS, Shape, drawn
from thalweg.plan.allocation import Allocation, AllocationModel, StreamLoad, allocate, model_of_tree, saturation
from thalweg.plan.allocation.freshness import refresh_rates
from thalweg.plan.allocation.jaqpot import jaqpot
from thalweg.plan.allocation.model import names_of
from thalweg.plan.allocation.set_cover import Cover, cost_of, greedy_cover, least_cover
from thalweg.plan.tree import Join, Node, Tree, TreePlan, joins, parse_plan, state_nodes
from thalweg.settings import AllocationPolicy

FIGURE_9 = "figure 9 a to c: stale results, by a model of the paper's states"
FIGURE_9D = "figure 9 d: what freshness takes of the budget, by a model of the paper's states"
_THROUGHPUT_FRESHNESS = 1.5
"""Times the windows, in figure 7."""
_LEAST_SHARE = 0.2
"""Of saturation: from here on freshness is held in all settings of figure 7."""
FIGURE_7 = "figure 7: results by budget, by a model of the paper's states"

PLANS = {"linear": "((a b) c) d", "bushy": "(a b) (c d)", "weatherboards": "((a b) (c d)) e"}
POLICIES: tuple[AllocationPolicy, ...] = (
    "jaqpot",
    "grepp",
    "best_hj",
    "equal_hj",
    "global_hjpr",
    "ebest_hj",
    "sbest_hj",
)
"""Those that the paper compares. The others keep tuples out of windows or look at parts of them."""
COVERS: dict[str, Cover] = {"the cheapest cover": least_cover, "GH-WMSCP": greedy_cover}


@dataclass(frozen=True, slots=True)
class Modelled:
    """A plan in numbers, whose states are windows of their own."""

    tree: Tree
    model: AllocationModel

    def with_freshness(self, factor: float) -> AllocationModel:
        """So many times the window of each stream."""
        streams = (replace(stream, freshness=factor * stream.lifetime) for stream in self.model.streams)
        return replace(self.model, streams=tuple(streams))

    def run(
        self,
        half_ways: tuple[float, ...],
        factors: tuple[float, ...],
        seconds: float,
        seed: int,
        *,
        settling: float = 0.0,
    ) -> Counted:
        """Fill the states, then allow each half-way join so many probes per second.

        ``settling``: seconds of that until it is counted.
        """
        rng = np.random.default_rng(seed)
        pipeline = pipeline_of(self.tree, self.model)
        begin = fill(pipeline, self.model, rng)
        allowances = allowances_of(self.tree, self.model, half_ways)
        if settling:
            run(pipeline, self.model, allowances, (), rng, begin, settling)
        return run(pipeline, self.model, allowances, factors, rng, begin + settling, seconds)


def draw(plan: str, rng: np.random.Generator) -> Modelled:
    """A plan with parameters of table 3, those of its states included."""
    return draw_tree(_tree(PLANS[plan])[0], rng)


def draw_tree(tree: Tree, rng: np.random.Generator) -> Modelled:
    """The same for a tree."""
    names = names_of(len(tree.node))
    streams = [StreamLoad(name, drawn(rng, RATES), round(drawn(rng, WINDOWS))) for name in names]
    selectivities = {join.node: drawn(rng, SELECTIVITIES) for join in joins(tree)}
    sizes = {node: float(round(drawn(rng, WINDOWS))) for node in state_nodes(tree)}
    return Modelled(tree, model_of_tree(tree, streams, selectivities, sizes))


def measured(rates: Sequence[float], window: int, selectivities: Sequence[float]) -> Modelled:
    """The plan of the weatherboards, with what was measured of the data; selectivities from below."""
    tree, names = _tree(PLANS["weatherboards"])
    streams = [StreamLoad(name, rate, window) for name, rate in zip(names, rates, strict=True)]
    nodes: list[Node] = [join.node for join in joins(tree)]
    sizes = {node: float(window) for node in state_nodes(tree)}
    return Modelled(tree, model_of_tree(tree, streams, dict(zip(nodes, selectivities, strict=True)), sizes))


def _tree(text: str) -> tuple[Join, list[str]]:
    names = sorted(set(text) - set("() "))
    plan = parse_plan(text, names)
    if not isinstance(plan, TreePlan) or not isinstance(plan.tree, Join):
        raise ValueError(text)
    return plan.tree, names


def stale_results(sizes: Staleness, weatherboards: Modelled, report: Report) -> tuple[list[Row], list[Claim]]:
    """Figure 9: the policies without a set cover, and JAQPOT with it."""
    stale: list[Row] = []
    spent: list[Row] = []
    for plan in PLANS:
        rng = np.random.default_rng(SEED)
        settings = [weatherboards] if plan == "weatherboards" else _holdable(plan, rng, sizes)
        report(f"figure 9, {plan}: {len(settings)} settings")
        others = [_without_cover(each, sizes, SEED + number) for number, each in enumerate(settings)]
        for place, factor in enumerate(sizes.factors):
            held = [_Held.of(each, factor, sizes, SEED + number) for number, each in enumerate(settings)]
            feasible = [each for each in held if each is not None]
            row: Row = {"part": FIGURE_9, "plan": plan, "freshness": f"{factor:g} x", "settings": len(settings)}
            for policy in POLICIES[1:]:
                shares = [found[place] for each in others if (found := each[policy]) is not None]
                row[policy] = _mean(shares)
            stale.append(row | {"feasible": len(feasible), "jaqpot": _mean([each.stale for each in feasible])})
            row = {"part": FIGURE_9D, "plan": plan, "freshness": f"{factor:g} x", "settings": len(settings)}
            row["feasible"] = len(feasible)
            for name in COVERS:
                row[f"spent_by_{name.replace(' ', '_')}"] = _mean([each.spent[name] for each in feasible])
            spent.append(row)
    worst = max(float(row["jaqpot"] or 0.0) for row in stale)
    claim = "figure 9, by the model: share of stale results of jaqpot, where freshness can be held, at most"
    return [*stale, *spent], [at_most(claim, worst, 0.0)]


def _holdable(plan: str, rng: np.random.Generator, sizes: Staleness) -> list[Modelled]:
    """Settings in which the budget holds the loosest freshness.

    In most of table 3 it does not: a state of thousands of entries that has to be renewed within seconds takes more
    probes than the 300 of the paper's figure. The paper found 8% of its plans infeasible.
    """
    found: list[Modelled] = []
    while len(found) < sizes.settings:
        setting = draw(plan, rng)
        if _holds(setting.with_freshness(max(sizes.factors)), sizes.budget):
            found.append(setting)
    return found


def _holds(model: AllocationModel, budget: float) -> bool:
    try:
        jaqpot(model, budget)
    except FreshnessError:
        return False
    return True


def _mean(shares: Sequence[float]) -> float | None:
    return rounded(statistics.mean(shares)) if shares else None


def _without_cover(setting: Modelled, sizes: Staleness, seed: int) -> dict[str, tuple[float, ...] | None]:
    """Per policy and factor of freshness, the share of stale results; None: it has no results."""
    found: dict[str, tuple[float, ...] | None] = {}
    for policy in POLICIES[1:]:
        half_ways = allocate(setting.model, sizes.budget, policy).of_half_ways(setting.model)
        counted = setting.run(half_ways, sizes.factors, sizes.seconds, seed, settling=SAVED)
        shares = tuple(count / counted.results for count in counted.stale) if counted.results else None
        found[policy] = shares
    return found


@dataclass(frozen=True, slots=True)
class _Held:
    """What JAQPOT does where the budget holds the freshness that was asked.

    Attributes:
        stale: the share of stale results.
        spent: per cover, the share of the budget that goes to freshness.

    """

    stale: float
    spent: dict[str, float]

    @staticmethod
    def of(setting: Modelled, factor: float, sizes: Staleness, seed: int) -> _Held | None:
        model = setting.with_freshness(factor)
        try:
            allocation = jaqpot(model, sizes.budget)
        except FreshnessError:
            return None
        counted = setting.run(allocation.of_half_ways(model), (factor,), sizes.seconds, seed, settling=SAVED)
        refresh = refresh_rates(model)
        spent = {name: min(1.0, cost_of(model, cover(model, refresh)) / sizes.budget) for name, cover in COVERS.items()}
        return _Held(counted.stale[0] / counted.results if counted.results else 0.0, spent)


def throughput(sizes: Budgets, report: Report) -> tuple[list[Row], list[Claim]]:
    """Figure 7 by the model. Where a budget is too small for that freshness, JAQPOT is asked for what it holds."""
    rows: list[Row] = []
    means: dict[Shape, Shares] = {}
    for shape in SHAPES:
        shares: dict[str, dict[int, list[float]]] = {policy: {each: [] for each in sizes.shares} for policy in POLICIES}
        settings = _producible(shape, sizes)
        for number, setting in enumerate(settings):
            report(f"{FIGURE_7}: {shape}, setting {number + 1} of {len(settings)}")
            model = setting.with_freshness(_THROUGHPUT_FRESHNESS)
            most = saturation(model)
            everything = (math.inf,) * len(model.half_ways)
            full = setting.run(everything, (), sizes.seconds, SEED + number).results
            for share in sizes.shares:
                for policy in POLICIES:
                    half_ways = _relaxed(model, most * share / 100, policy).of_half_ways(model)
                    found = setting.run(half_ways, (), sizes.seconds, SEED + number).results
                    shares[policy][share].append(found / full)
        means[shape] = {
            policy: {share: statistics.mean(many) for share, many in mine.items()} for policy, mine in shares.items()
        }
        rows += [
            {"part": FIGURE_7, "plan": shape, "policy": policy}
            | {f"at_{share}%": rounded(found) for share, found in mine.items()}
            for policy, mine in means[shape].items()
        ]
    return rows, claims_of("figure 7 by the model", means, without=("grepp",))


def _producible(shape: Shape, sizes: Budgets) -> list[Modelled]:
    """Settings of table 3 whose results can be produced, and in which a fifth of saturation holds the freshness."""
    rng = np.random.default_rng(SEED)
    found: list[Modelled] = []
    while len(found) < sizes.settings:
        setting = draw(shape, rng)
        if allocate(setting.model, math.inf, "grepp").results > sizes.most_results:
            continue
        model = setting.with_freshness(_THROUGHPUT_FRESHNESS)
        if _holds(model, saturation(model) * _LEAST_SHARE):
            found.append(setting)
    return found


def _relaxed(model: AllocationModel, budget: float, policy: AllocationPolicy) -> Allocation:
    """The allocation; if the budget does not hold the freshness that was asked, for the least that it holds."""
    while True:
        try:
            return allocate(model, budget, policy)
        except FreshnessError as error:
            if not all(map(math.isfinite, error.least)):
                return allocate(model, budget, "grepp")  # a budget of nothing holds nothing
            pairs = zip(model.streams, error.least, strict=True)
            streams = (replace(stream, freshness=least * (1 + _A_LITTLE)) for stream, least in pairs)
            model = replace(model, streams=tuple(streams))


_A_LITTLE = 1e-6
"""The least freshness that can be held is known to more digits than that."""
