"""Tables that people read."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal

import pyarrow as pa
import pytest
from rich.console import Console

from thalweg.cli.render import cell, print_preview, size


def shown(table: pa.Table, width: int = 100) -> list[str]:
    console = Console(file=io.StringIO(), width=width, markup=False, highlight=False, emoji=False)
    print_preview(console, table)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_a_preview_shows_values_as_they_are() -> None:
    table = pa.table({"sym": ["[bold]:smile:", None], "price": [1.5, 20.0]})
    assert shown(table) == [
        "sym             price",
        "─────────────────────",
        "[bold]:smile:     1.5",
        "NULL             20.0",
        "(2 rows)",
    ]


def test_a_preview_of_nothing_shows_the_columns() -> None:
    assert shown(pa.table({"k": pa.array([], pa.int64())})) == ["k", "─", "(0 rows)"]


def test_a_preview_says_what_it_leaves_out() -> None:
    table = pa.table({f"column{i}": ["x" * 20] * 100 for i in range(5)})
    lines = shown(table, width=50)
    assert lines[0].split() == ["column0", "column1"]
    assert len(lines) == 2 + 20 + 1 + 1  # the note is longer than the width
    assert " ".join(lines[-2:]) == "(100 rows; the first 20 are shown; 3 of 5 columns do not fit)"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("x" * 61, "x" * 59 + "…"),
        (Decimal("1.10"), "1.10"),
        ([1, None], "[1, None]"),
        (b"\xff", "0xff"),
        (dt.date(2024, 5, 1), "2024-05-01"),
        (dt.datetime(2024, 5, 1, 9, 30), "2024-05-01 09:30:00"),
        (dt.datetime(2024, 5, 1, 9, 30, 0, 10), "2024-05-01 09:30:00.00001"),
        (dt.datetime(2024, 5, 1, 9, 30, 0, 500000, dt.UTC), "2024-05-01 09:30:00.500000+00:00"),
    ],
)
def test_cells(value: object, text: str) -> None:
    assert cell(value) == text


def test_sizes() -> None:
    assert [size(n) for n in (0, 1023, 1024, 5 << 20, 7 << 40)] == ["0 B", "1023 B", "1.0 KiB", "5.0 MiB", "7.0 TiB"]
