"""Spark as the command line runs it: what it has to say goes to a log, and its errors become one sentence."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thalweg.cli.console import activity
from thalweg.errors import InputError, ThalwegError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STDERR = 2
_OURS = re.compile(r"^thalweg\.errors\.\w+: (.+)$", re.MULTILINE)
_PYTHONS = re.compile(r"^(?:[a-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Interrupt)): (.+)$", re.MULTILINE)
_CAUSES = re.compile(r"^Caused by: (?:[\w$]+\.)*([\w$]+): (.+)$", re.MULTILINE)
_TRACEBACK = "Traceback (most recent call last):"
_PREAMBLE = re.compile(r"^Query \S* ?\[id = [^]]*\] terminated with exception: ")
_BRIDGE = re.compile(r"^An error occurred while calling \S+\n: (?:[\w$]+\.)*[\w$]+: ")
_CONDITION = re.compile(r"^\[([A-Z_0-9.]+)\] ")


def start_spark(log: Path | None, conf: Mapping[str, str]) -> SparkSession:
    """A Spark on this machine (the running one, if there is one) that writes its messages to ``log``.

    Spark and its workers print to the error output that they inherit, so ours is exchanged while they start.
    """
    from thalweg.spark.session import local_session

    settings: dict[str, Any] = dict(conf)
    with nullcontext() if log is None else _inherited_stderr(log), activity() as doing:
        doing("starting Spark")
        return local_session(**settings)


@contextmanager
def _inherited_stderr(log: Path) -> Iterator[None]:
    """Let processes that are started now write their errors to ``log``; ours go where they went."""
    target = _open_private(log)
    sys.stderr.flush()
    encoding = sys.stderr.encoding
    ours = os.dup(_STDERR)
    with ExitStack() as undo:
        undo.callback(os.close, ours)
        undo.callback(os.dup2, ours, _STDERR)
        os.dup2(target, _STDERR)
        os.close(target)
        if sys.stderr is sys.__stderr__:
            terminal = undo.enter_context(open(ours, "w", encoding=encoding, errors="replace", closefd=False))
            undo.enter_context(redirect_stderr(terminal))
        yield


def _open_private(log: Path) -> int:
    """A file to append to that its owner alone can read: Spark may write options of sources there, secrets included."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        raise InputError(f"cannot write {log}: {error.strerror or error}") from error
    try:
        if stat.S_ISREG(os.fstat(target).st_mode):  # not /dev/null, which is everybody's
            os.fchmod(target, 0o600)
    except OSError as error:
        os.close(target)
        raise InputError(
            f"others may read {log}, and that cannot be changed: {error.strerror or error}. "
            "Delete the file, or choose another --directory."
        ) from error
    return target


@contextmanager
def spark_failures(log: Path | None = None) -> Iterator[None]:
    """Turn what Spark raises into an error with the cause alone; the whole story is in the ``log``."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped] # it has no types
    from pyspark.errors import PySparkException, StreamingQueryException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        # Before a query runs, Spark says best itself what it cannot do.
        trace = getattr(error, "_stackTrace", "") if isinstance(error, StreamingQueryException) else ""
        words = cause(str(error), trace)
        end = "" if words.endswith((".", "!", "?")) else "."
        told = f"{end} Spark's own account of it is in {log}." if log is not None else ""
        raise ThalwegError(f"{words}{told}") from error


def cause(text: str, trace: str = "") -> str:
    r"""What went wrong, out of an error text of Spark and the stack traces of two languages.

    >>> cause("[STREAM_FAILED] Query [id = 1] failed: x\nTraceback (most recent call last):\n"
    ...       "  File \"x.py\", line 1, in _obey\nthalweg.errors.PlanError: plan 'x': no such stream\n\n\tat a.b")
    "plan 'x': no such stream"
    >>> cause("[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03;\nmore")
    'Path does not exist: file:/x.'
    >>> cause("An error occurred while calling o7.load.\n: a.B: [DATA_SOURCE_NOT_FOUND] No data source: x.\n\tat a.b")
    'No data source: x.'
    >>> cause("[READ] Cannot read file x.\nmore", "a.B: c\n\tat d\nCaused by: java.lang.Oops: bad k\n\tat d")
    'Cannot read file x. (Oops: bad k)'
    """
    whole = f"{text}\n{trace}"
    ours = _OURS.findall(whole)
    if ours:
        return str(ours[-1])
    _, found, traceback = whole.rpartition(_TRACEBACK)
    raised = _PYTHONS.findall(traceback.split("\n\n")[0]) if found else []
    if raised:
        kind, words = raised[-1]
        return f"{kind}: {words}"
    said = _plain(_BRIDGE.sub("", text.strip()).partition("\n")[0]) or "Spark failed, and did not say why."
    causes = [(kind, _plain(words)) for kind, words in _CAUSES.findall(trace)]
    if causes and causes[-1][1] not in said:
        return "{} ({}: {})".format(said, *causes[-1])
    return said


def _plain(words: str) -> str:
    words = _PREAMBLE.sub("", _CONDITION.sub("", words))
    return re.sub(r"\s*SQLSTATE: \w+;?", "", _CONDITION.sub("", words)).strip()
