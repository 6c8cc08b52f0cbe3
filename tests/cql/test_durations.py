from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.cql.randomness import cases
from thalweg.cql import format_interval, parse_interval
from thalweg.cql.durations import LONGEST_US, UNITS
from thalweg.errors import OptionError


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("5 seconds", 5_000_000),
        ("500 ms", 500_000),
        ("2 min", 120_000_000),
        ("1 us", 1),
        ("7 µs", 7),
        ("3h", 10_800_000_000),
        ("1d", 86_400_000_000),
        ("1 WEEK", 604_800_000_000),
        (".5 Seconds", 500_000),
        ("1 hour 30 minutes", 5_400_000_000),
        ("INTERVAL '5' SECONDS", 5_000_000),
        ("  '5 seconds' ", 5_000_000),
        ("0 s", 0),
    ],
)
def test_lengths(text: str, microseconds: int) -> None:
    assert parse_interval(text) == microseconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a length of time is missing; write a number and a unit, as in 5 seconds"),
        ("5", "'5' is not a length of time; write a number and a unit, as in 5 seconds"),
        ("seconds", "'seconds' is not a length of time; write a number and a unit, as in 5 seconds"),
        ("5 seconds ago", "'5 seconds ago' is not a length of time; write a number and a unit, as in 5 seconds"),
        ("-5 s", "'-5 s' is negative; a length of time is zero or more"),
        ("1.5 us", "'1.5 us' is not a whole number of microseconds"),
        ("2 years", "a year has no fixed length; write days instead"),
        (
            "3 moons",
            "unknown unit of time 'moons'; the units are microsecond, millisecond, second, minute, hour, day, week",
        ),
        (
            "999999999999 days",
            "'999999999999 days' is longer than any stream; the longest is 4611686018427387904 microseconds",
        ),
        (5, "a length of time is a text such as '5 seconds', not 5"),
    ],
)
def test_what_is_no_length(text: object, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_interval(text)  # type: ignore[arg-type]
    assert str(caught.value) == message


@cases(100)
@given(st.integers(0, LONGEST_US))
def test_formatted_lengths_are_read_back(microseconds: int) -> None:
    assert parse_interval(format_interval(microseconds)) == microseconds


@cases(100)
@given(st.text(alphabet="0123456789.+-'\" eEsmhdµ\t٣²") | st.text())
@example("-\t0 s")
def test_any_text_is_a_length_or_an_error(text: str) -> None:
    try:
        microseconds = parse_interval(text)
    except OptionError:
        return
    assert 0 <= microseconds <= LONGEST_US


@cases(100)
@given(st.integers(0, 10_000), st.sampled_from(sorted(UNITS)))
def test_every_unit(number: int, unit: str) -> None:
    assert parse_interval(f"{number} {unit}") == parse_interval(f"{number}{unit.upper()}") == number * UNITS[unit]
