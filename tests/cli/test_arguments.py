"""Arguments of the command line, well and badly formed."""

from __future__ import annotations

import pytest
import typer

from thalweg.cli.values import adaptivity, named, switches, time_columns
from thalweg.settings import Adaptivity


def test_named_values() -> None:
    assert named(["A=a.csv", "B=x=y.csv", " C = c.csv "], "--source", "A=a.csv") == {
        "A": "a.csv",
        "B": "x=y.csv",
        "C": "c.csv",
    }


@pytest.mark.parametrize("text", ["a.csv", "=a.csv", "A=", ""])
def test_a_value_without_its_name(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=f"'{text}' is not of the form A=a.csv"):
        named([text], "--source", "A=a.csv")


def test_a_name_given_twice() -> None:
    with pytest.raises(typer.BadParameter, match="'A' is given twice"):
        named(["A=a.csv", "A=b.csv"], "--source", "A=a.csv")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], {"A": "ts", "B": "ts"}),
        (["at"], {"A": "at", "B": "at"}),
        (["B=at"], {"A": "ts", "B": "at"}),
        (["when", "B=at"], {"A": "when", "B": "at"}),
    ],
)
def test_time_columns(values: list[str], expected: dict[str, str]) -> None:
    assert time_columns(values, ["A", "B"]) == expected


def test_a_time_column_of_no_source() -> None:
    with pytest.raises(typer.BadParameter, match="'C' is no source; the sources are: A, B"):
        time_columns(["C=ts"], ["A", "B"])


def test_two_time_columns_for_all() -> None:
    with pytest.raises(typer.BadParameter, match="both 'x' and 'y' are for all streams"):
        time_columns(["x", "y"], ["A"])


def test_switches_keep_linear_plans_whole() -> None:
    assert switches(["100000:(B C) A", "200_000:A: B C; B: A C; C: A B"]) == [
        (100_000, "(B C) A"),
        (200_000, "A: B C; B: A C; C: A B"),
    ]


@pytest.mark.parametrize("text", ["(B C) A", "100000", "100000:", "-5:(B C) A", "1.5:(B C) A", ":A B"])
def test_a_switch_that_is_none(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not of the form"):
        switches([text])


def test_adaptive_asked_for_holds_for_a_written_plan_too() -> None:
    assert adaptivity(None) is True
    assert adaptivity(False) is False
    assert adaptivity(True) == Adaptivity()
