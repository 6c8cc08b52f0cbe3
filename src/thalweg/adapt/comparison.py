"""Comparing plans: what a look has shown, whether that is cause to compare, which plan is best, whether it pays."""

from __future__ import annotations

import math
from dataclasses import dataclass

from thalweg.adapt.decision import Action
from thalweg.adapt.drift import drift
from thalweg.adapt.experience import SHARED, Experience
from thalweg.adapt.prices import transition_price
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.plan_cost import plan_cost
from thalweg.plan.search import choose_plan
from thalweg.plan.statistics import Statistics
from thalweg.plan.tree import Plan
from thalweg.settings import Adaptivity, States


@dataclass(frozen=True, slots=True)
class View:
    """What a look has shown: the streams, and what a tuple costs under the running plan.

    ``predicted`` and ``observed`` are averages over the same looks, ``recent`` is what was observed since the last.
    """

    statistics: Statistics
    predicted: float
    observed: float
    recent: float

    @property
    def bias(self) -> float:
        return math.log(self.observed / self.predicted)


@dataclass(frozen=True, slots=True)
class Reference:
    """What was known when plans were last compared: the running plan's bias, and the streams."""

    bias: float
    statistics: Statistics


@dataclass(frozen=True, slots=True)
class Alternative:
    """A plan to change to, with its expected cost per tuple, corrected by experience, and the price of the change."""

    plan: Plan
    cost: float
    price: float


def cause(view: View, reference: Reference | None, graph: JoinGraph, deviation: float) -> str | None:
    """Why plans should be compared again, if they should; without a reference, nobody has compared them."""
    if reference is None:
        return "nobody has compared plans yet"
    bound = math.log1p(deviation)
    if abs(view.bias - reference.bias) >= bound:
        ratios = math.exp(reference.bias), math.exp(view.bias)
        return f"the observed cost went from {ratios[0]:.2f} to {ratios[1]:.2f} times the predicted one"
    moved = drift(graph, reference.statistics, view.statistics)
    return f"the streams moved by {math.expm1(moved):.0%}" if moved >= bound else None


def alternative(plan: Plan, running: Plan, view: View, graph: JoinGraph, experience: Experience) -> Alternative:
    """A plan as one to change to from the running one."""
    cost = plan_cost(plan, graph, view.statistics).per_tuple
    price = transition_price(running, plan, graph, view.statistics)
    return Alternative(plan, cost * experience.correction(plan, view.bias), price)


def best_alternative(
    states: States, running: Plan, view: View, graph: JoinGraph, experience: Experience
) -> Alternative:
    """The cheapest of what a search among plans with these states finds, and of what has run before.

    If the model knows nothing of what makes the running plan so dear, plans of other kinds may be spared it.
    """
    kinds: list[States] = [states]
    if states == "auto" and view.bias > SHARED:
        kinds += ["none", "all"]
    plans = [choose_plan(graph, view.statistics, kind) for kind in kinds] + experience.plans
    return min((alternative(plan, running, view, graph, experience) for plan in plans), key=lambda each: each.cost)


def weigh(view: View, other: Alternative, streak: int, settings: Adaptivity) -> tuple[Action, str]:
    """Whether changing to another plan has been worth it for long enough, and why.

    ``streak``: in how many looks in a row, before this one, it was.
    """
    gain = view.predicted - other.cost
    share = gain / view.predicted
    if share <= settings.gain:
        return "stay", f"a gain of {share:.0%} is not worth a change"
    if gain * settings.horizon <= other.price:
        return "stay", f"a gain of {gain:.0f} ns per tuple does not pay the price of the change"
    if streak + 1 < settings.persistence:
        return "wait", f"a gain of {share:.0%} has been seen in {streak + 1} of {settings.persistence} looks"
    return "change", f"a gain of {share:.0%} is expected"
