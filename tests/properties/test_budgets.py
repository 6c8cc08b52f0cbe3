"""Budgets against the whole answer: random joins, data, windows, plans, changes of plan and of the budget.

The whole answer is what a run without a budget says; that it is the oracle's is what ``test_replay`` is about. Here
some runs are compared with the oracle as well.
"""

from __future__ import annotations

import random
import warnings
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import thalweg
from tests.cases import Case, Out
from tests.expressions import ResultTime
from tests.lifetimes import contradictory
from tests.oracle import expected, normalised_table
from tests.properties import test_replay as families
from tests.properties.conformity import EAGER, production_of, tight_memory
from tests.properties.settings import randomized
from tests.properties.strategies import Profile, cases
from thalweg.replayer import ReplayResult, run

JOINS = tuple(profile for profile in vars(families).values() if isinstance(profile, Profile) and profile.kind == "join")
Budget = int | str | None
BUDGETS: tuple[Budget, ...] = (0, 1, 1000, 1_000_000, "0%", "1%", "20%", "60%", "99%")
POLICIES = ("jaqpot", "equal_hj", "ebest_hj", "random_shedding", "harvest", "harvest")
ENOUGH: tuple[Budget, ...] = ("auto", "100%", "250%", 2**62)


def any_join() -> st.SearchStrategy[Case]:
    """Of any family of joins, under a plan that can be paid for."""
    return st.sampled_from(JOINS).flatmap(cases).map(payable)


def payable(case: Case) -> Case:
    migration = case.migration if case.migration in ("jisc", "moving_state") else "jisc"
    limit = case.memory_limit if migration == "jisc" else None
    return replace(case, migration=migration, memory_limit=limit)


def answer(case: Case, budget: Budget, changes: list[tuple[int, Budget]] | None = None, **others: Any) -> ReplayResult:
    assume(not contradictory(case))
    options: dict[str, Any] = {
        "plan": case.plan,
        "states": "auto" if others.get("allocation") == "harvest" else case.states,
        "migration": case.migration,
        "production": production_of(case),
        "memory_limit": case.memory_limit,
        "batch_size": case.batch_size,
        "lateness": case.lateness_text(),
        "adaptive": EAGER if case.eager else True,
        "budget": budget,
    }
    with pytest.MonkeyPatch.context() as patch, tight_memory(case), warnings.catch_warnings():
        warnings.simplefilter("ignore", thalweg.InputWarning)
        patch.setattr("thalweg.adapt.spending.PERIOD", 4)  # divide anew all the time
        return run(
            case.cql(),
            case.tables(),
            time=case.times(),
            options=options | others,
            transitions=list(case.transitions),
            budgets=changes,
        )


def rows(result: ReplayResult) -> Counter[Any]:
    return Counter(normalised_table(result.table))


@randomized(share=60)
@given(case=any_join(), budget=st.sampled_from(BUDGETS), policy=st.sampled_from(POLICIES))
def test_a_budget_leaves_results_out_and_never_adds_any(case: Case, budget: Budget, policy: str) -> None:
    result = answer(case, budget, allocation=policy)
    found, want = rows(result), Counter(expected(case))
    assert found <= want, found - want
    spent = result.summary.budget
    assert spent is not None
    for step in spent.steps:
        assert step.allowed + step.refused == step.wanted
    if case.production == "push" and policy != "harvest":
        assert sum(step.paid for step in spent.steps) == result.summary.probes
    if budget in (0, "0%") and len(case.items) > 1:
        assert not found
        assert not any(step.allowed for step in spent.steps)
    if spent.is_complete:
        assert found == want
        assert spent.share == 1


@randomized(share=40)
@given(case=any_join(), budget=st.sampled_from(ENOUGH), policy=st.sampled_from(POLICIES))
def test_with_as_much_as_it_needs_a_join_leaves_nothing_out(case: Case, budget: Budget, policy: str) -> None:
    result = answer(case, budget, allocation=policy)
    assert rows(result) == Counter(expected(case))
    assert result.summary.budget is not None
    assert result.summary.budget.is_complete
    assert (result.summary.budget.share, result.summary.budget.error) == (1, 0)


