"""An experiment's document as tables that a person reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from thalweg.experiments.experiment import Claim, Document, Row, Value


def render(document: Document) -> RenderableType:
    """The machine, a table per part of the measurement, and the claims with their verdicts."""
    return Group(*_sections(document))


def _sections(document: Document) -> Iterator[RenderableType]:
    yield Text(f"{document['bench']} ({document['scale']})", style="bold")
    yield Text(", ".join(f"{name} {_text(value)}" for name, value in document["machine"].items()), style="dim")
    for part, rows in groupby(document["rows"], key=lambda row: row["part"]):
        yield Text()
        yield _measurements(str(part), list(rows))
    if document["claims"]:
        yield Text()
        yield _claims(document["claims"])


def _measurements(part: str, rows: Sequence[Row]) -> Table:
    names = list(dict.fromkeys(name for row in rows for name in row if name != "part"))
    table = Table(title=part, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in names:
        numeric = all(not isinstance(row.get(name), str) for row in rows)
        table.add_column(name.replace("_", " "), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_text(row.get(name)) for name in names))
    return table


def _claims(claims: Sequence[Claim]) -> Table:
    table = Table(title="claims", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("claim", overflow="fold")
    table.add_column("measured", justify="right")
    table.add_column("bar", justify="right")
    table.add_column("holds")
    for claim in claims:
        verdict = Text("yes", style="green") if claim["holds"] else Text("no", style="bold red")
        table.add_row(claim["claim"], _text(claim["measured"]), claim["bar"], verdict)
    return table


def _text(value: Value) -> str:
    """A value as a person writes it: thousands separated, three to four digits of a fraction.

    >>> _text(1234567), _text(0.123456), _text(12345.6), _text(None), _text(True)
    ('1,234,567', '0.1235', '12,346', '', 'yes')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else value
