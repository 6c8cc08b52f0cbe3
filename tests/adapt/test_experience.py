"""What plans that have run teach about the cost model, and what watching may cost."""

from __future__ import annotations

import json
import math
from typing import get_args

import pytest

from thalweg.adapt.experience import SHARED, Experience
from thalweg.adapt.ledger import Ledger
from thalweg.adapt.prices import Watching, watching_price
from thalweg.plan import JoinGraph, parse_plan
from thalweg.plan.tree import Plan


def plan(text: str) -> Plan:
    return parse_plan(text, "ABC")


def test_a_plan_that_has_run_has_its_own_bias() -> None:
    experience = Experience()
    experience.learn(plan("(A B) C"), math.log(3), look=1)
    experience.learn(plan("(B C) A"), math.log(1.5), look=2)
    assert experience.correction(plan("(A B) C"), math.log(1.5)) == pytest.approx(2)
    assert experience.correction(plan("(B C) A"), math.log(1.5)) == pytest.approx(1)


def test_a_plan_that_has_not_run_is_taken_to_err_alike_up_to_a_point() -> None:
    unknown = plan("(A C) B")
    assert Experience().correction(unknown, math.log(1.5)) == 1
    assert Experience().correction(unknown, math.log(0.5)) == 1
    assert Experience().correction(unknown, SHARED + math.log(5)) == pytest.approx(1 / 5)


def test_few_plans_are_remembered_and_none_for_ever() -> None:
    texts = ["(A B) C", "(B C) A", "(A C) B", "(B A) C", "(C B) A"]
    experience = Experience()
    for look, text in enumerate(texts):
        experience.learn(plan(text), 0.1 * look, look)
    assert experience.plans == [plan(text) for text in texts[1:]]
    restored = Experience.from_json(json.loads(json.dumps(experience.to_json("ABC"))), "ABC")
    assert restored.plans == experience.plans
    assert restored.correction(plan("(B C) A"), 0.0) == experience.correction(plan("(B C) A"), 0.0)
    experience.learn(plan(texts[0]), 0.0, look=1_000)
    assert experience.plans == [plan(texts[0])]


def test_a_purse_holds_so_much_and_no_more() -> None:
    ledger = Ledger(held=1.0, most=5.0)
    ledger.put(100.0)
    ledger.pay(2.0)
    assert ledger.held == 3.0


def test_what_is_set_aside_pays_for_one_thing_alone() -> None:
    ledger = Ledger(held=1.0, most=5.0)
    ledger.set_aside("gates", 2.0, most=3.0)
    ledger.set_aside("gates", 2.0, most=3.0)
    ledger.put(1.0)
    assert (ledger.held, ledger.aside("gates"), ledger.aside("promise")) == (2.0, 3.0, 0.0)
    ledger.pay(4.0, "gates")
    ledger.open(held=7.0, most=8.0)
    assert (ledger.held, ledger.aside("gates")) == (7.0, -1.0)


def test_more_streams_cost_more_to_watch() -> None:
    graphs = [JoinGraph(n, classes=(frozenset(range(n)),)) for n in (3, 4, 8, 20)]
    for what in get_args(Watching):
        prices = [watching_price(what, graph) for graph in graphs]
        assert prices == sorted(prices)
        assert prices[0] > 0
