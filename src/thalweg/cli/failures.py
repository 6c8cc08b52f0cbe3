"""What a person sees when a command fails, and its exit code.

==== =======================================================
code meaning
==== =======================================================
0    done
1    an error: ``error: ...`` on stderr, for query texts with the line and a caret
2    the command line itself is wrong
130  interrupted
==== =======================================================
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import typer
from rich.cells import cell_len

from thalweg.cli.console import diagnostics, printable
from thalweg.cli.secrets import redacted, secrets_of
from thalweg.errors import InputError, InputWarning, Location, QueryError, ThalwegError


@dataclass(frozen=True, slots=True)
class Script:
    """A query text and where it came from."""

    name: str
    text: str


@dataclass(slots=True)
class Report:
    """What a failing command knows about itself."""

    script: Script | None = None
    secrets: frozenset[str] = frozenset()

    def hide(self, options: Iterable[str]) -> None:
        """Print no secret that is in these options, as they are written on the command line."""
        self.secrets |= secrets_of(options)

    def print(self, text: str) -> None:
        """Print an error."""
        diagnostics().print(redacted(text, self.secrets), soft_wrap=True)

    def show_warning(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,  # noqa: ARG002 - the signature is that of warnings.showwarning
        line: str | None = None,
    ) -> None:
        """Print a warning of Python's; one about input without the place in the program that noticed it."""
        if issubclass(category, InputWarning):
            self.print(f"warning: {printable(str(message))}")
        else:
            self.print(warnings.formatwarning(message, category, filename, lineno, line).rstrip())

    def read_script(self, file: str) -> str:
        """Read the query text of ``file`` (``-`` is stdin); query errors from here on point into it."""
        self.script = _read_script(file)
        return self.script.text


@contextmanager
def failures(*, debug: bool) -> Iterator[Report]:
    """Turn errors of the block into messages and exit codes; with ``debug`` let them through."""
    report = Report()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", InputWarning)
            warnings.showwarning = report.show_warning
            yield report
    except KeyboardInterrupt:
        diagnostics().print("interrupted")
        raise typer.Exit(130) from None
    except (BrokenPipeError, typer.Exit, typer.BadParameter):  # whoever read our output has seen enough; not errors
        raise
    except ThalwegError as error:
        if debug:
            raise
        report.print(describe(error, report.script))
        raise typer.Exit(1) from None
    except MemoryError:
        if debug:
            raise
        report.print("error: out of memory. Use smaller windows, or --states none.")
        raise typer.Exit(1) from None
    except Exception as error:
        if debug:
            raise
        what = f"internal error: {type(error).__name__}: {error}"
        report.print(f"{what}\nThis is a defect. --debug shows where it happened.")
        raise typer.Exit(1) from None


def describe(error: ThalwegError, script: Script | None) -> str:
    """The message of an error; one about a query text also shows the place.

    >>> error = QueryError("stream 't' has no window", Location(1, 15), "Write t [RANGE 10 SECONDS].")
    >>> print(describe(error, Script("q.cql", "SELECT * FROM t")))
    error: stream 't' has no window (line 1, column 15). Write t [RANGE 10 SECONDS].
     --> q.cql:1:15
      |
    1 | SELECT * FROM t
      |               ^
    """
    message = f"error: {printable(str(error))}"
    if script is None or not isinstance(error, QueryError) or error.location is None:
        return message
    return "\n".join([message, *_excerpt(script, error.location)])


def _excerpt(script: Script, location: Location) -> Iterator[str]:
    number = str(location.line)
    margin = " " * len(number)
    yield f"{margin}--> {script.name}:{location.line}:{location.column}"
    lines = script.text.split("\n")
    if location.line > len(lines):
        return
    # A character that cannot be shown becomes one that can, for columns are counted in characters.
    line = "".join(c if c.isprintable() else " " for c in lines[location.line - 1].rstrip("\r"))
    yield f"{margin} |"
    yield f"{number} | {line}"
    yield f"{margin} | {' ' * cell_len(line[: location.column - 1])}^"


def _read_script(file: str) -> Script:
    name = "stdin" if file == "-" else file
    try:
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).expanduser().read_bytes()
        return Script(name, raw.decode("utf-8-sig"))
    except FileNotFoundError as error:
        raise InputError(f"there is no file {file}. Give a file with the query, or - to read it from stdin.") from error
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not a query text: byte {error.start + 1} is not UTF-8") from error
