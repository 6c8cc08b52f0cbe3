from fractions import Fraction
from itertools import combinations

import pytest

from thalweg.errors import PlanError
from thalweg.plan.transition import classify
from thalweg.plan.tree import LinearPlan, Node, TreePlan, left_deep, parse_plan


def pipeline(text: str, aliases: str = "RSTU") -> TreePlan:
    plan = parse_plan(text, aliases)
    assert isinstance(plan, TreePlan)
    return plan.keeping_all()


def nodes(*names: str, aliases: str = "RSTU") -> frozenset[Node]:
    return frozenset(frozenset(aliases.index(alias) for alias in name) for name in names)


OLD = pipeline("((R S) T) U")  # JISC, figure 3a


def test_figure_3b() -> None:
    change = classify(OLD, pipeline("((U T) S) R"))
    assert change.incomplete == nodes("UT", "UTS")
    assert change.complete == nodes("RSTU")
    assert change.discarded == nodes("RS", "RST")


def test_figure_3c() -> None:
    change = classify(OLD, pipeline("((S R) U) T"))
    assert change.complete == nodes("RS", "RSTU")
    assert change.incomplete == nodes("SRU")
    assert change.discarded == nodes("RST")


def test_figure_3d() -> None:
    change = classify(OLD, pipeline("((S T) R) U"))
    assert change.incomplete == nodes("ST")
    assert change.complete == nodes("RST", "RSTU")
    assert change.discarded == nodes("RS")


def test_figure_4_what_was_incomplete_stays_so() -> None:
    first = classify(OLD, pipeline("((S T) R) U"))
    assert first.incomplete == nodes("ST")
    second = classify(pipeline("((S T) R) U"), pipeline("((S T) U) R"), first.incomplete)
    assert second.incomplete == nodes("ST", "STU")
    completed_meanwhile = classify(pipeline("((S T) R) U"), pipeline("((S T) U) R"))
    assert completed_meanwhile.incomplete == nodes("STU")


def test_set_difference_moves_like_a_join() -> None:
    change = classify(pipeline("((A B) C) D", "ABCD"), pipeline("((A D) B) C", "ABCD"))
    assert change.incomplete == nodes("AD", "ADB", aliases="ABCD")
    assert change.complete == nodes("ADBC", aliases="ABCD")


def test_only_kept_states_exist() -> None:
    assert classify(OLD.keeping_none(), OLD).incomplete == nodes("RS", "RST")
    to_nothing = classify(OLD, OLD.keeping_none())
    assert to_nothing.states == {frozenset(range(4)): "complete"}
    assert to_nothing.discarded == nodes("RS", "RST")


def test_a_linear_plan_has_no_state_but_the_root() -> None:
    linear = LinearPlan(((1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2)))
    assert classify(OLD, linear).discarded == nodes("RS", "RST")
    assert classify(linear, OLD).incomplete == nodes("RS", "RST")


def test_no_change_changes_nothing() -> None:
    change = classify(OLD, OLD)
    assert change.incomplete == change.discarded == frozenset()
    bushy = pipeline("(R S) (T U)")
    assert classify(bushy, pipeline("(U T) (S R)")).incomplete == frozenset()


def test_plans_of_different_queries_do_not_mix() -> None:
    with pytest.raises(PlanError, match="a plan of 3 streams cannot replace one of 4"):
        classify(OLD, pipeline("(R S) T", "RST"))


def complete_after_swap(joins: int, i: int, j: int) -> int:
    """Complete states after exchanging the streams at two positions (JISC 5.2; 0 and 1 are the first join's leaves)."""
    order = list(range(joins + 1))
    old = TreePlan(left_deep(order)).keeping_all()
    order[i], order[j] = order[j], order[i]
    return len(classify(old, TreePlan(left_deep(order)).keeping_all()).complete)


@pytest.mark.parametrize("joins", range(1, 12))
def test_a_swap_leaves_all_but_the_states_between_complete(joins: int) -> None:
    for i, j in combinations(range(1, joins + 1), 2):
        assert complete_after_swap(joins, i, j) == joins - (j - i)
    for j in range(2, joins + 1):  # the other leaf of the first join is at position 1, too
        assert complete_after_swap(joins, 0, j) == joins - (j - 1)


@pytest.mark.parametrize("joins", range(2, 12))
def test_mean_and_variance_of_the_complete_states_when_near_positions_swap(joins: int) -> None:
    weights = {pair: Fraction(1, pair[1] - pair[0]) for pair in combinations(range(1, joins + 1), 2)}
    total = sum(weights.values())
    counts = {pair: complete_after_swap(joins, *pair) for pair in weights}
    mean = sum(weights[pair] * counts[pair] for pair in weights) / total
    variance = sum(weights[pair] * (counts[pair] - mean) ** 2 for pair in weights) / total
    n, harmonic = joins, sum(Fraction(1, r) for r in range(1, joins + 1))
    assert mean == (2 * n * harmonic - 3 * n + 1) / (2 * harmonic - 2)
    assert variance == (2 * n**2 * harmonic - 5 * n**2 + 6 * n - 2 * harmonic - 1) / (12 * (harmonic - 1) ** 2)
