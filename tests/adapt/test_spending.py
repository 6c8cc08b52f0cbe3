"""How a running join divides its budget: measured needs, rates that change, budgets that are changed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest

import thalweg
from tests.adapt.workloads import STAR, steady_star, turning_star
from thalweg.adapt.spending import Spender
from thalweg.cql import Source, bind
from thalweg.cql.group import Group
from thalweg.driver.bucket_driver import BucketDriver
from thalweg.errors import OptionError
from thalweg.options import Options
from thalweg.plan import JoinGraph, Statistics, parse_plan
from thalweg.plan.allocation import POLICIES, AllocationModel, divide, model_of_plan, saturation
from thalweg.policies import Policies
from thalweg.replayer import BudgetUse, run
from thalweg.replayer.api import open_replay
from thalweg.settings import AllocationPolicy, Budget

FIXED = {"plan": "((h a) b) c", "adaptive": False}


def used(tables: dict[str, Any], options: dict[str, Any], **others: Any) -> BudgetUse:
    summary = run(STAR, tables, options=FIXED | options, **others).summary
    assert summary.budget is not None
    return summary.budget


def model() -> AllocationModel:
    graph = JoinGraph(3, classes=(frozenset({0, 1, 2}),))
    known = Statistics((100.0, 300.0, 10.0), (500.0, 1500.0, 50.0), ({0: 100.0, 1: 100.0, 2: 100.0},))
    return model_of_plan(parse_plan("(A B) C", "ABC"), graph, known)


def cost(division_feeds: Any, rates: tuple[float, ...]) -> float:
    return math.fsum(feed * rate for path, rate in zip(division_feeds, rates, strict=True) for feed in path)


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "random_shedding"])
@pytest.mark.parametrize("share", [0.01, 0.3, 0.99])
def test_feeds_cost_the_budget_and_no_path_gets_nothing(policy: AllocationPolicy, share: float) -> None:
    budget = Budget(share=share)
    division = divide(model(), budget, policy)
    rates = (100.0, 300.0, 10.0)
    assert division.granted == pytest.approx(share * saturation(model()))
    assert cost(division.feeds, rates) <= division.granted * 1.0001 + sum(rates) * 2 / 1024
    assert min(map(min, division.feeds)) > 0


def test_what_is_shed_pays_for_the_rest() -> None:
    division = divide(model(), Budget.of("50%"), "random_shedding", unpaid={2})
    assert division.feeds == ((math.inf,) * 2,) * 3
    assert division.admitted[0] == division.admitted[1]
    assert 0.5 < division.admitted[0] < 0.8
    assert division.admitted[2] == 1.0


def test_harvests_are_ways_and_some_tuples_look_everywhere() -> None:
    near = replace(model().half_ways[0], profile=(5.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0))
    whole = replace(model().half_ways[1], profile=(1.0,))
    known = replace(model(), half_ways=(near, whole, *model().half_ways[2:]))
    division = divide(known, Budget.of("50%"), "harvest", unpaid={2})
    assert sum(way.share for way in division.ways) == pytest.approx(1.0)
    *harvests, everywhere = division.ways
    assert everywhere == (pytest.approx(0.5 / 16), ((None,) * 2,) * 3)
    for way in harvests:
        assert way.parts[2] == (None, None)
        first, second = way.parts[0]
        assert first is None or 0 in first
        assert second in (None, ())


def test_enough_is_no_limit_nothing_is_nothing_and_relations_pay_nothing() -> None:
    for budget in (Budget(), Budget.of("auto"), Budget.of("100%"), Budget.of(10**9)):
        assert divide(model(), budget, "jaqpot").feeds == ((math.inf,) * 2,) * 3
        assert not divide(model(), budget, "jaqpot").refuses
    assert divide(model(), Budget.of(0), "jaqpot").feeds == ((0.0,) * 2,) * 3
    some = divide(model(), Budget.of("10%"), "jaqpot", unpaid={2}).feeds
    assert some[2] == (math.inf,) * 2
    assert max(some[0]) < math.inf


def test_the_policies_of_the_options_are_those_of_the_registry() -> None:
    assert set(get_args(AllocationPolicy)) == set(POLICIES)


def test_a_budget_is_held_per_second_of_event_time() -> None:
    seconds = 20.0
    tables = steady_star(seconds=seconds)
    whole = used(tables, {"budget": "100%"})
    wanted = sum(step.wanted for step in whole.steps) / seconds
    assert whole.needed == pytest.approx(wanted, rel=0.15)
    for share in (0.2, 0.6):
        use = used(tables, {"budget": f"{share:.0%}"})
        allowed = sum(step.allowed for step in use.steps) / seconds
        assert allowed <= 1.1 * share * wanted
        assert allowed >= 0.7 * share * wanted
        absolute = used(tables, {"budget": int(share * wanted)})
        assert sum(step.allowed for step in absolute.steps) / seconds <= 1.1 * share * wanted


def test_the_estimated_share_is_near_the_true_one() -> None:
    tables = steady_star(seconds=10.0)
    full = run(STAR, tables, options=FIXED).table.num_rows
    for budget in ("30%", "70%"):
        result = run(STAR, tables, options=FIXED | {"budget": budget})
        use = result.summary.budget
        assert use is not None
        assert use.share is not None
        assert use.error is not None
        assert abs(use.share - result.table.num_rows / full) < 4 * use.error
        assert 0 < use.error < 0.2


@pytest.mark.parametrize("policy", ["random_shedding", "harvest"])
def test_a_policy_that_drops_tuples_or_looks_at_parts_keeps_to_its_budget(policy: AllocationPolicy) -> None:
    """And is told what it needs while most is left out."""
    tables = steady_star(seconds=20.0)
    whole = used(tables, {"budget": "100%"})
    wanted = sum(step.paid for step in whole.steps)
    for share in (0.2, 0.6):
        result = run(STAR, tables, options=FIXED | {"budget": f"{share:.0%}", "allocation": policy})
        use = result.summary.budget
        assert use is not None
        assert use.needed == pytest.approx(whole.needed, rel=0.2)
        assert 0.7 * share * wanted <= sum(step.paid for step in use.steps) <= 1.1 * share * wanted
        if policy == "harvest":
            assert use.share is not None
            assert use.error is not None
            full = run(STAR, tables, options=FIXED).table.num_rows
            assert abs(use.share - result.table.num_rows / full) < 4 * use.error
        else:
            assert use.share is None
            assert all(use.shed.values())


@pytest.mark.parametrize("policy", ["jaqpot", "random_shedding", "harvest"])
def test_what_is_explained_of_a_budget_is_about_what_it_finds(policy: AllocationPolicy) -> None:
    tables = steady_star(seconds=10.0)
    options = FIXED | {"budget": "20%", "allocation": policy}
    full = run(STAR, tables, options=FIXED).table.num_rows
    explained = thalweg.explain(STAR, tables, options=options).facts["budget"]["share"]
    assert explained == pytest.approx(run(STAR, tables, options=options).table.num_rows / full, rel=0.5)


def changes(budget: str, seconds: float = 30.0) -> list[str]:
    settings = thalweg.Adaptivity(period=2_000, overhead=10.0)
    plan = {"plan": "((h c) b) a", "adaptive": settings, "budget": budget}
    return [each.reason for each in run(STAR, turning_star(seconds=seconds), options=plan).summary.decisions]


def test_under_a_budget_a_better_plan_is_one_that_finds_more() -> None:
    reasons = changes("20%")
    assert any("results/s" in reason for reason in reasons), reasons
    assert not any("results/s" in reason for reason in changes("100%"))


def test_a_plan_that_costs_less_and_finds_no_more_is_not_changed_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Spender, "promised", lambda _spender, _plan, _statistics: 10.0)
    reasons = changes("20%")
    assert any(reason.endswith("finds 10 results/s as it is, and 10 under the other plan") for reason in reasons)
    assert not any("is expected" in reason for reason in reasons), reasons


def test_what_is_refused_teaches_nothing_about_plans() -> None:
    """A plan that ran while most was refused looked cheap, and was preferred when nothing was."""
    settings = thalweg.Adaptivity(period=500, overhead=10.0)
    for budget, learns in (("20%", False), ("100%", True)):
        options = {"budget": budget, "adaptive": settings, "batch_size": 512}
        learned = []
        replay = open_replay(STAR, steady_star(seconds=2.0), options=options)
        for _ in replay.steps():
            assert replay.driver.controller is not None
            learned.append(replay.driver.controller.to_json()["experience"])
        assert any(learned) is learns


def test_tuples_are_shed_at_one_instant_too() -> None:
    """Looks at the same event time were compared by what had been counted, which has no order."""
    tables = {name: {"ts": [0] * 50 + [10] * 9, "k": [1] * 59} for name in "ab"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("thalweg.adapt.spending.PERIOD", 4)
        text = "SELECT a.k FROM a, b WHERE a.k = b.k WINDOW RANGE 4 MICROSECONDS"
        use = run(text, tables, options={"budget": 1, "allocation": "random_shedding"}).summary.budget
    assert use is not None
    assert all(use.shed.values())


def test_jaqpot_finds_more_than_an_even_division() -> None:
    """Under the same budget (JAQPOT 5)."""
    tables = steady_star(seconds=10.0)
    found = {
        policy: run(STAR, tables, options=FIXED | {"budget": "20%", "allocation": policy}).table.num_rows
        for policy in ("jaqpot", "equal_hj")
    }
    assert found["jaqpot"] > 1.2 * found["equal_hj"], found


def test_what_streams_need_is_measured_anew_while_most_is_refused() -> None:
    """The second half has ten times fewer partners than the first: the first rows would say too much."""
    tables = turning_star(seconds=30.0)
    needed = [used(tables, {"budget": budget}).needed for budget in ("100%", "20%")]
    first = {name: table.slice(0, len(table) // 2) for name, table in tables.items()}
    before = used(first, {"budget": "100%"}).needed
    assert needed[1] == pytest.approx(needed[0], rel=0.2)
    assert not 0.8 < needed[0] / before < 1.25, (needed, before)


def test_the_budget_of_a_driver_is_changed_while_it_runs_if_there_is_one() -> None:
    tables = steady_star(seconds=1.0)
    (query,) = bind(STAR, {name: Source(table.schema, "ts") for name, table in tables.items()})
    driver = BucketDriver(Group.of(query), Policies(states="none", budget=Budget.of(0)))
    driver.begin(Statistics.default(query), None)
    assert driver.spender is not None
    assert driver.spender.division.granted == 0
    driver.set_budget("50%")
    assert driver.spender.division.granted == pytest.approx(driver.spender.division.needed / 2)
    driver.set_budget(None)
    assert not driver.spender.division.refuses
    unlimited = BucketDriver(Group.of(query), Policies())
    unlimited.begin(Statistics.default(query), None)
    assert unlimited.spent is None
    with pytest.raises(OptionError, match="was begun without a budget, and cannot be given one"):
        unlimited.set_budget(10)


def test_on_spark_nothing_that_was_learned_decides_what_is_refused() -> None:
    given = Options(budget=10, production="auto", adaptive=True, memory_limit=4096)
    policies = Policies.of(given, written=False, lasting=False).on_spark(4)
    assert (policies.states, policies.feedback, policies.sharing) == ("none", None, "cpu")
    assert policies.adaptive is not None  # by what is committed
    assert policies.budget is not None
    assert policies.budget.per_second(0) == 2.5
    assert policies.memory_limit == 1024
    unlimited = Policies.of(Options(), written=False, lasting=False)
    assert unlimited.on_spark(4) == unlimited
    target = unlimited.on_spark(4, target_us=5_000_000)
    assert target.budget is not None
    assert target.budget.is_auto
    with pytest.raises(OptionError, match=r"nothing says how long they may take\. Add target_trigger='5 seconds'"):
        Policies.of(Options(budget="auto"), written=False, lasting=False).on_spark(4)
    with pytest.raises(OptionError, match="option target_trigger lets triggers decide"):
        Options(budget="60%", target_trigger="5 seconds")


def test_numbers_in_summaries_are_plain_ones() -> None:
    use = used(steady_star(seconds=1.0), {"budget": "50%"})
    assert not any(isinstance(value, np.generic) for step in use.steps for value in (step.wanted, step.allowed))
