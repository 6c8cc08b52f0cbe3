"""Plans of set differences: their texts, and what a change leaves complete (JISC 4.7)."""

import pytest

from thalweg.errors import PlanError
from thalweg.plan.difference import DifferencePlan, as_written, format_any, parse_difference
from thalweg.plan.transition import classify
from thalweg.plan.tree import Node

ALIASES = ["A", "B", "C", "D"]


def nodes(*names: str) -> frozenset[Node]:
    return frozenset(frozenset(ALIASES.index(alias) for alias in name) for name in names)


@pytest.mark.parametrize("text", ["((A - D) - B) - C", "A - D - B - C", "(((a - d) - b) - c)", "(A - `D`) - B - C"])
def test_parentheses_change_nothing(text: str) -> None:
    assert parse_difference(text, ALIASES) == DifferencePlan((3, 1, 2))


def test_a_text_is_read_as_it_was_written() -> None:
    for plan in (as_written(4), DifferencePlan((3, 1, 2))):
        assert parse_difference(format_any(plan, ALIASES), ALIASES) == plan
    odd = ["a stream", "b-c"]
    assert format_any(as_written(2), odd) == "`a stream` - `b-c`"
    assert parse_difference("`a stream` - `b-c`", odd) == as_written(2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A B C D", "plan 'A B C D': 'B' has no place there in a set difference. Write it like 'A - B - C - D'."),
        ("A - (B - C) - D", "'(' has no place there"),
        ("A - - B", "'-' has no place there"),
        ("A - B) - C - D", "')' has no place there"),
        ("A: B C D", "':' has no place there"),
        ("(A - B - C - D", "it ends too early"),
        ("A - B - C -", "it ends too early"),
        ("", "it ends too early"),
        ("A - B - C", "takes every other stream of the query once from 'A'"),
        ("A - B - B - C - D", "takes every other stream of the query once from 'A'"),
        ("B - A - C - D", "takes every other stream of the query once from 'A'"),
        ("A - B - C - E", "'E' is not a stream of the query. Its streams are A, B, C, D."),
        ("A-B - C - D", "'A-B' is not a stream of the query"),
    ],
)
def test_what_is_no_set_difference_is_refused(text: str, message: str) -> None:
    with pytest.raises(PlanError) as raised:
        parse_difference(text, ALIASES)
    assert message in str(raised.value)


def test_the_change_of_the_paper() -> None:
    old, new = (parse_difference(text, ALIASES) for text in ("((A - B) - C) - D", "((A - D) - B) - C"))
    change = classify(old, new)
    assert change.incomplete == nodes("AD", "ADB")
    assert change.complete == nodes("ADBC")
    assert change.discarded == nodes("AB", "ABC")


def test_a_difference_of_the_same_streams_stays_complete() -> None:
    change = classify(DifferencePlan((1, 2, 3)), DifferencePlan((2, 1, 3)))
    assert change.incomplete == nodes("AC")
    assert change.complete == nodes("ABC", "ABCD")
