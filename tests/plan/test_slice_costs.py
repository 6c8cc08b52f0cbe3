"""State-Slice's equations against each other, and against its figure 10 counted by hand."""

from __future__ import annotations

from itertools import product

import pytest

from thalweg.plan.slice_costs import SharedCost, TwoQueries, chain_tuples, pull_up, push_down, savings, state_slice

GRID = list(product((0.1, 1 / 6, 0.5, 0.9), (0.01, 0.2, 0.5, 0.8, 1.0), (0.025, 0.1, 0.4, 1.0)))
FAST = 1e9
"""Tuples per second, so many that what grows with λ alone is nothing."""


def saved(other: float, slices: float) -> float:
    return (other - slices) / other


@pytest.mark.parametrize(("ratio", "selected", "joined"), GRID)
def test_savings_are_what_the_equations_differ_by(ratio: float, selected: float, joined: float) -> None:
    two = TwoQueries(FAST, 60 * ratio, 60, selected, joined)
    up, down, chain = pull_up(two), push_down(two), state_slice(two)
    expected = savings(two.ratio, selected, joined)
    assert saved(up.tuples, chain.tuples) == pytest.approx(expected.memory_pull_up)
    assert saved(down.tuples, chain.tuples) == pytest.approx(expected.memory_push_down)
    assert saved(up.work, chain.work) == pytest.approx(expected.work_pull_up, abs=1e-6)
    assert saved(down.work, chain.work) == pytest.approx(expected.work_push_down, abs=1e-6)
    assert min(expected.memory_push_down, expected.work_pull_up, expected.work_push_down) > 0
    assert expected.memory_pull_up > 0 or selected == 1


def test_the_papers_formulas_of_savings() -> None:
    """As the paper prints them, with other numbers: ρ = 1/4, Sσ = 1/5, S⋈ = 1/10."""
    found = savings(0.25, 0.2, 0.1)
    assert found.memory_pull_up == pytest.approx(0.75 * 0.8 / 2)
    assert found.memory_push_down == pytest.approx(0.25 / (1 + 0.5 + 0.15))
    assert found.work_pull_up == pytest.approx((0.6 + 0.175) / 1.2)
    assert found.work_push_down == pytest.approx(0.02 / (0.2 + 0.2 + 0.02 + 0.025))


def test_the_terms_of_each_equation() -> None:
    two = TwoQueries(rate=10, short=10, long=60, selected=0.2, joined=0.1)
    assert pull_up(two) == SharedCost(1200, 12000, 20, 0, 1200, 1200, 0)
    assert push_down(two) == SharedCost(900, pytest.approx(4000), 30, 10, pytest.approx(240), 0, 200)
    assert state_slice(two) == SharedCost(800, 4000, 40, 10, 0, 200, 20)
    assert pull_up(two).work == 14420


def test_a_chain_of_two_lineages_is_what_equation_3_says() -> None:
    two = TwoQueries(rate=40, short=5, long=30, selected=0.3, joined=0.1)
    first = chain_tuples([(two.rate * two.selected, two.long), (two.rate * (1 - two.selected), two.short)])
    assert first + chain_tuples([(two.rate, two.long)]) == pytest.approx(state_slice(two).tuples)


def test_without_a_selection_a_chain_holds_what_one_join_holds() -> None:
    """Theorem 3."""
    two = TwoQueries(rate=40, short=5, long=30, selected=1.0, joined=0.1)
    assert state_slice(two).tuples == pull_up(two).tuples
