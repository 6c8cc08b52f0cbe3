"""Errors as a person sees them, and exit codes."""

from __future__ import annotations

import pytest
import typer

from thalweg.cli.failures import Script, describe, failures
from thalweg.errors import BindError, InputError, Location, PlanError


def exit_code(error: BaseException, *, debug: bool = False) -> int:
    with pytest.raises(typer.Exit) as caught, failures(debug=debug):
        raise error
    return int(caught.value.exit_code)


def test_the_caret_stands_under_the_column() -> None:
    script = Script("q.cql", "SELECT\n  a.prce\nFROM a [NOW]\n")
    assert describe(BindError("no column 'prce'", Location(2, 5), "Try price."), script) == (
        "error: no column 'prce' (line 2, column 5). Try price.\n --> q.cql:2:5\n  |\n2 |   a.prce\n  |     ^"
    )


@pytest.mark.parametrize(
    ("line", "column", "shown", "caret"),
    [
        ("\ta.x", 2, " a.x", " ^"),  # a tab counts as one column, so it takes one cell
        ("'株' = x", 7, "'株' = x", "       ^"),  # a wide character takes two cells
        ("a.x\r", 3, "a.x", "  ^"),
        ("\x1b[1m a", 6, " [1m a", "     ^"),  # nothing from a text reaches the terminal as a command
        ("abc", 4, "abc", "   ^"),  # the end of the text
    ],
)
def test_the_caret_finds_its_cell(line: str, column: int, shown: str, caret: str) -> None:
    lines = describe(BindError("x", Location(1, column)), Script("q", line)).splitlines()
    assert lines[-2:] == [f"1 | {shown}", f"  | {caret}"]


def test_a_place_beyond_the_text_is_named_but_not_shown() -> None:
    text = describe(BindError("x", Location(9, 1)), Script("q.cql", "a"))
    assert text.splitlines() == ["error: x (line 9, column 1).", " --> q.cql:9:1"]


def test_an_error_without_a_place_is_one_line() -> None:
    assert describe(BindError("no streams"), Script("q", "SELECT")) == "error: no streams."
    assert describe(PlanError("plan 'x': no"), Script("q", "SELECT")) == "error: plan 'x': no"
    assert describe(BindError("x", Location(1, 1)), None) == "error: x (line 1, column 1)."


def test_an_error_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(InputError("there is no file x")) == 1
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "error: there is no file x\n")


def test_windows_in_messages_are_not_markup(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code(InputError("write t [RANGE 10 SECONDS] or [bold]"))
    assert capsys.readouterr().err == "error: write t [RANGE 10 SECONDS] or [bold]\n"


def test_control_characters_in_messages_are_shown_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code(InputError("column '\x1b[31m'\nerror: fake"))
    assert capsys.readouterr().err == "error: column '\\x1b[31m'\\nerror: fake\n"


def test_long_messages_are_not_broken(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code(InputError("word " * 500))
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_an_interruption_exits_with_130(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_running_out_of_memory(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(MemoryError()) == 1
    assert capsys.readouterr().err.startswith("error: out of memory.")


def test_a_defect_is_called_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(KeyError("x")) == 1
    assert (
        capsys.readouterr().err == "internal error: KeyError: 'x'\nThis is a defect. --debug shows where it happened.\n"
    )


@pytest.mark.parametrize("error", [InputError("x"), MemoryError(), KeyError("x"), BrokenPipeError()])
def test_debug_lets_errors_through(error: Exception) -> None:
    with pytest.raises(type(error)), failures(debug=True):
        raise error


@pytest.mark.parametrize("error", [typer.Exit(130), typer.BadParameter("x", param_hint="--source")])
def test_what_is_for_the_command_line_is_left_to_it(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(type(error)) as caught, failures(debug=False):
        raise error
    assert caught.value is error
    assert capsys.readouterr().err == ""


def test_a_closed_pipe_is_left_to_the_command() -> None:
    with pytest.raises(BrokenPipeError), failures(debug=False):
        raise BrokenPipeError
