"""Commands whose parameters are the fields of a dataclass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from thalweg.cli.parameters import takes


@dataclass(frozen=True, kw_only=True)
class Size:
    width: Annotated[int, typer.Option(min=1, help="How wide.")] = 2
    height: int = 3


@dataclass(frozen=True, kw_only=True)
class Drawing:
    name: Annotated[str, typer.Argument(metavar="NAME")]
    size: Size
    colours: Annotated[list[str] | None, typer.Option("--colour")] = None


@takes(Drawing)
def draw(given: Drawing) -> None:
    """Draw something."""
    typer.echo(repr(given))


app = typer.Typer()
app.command()(draw)


def test_a_group_of_options_is_a_field() -> None:
    done = CliRunner().invoke(app, ["house", "--height", "5", "--colour", "red", "--colour", "blue"])
    assert done.output.strip() == repr(Drawing(name="house", size=Size(height=5), colours=["red", "blue"]))


def test_what_typer_checks_is_checked() -> None:
    done = CliRunner().invoke(app, ["house", "--width", "0"])
    assert done.exit_code == 2
    assert "--width" in done.output


def test_options_stand_in_the_order_of_the_fields() -> None:
    told = CliRunner().invoke(app, ["--help"]).output
    assert "Draw something." in told
    assert told.index("--width") < told.index("--height") < told.index("--colour")
