"""Who decides about a bucket, without a driver: who is there under which policies, and what is known later."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import Mock

import pytest

from tests.driver.test_bucket_driver import EXCEPT, QUERY
from thalweg.driver.deciders import Deciders
from thalweg.plan.difference import AnyPlan, DifferencePlan
from thalweg.plan.statistics import Statistics
from thalweg.plan.tree import parse_plan
from thalweg.policies import Policies
from thalweg.settings import Adaptivity

KNOWN = Statistics.default(QUERY)
PLANS = [parse_plan(text, QUERY.aliases) for text in ("((h a) b) c", "((h c) b) a")]
ADAPTING = Policies(adaptive=Adaptivity())


@pytest.mark.parametrize(
    ("policies", "plan"),
    [(Policies(), PLANS[0]), (ADAPTING, None), (ADAPTING, DifferencePlan((1, 2)))],
)
def test_nobody_adapts_what_does_not_adapt(policies: Policies, plan: AnyPlan | None) -> None:
    deciders = Deciders(QUERY, policies)
    assert deciders.watch(QUERY, plan, KNOWN, chosen=True) is None
    deciders.go_on(QUERY, plan, KNOWN, Mock(), held=False)
    deciders.watch_again(QUERY, plan, None)
    assert deciders.controller is None
    assert deciders.to_json(controller=True)["controller"] is None


def test_gates_are_decided_about_where_that_is_left_open() -> None:
    assert Deciders(QUERY, Policies(production="auto")).production is not None
    for query, policies in ((QUERY, Policies(production="jit")), (EXCEPT, Policies(production="auto"))):
        deciders = Deciders(query, policies)
        assert deciders.production is None
        deciders.consider_gates(Mock())
        deciders.gates_are_gone(None)


def test_what_was_decided_stays_known_when_windows_are_filled_anew() -> None:
    deciders = Deciders(QUERY, ADAPTING)
    first = deciders.watch(QUERY, PLANS[0], KNOWN, chosen=True)
    assert first is not None
    first.follow(PLANS[1], KNOWN)
    deciders.go_on(QUERY, PLANS[1], KNOWN, Mock(counts=(0,) * 6), held=True)
    again = deciders.controller
    assert again is not None
    assert again is not first
    assert (again.plan, again.decisions, again.changes) == (PLANS[1], first.decisions, 1)


def test_others_can_go_on_by_what_these_have_learned() -> None:
    deciders, others = (Deciders(QUERY, Policies(production="auto", adaptive=Adaptivity())) for _ in range(2))
    first = deciders.watch(QUERY, PLANS[0], KNOWN, chosen=True)
    assert first is not None
    first.follow(PLANS[1], KNOWN)
    known: dict[str, Any] = json.loads(json.dumps(deciders.to_json(controller=True)))
    others.restore(known)
    others.watch_again(QUERY, PLANS[1], known["controller"])
    assert json.loads(json.dumps(others.to_json(controller=True))) == known
    assert others.to_json(controller=False)["controller"] is None
