"""What the stories of ``thalweg demo`` share: the opening, and how answers are compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console


def introduce(console: Console, streams: Mapping[str, pa.Table], seconds: int) -> None:
    from thalweg.cli import demo_data as shop

    total = sum(table.num_rows for table in streams.values())
    console.print("A join that changes its plan while it runs", style="bold")
    console.print(
        f"""
An online shop: {seconds} seconds of ads, clicks, orders and coupons around noon, {total:,}
tuples. Which ads, clicks and coupons led to which orders?
"""
    )
    console.print("".join(f"    {line}\n" for line in shop.QUERY.splitlines()))
    console.print(
        """\
In the morning regular customers click and order, and ads reach other people. At
noon a campaign begins: all ads now go to some of the regulars, most of whom click
and do not order. So first ads ⋈ clicks is small and clicks ⋈ orders is large, and
after noon it is the other way round: no single plan is good all day."""
    )


def headline(console: Console, text: str) -> None:
    console.print(f"\n{text}", style="bold")
    console.print("─" * len(text))


def same_rows(one: pa.Table, other: pa.Table) -> bool:
    """Whether two tables hold the same rows, equally often, in any order.

    >>> import pyarrow as pa
    >>> table = pa.table({"x": [1, 2, 2]})
    >>> same_rows(table, pa.table({"x": [2, 1, 2]})), same_rows(table, pa.table({"x": [1, 1, 2]}))
    (True, False)
    """
    order = [(name, "ascending") for name in one.column_names]
    return one.column_names == other.column_names and bool(one.sort_by(order).equals(other.sort_by(order)))


def checksum(table: pa.Table) -> int:
    """A 64-bit sum over the rows of a table of integers; their order leaves no trace.

    >>> import pyarrow as pa
    >>> one, other = pa.table({"x": [1, 2], "y": [3, 4]}), pa.table({"x": [2, 1], "y": [4, 3]})
    >>> checksum(one) == checksum(other), checksum(one) == checksum(one.slice(1))
    (True, False)
    """
    import numpy as np

    mixed = np.zeros(table.num_rows, np.uint64)
    for column in table.columns:
        mixed = (mixed ^ column.to_numpy().astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    return int(mixed.sum(dtype=np.uint64))