@randomized(share=40)
@given(
    case=any_join(),
    budget=st.sampled_from(BUDGETS),
    size=st.sampled_from([1, 3, 16, 65_536]),
    policy=st.sampled_from(POLICIES),
)
def test_the_same_run_refuses_the_same_whatever_the_size_of_batches(
    case: Case, budget: Budget, size: int, policy: str
) -> None:
    case = replace(case, eager=False)
    first, again = (answer(case, budget, allocation=policy) for _ in range(2))
    other = answer(case, budget, batch_size=size, allocation=policy)
    for result in (again, other):
        assert rows(result) == rows(first)
        assert result.summary.budget == first.summary.budget


@randomized(share=40)
@given(
    case=any_join(),
    budget=st.sampled_from(BUDGETS),
    seed=st.integers(0, 2**32),
    policy=st.sampled_from([policy for policy in POLICIES if policy != "random_shedding"]),
)
def test_from_where_the_budget_is_lifted_nothing_is_missing(case: Case, budget: Budget, seed: int, policy: str) -> None:
    """Tuples that were shed stay missing, however: they are in no window."""
    case = replace(case, select=(*case.select, Out(ResultTime(), "found_at")), output="istream")
    whole = answer(case, None)
    times = moments(case)
    lifted = random.Random(seed).randrange(len(times) + 1)
    result = answer(case, budget, [(lifted, None)], allocation=policy)
    after = times[lifted - 1] if lifted else -(2**63)
    assert later(result.table, after) == later(whole.table, after)
    assert rows(result) <= rows(whole)


def moments(case: Case) -> list[int]:
    """The times of the tuples that take part, in total order."""
    from thalweg.replayer.api import open_replay

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", thalweg.InputWarning)
        replay = open_replay(case.cql(), case.tables(), time=case.times(), options={"lateness": case.lateness_text()})
    return sorted(int(time) for arrivals in replay.moving.values() for time in arrivals.times)


def later(table: pa.Table, after: int) -> Counter[Any]:
    """The rows that were found after a moment."""
    times = table.column(table.num_columns - 1).cast(pa.int64()).to_pylist()
    return Counter(normalised_table(table.filter(pa.array([time > after for time in times], pa.bool_()))))


TWO_READERS = """
CREATE QUERY short AS SELECT a.n AS a, b.n AS b, c.n AS c FROM a, b, c
    WHERE a.k = b.k AND b.k = c.k AND a.n > 2 WINDOW RANGE 4 MICROSECONDS;
CREATE QUERY long AS SELECT a.n AS a, b.n AS b, c.n AS c FROM a, b, c
    WHERE a.k = b.k AND b.k = c.k AND b.n < 30 WINDOW RANGE 11 MICROSECONDS
"""


@pytest.mark.parametrize("seed", range(25))
def test_readers_of_one_join_share_its_budget(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while they come and go: what was spent before is not forgotten."""
    monkeypatch.setattr("thalweg.adapt.spending.PERIOD", 16)
    from thalweg.replayer.api import run_all

    rng = random.Random(seed)
    streams = {
        name: {"ts": sorted(rng.choices(range(60), k=40)), "k": rng.choices(range(3), k=40), "n": list(range(40))}
        for name in "abc"
    }
    entries = [(50, "short", "leave"), (80, "short", "enter")] if rng.random() < 0.5 else []
    budget = rng.choice(BUDGETS)

    def answers(options: dict[str, Any], **others: Any) -> dict[str, ReplayResult]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", thalweg.InputWarning)
            return run_all(TWO_READERS, streams, options=options, entries=entries, **others)

    whole, some = answers({}), answers({"budget": budget})
    lifted = answers({"budget": budget}, budgets=[(0, None)])
    for name, result in whole.items():
        assert rows(some[name]) <= rows(result)
        assert rows(lifted[name]) == rows(result)
    spent = some["long"].summary.budget
    assert spent is not None
    assert [sum(step.wanted for step in spent.steps if (step.stream, step.step) == (alias, 1)) for alias in "abc"] != [
        0
    ] * 3
    assert sum(step.allowed for step in spent.steps) == some["long"].summary.probes
    assert whole["short"].table.num_rows > 0 < whole["long"].table.num_rows
