from itertools import product

import pytest

from tests.plan.queries import SECOND, query, sql, stream, theta
from thalweg.cql.query import Operand, RangeWindow, Theta
from thalweg.plan.selectivity import between_times, guessed, is_time, of_spreads


def test_guesses_when_nothing_is_known() -> None:
    assert guessed(theta("A.x", "<", "B.x")) == pytest.approx(1 / 3)
    assert guessed(theta("A.x", "<>", "B.x")) > 0.9
    narrow = guessed(theta("A.x", "<", "B.x", 3, absolute=True))
    assert narrow < 1 / 3
    assert guessed(theta("A.x", ">=", "B.x", 3, absolute=True)) == pytest.approx(1 - narrow)


@pytest.mark.parametrize(
    ("predicate", "left", "right", "share"),
    [
        (theta("A.x", "<", "B.x"), (0, 10), (0, 10), 0.5),
        (theta("A.x", ">", "B.x"), (0, 10), (20, 30), 1e-9),
        (theta("A.x", "<", "B.x"), (0, 10), (20, 30), 1.0),
        (theta("A.x", "<", "B.x"), (0, 10), (0, 20), 0.75),
        (theta("A.x", "<", "B.x", 5.0), (0, 10), (0, 10), 0.875),
        (theta("A.x", "<", "B.x", 1.0, absolute=True), (0, 10), (0, 10), 0.19),
        (theta("A.x", ">=", "B.x", 1.0, absolute=True), (0, 10), (0, 10), 0.81),
        (theta("A.x", "<", "B.x"), (3, 3), (0, 10), 0.7),
    ],
)
def test_uniform_operands(
    predicate: Theta, left: tuple[float, float], right: tuple[float, float], share: float
) -> None:
    assert of_spreads(predicate, left, right) == pytest.approx(share, rel=1e-4)


def test_uniform_operands_agree_with_counting() -> None:
    grid = [i / 100 + 0.005 for i in range(100)]
    for offset, absolute in product((-0.7, -0.2, 0.0, 0.3, 1.1), (False, True)):
        predicate = theta("A.x", "<", "B.x", offset, absolute=absolute)
        lefts, rights = [2 * g for g in grid], [0.5 + g for g in grid]
        differences = [abs(a - b) if absolute else a - b for a in lefts for b in rights]
        counted = sum(d < offset for d in differences) / len(differences)
        assert of_spreads(predicate, (0, 2), (0.5, 1.5)) == pytest.approx(counted, abs=0.01)


def test_event_times_spread_over_their_windows() -> None:
    bound = query(
        [stream("A", RangeWindow(SECOND + 1, derived=True)), stream("B", RangeWindow(5 * SECOND + 1, derived=True))]
    )
    lifetimes = [1e6, 5e6]
    within = theta("B.ts", "<=", "A.ts", 1e6)
    since = theta("A.ts", "<=", "B.ts", 5e6)
    assert between_times(bound, within, lifetimes) == pytest.approx(1.0)
    assert between_times(bound, since, lifetimes) == pytest.approx(1.0)
    assert between_times(bound, theta("A.ts", "<", "B.ts"), lifetimes) == pytest.approx(0.1)
    assert between_times(bound, theta("A.x", "<", "B.ts"), lifetimes) is None


def test_an_event_time_is_known_under_a_cast_and_in_any_case() -> None:
    bound = query([stream("A"), stream("B")])
    assert is_time(bound, Operand(0, sql("CAST((A.TS) AS BIGINT)")))
    assert not is_time(bound, Operand(0, sql("A.x")))
    assert not is_time(bound, Operand(0, sql("A.ts + INTERVAL 1 SECOND")))
