"""DuckDB as a calculator: a connection that can compute and nothing else.

It sees the tables it is given: no files, no network, no extensions, and no text can change that. Opening one takes
some 20 ms, so each thread keeps those that it has opened.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

_opened = threading.local()

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,  # the engine around it uses one core
    "enable_external_access": False,
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
    "python_enable_replacements": False,
}


def duckdb_scalar() -> duckdb.DuckDBPyConnection:
    """The calling thread's connection for evaluating expressions over tables."""
    if not hasattr(_opened, "scalar"):
        # Rewriting would move numbers over comparisons (x + 1 > 0 to x > -1), and lose errors of overflow with that.
        _opened.scalar = _open(("SET disabled_optimizers = 'expression_rewriter'",))
    connection: duckdb.DuckDBPyConnection = _opened.scalar
    return connection


def judge() -> duckdb.DuckDBPyConnection:
    """The calling thread's connection for finding types; without an optimizer, so that this computes nothing."""
    if not hasattr(_opened, "judge"):
        # Far more memory than types and constants need.
        _opened.judge = _open(("PRAGMA disable_optimizer", "SET memory_limit = '256MB'"))
    connection: duckdb.DuckDBPyConnection = _opened.judge
    return connection


def _open(settings: tuple[str, ...]) -> duckdb.DuckDBPyConnection:
    import duckdb  # here, because importing it takes a tenth of a second

    connection = duckdb.connect(":memory:", config=_CONFIG)
    for setting in ("SET TimeZone = 'UTC'", *settings, "SET lock_configuration = true"):
        connection.execute(setting)
    return connection
