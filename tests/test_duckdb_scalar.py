"""The connections that evaluate and judge expressions can compute and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from tests.cql.catalog import CATALOG
from thalweg.cql import bind
from thalweg.duckdb_scalar import duckdb_scalar, judge


@pytest.mark.parametrize("connect", [duckdb_scalar, judge])
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM '{file}'",
        "COPY (SELECT 1) TO '{file}'",
        "ATTACH '{file}'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "SELECT * FROM secret_table",
    ],
)
def test_nothing_outside_can_be_reached(
    connect: Callable[[], duckdb.DuckDBPyConnection], statement: str, tmp_path: Path
) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a\n1\n")
    secret_table = pa.table({"a": [1]})
    assert secret_table.num_rows == 1
    with pytest.raises(duckdb.Error):
        connect().execute(statement.format(file=file)).fetchall()
    assert file.read_text() == "a\n1\n"


def test_constants_that_would_be_large_are_not_computed() -> None:
    [query] = bind("SELECT repeat('x', 2000000000) AS x FROM trades [NOW] WHERE repeat('x', 2000000000) = 'x'", CATALOG)
    assert query.select[0].type == pa.string()


def test_types_are_asked_for_only_for_expressions_that_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.cql.expression_types.judge", lambda: pytest.fail("the judge was asked"))
    bind("SELECT px, sym FROM trades [NOW] WHERE px > 1.5 AND NOT (sym = 'x' OR qty <> 3)", CATALOG)
