# ruff: noqa: S608 - these tests put query texts together from their own pieces
"""What is computed in process has the type and the value that plain Spark SQL gives it, or is refused.

``fixtures/spark_values.jsonl`` has what Spark says. ``tests/spark/test_values.py`` holds it to Spark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pyarrow as pa
import pytest

from tests.cql.conformance import ERROR, ROWS, Record, expressions, recorded, written
from tests.cql.functions_page import PAGE, SOURCE, page
from thalweg.cql import bind
from thalweg.cql.expression_grammar import FUNCTION_MARK
from thalweg.cql.functions import FUNCTIONS
from thalweg.cql.number_functions import ROUNDED
from thalweg.cql.parser import parse
from thalweg.cql.query import Query
from thalweg.engine.outputs.results import Outputs, engine_columns
from thalweg.engine.rows.expressions import Expressions, physical_names
from thalweg.errors import InputError, ThalwegError

RECORDS = recorded()
REFUSALS = (
    "not computed in process",
    "not written in process",
    "cannot be read as",
    "Overflow in multiplication of DECIMAL",
)
"""Why a row of which Spark has a value may have none in process."""
TYPES = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}


def arrow_type(name: str) -> pa.DataType:
    if name.startswith("decimal("):
        precision, scale = name.removeprefix("decimal(").removesuffix(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    return pa.duration("us") if name.startswith("interval") else TYPES[name]


def bound(expression: str) -> Query | None:
    """The query that selects an expression, None if it is refused."""
    try:
        [query] = bind(f"SELECT {expression} AS r FROM rows [NOW]", SOURCE)
    except ThalwegError:
        return None
    return query


def values(query: Query, rows: pa.Table) -> list[object]:
    names = physical_names(query) | engine_columns(query)
    outputs = Outputs(query, Expressions(names), query.select)
    table = rows.rename_columns([names["rows", name] for name in rows.column_names])
    return [written(value) for value in outputs.of_table(table).column(0).to_pylist()]


def agree(record: Record, got: Sequence[object], want: Sequence[object]) -> bool:
    if any(f"{name}(" in record.expression for name in ROUNDED):
        pairs = zip(got, want, strict=True)
        return all(g == w or (g and w and math.isclose(float(str(g)), float(str(w)), rel_tol=1e-14)) for g, w in pairs)
    return list(got) == list(want)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.expression)
def test_in_process_is_as_spark_or_refused(record: Record) -> None:
    query = bound(record.expression)
    if query is None:
        return
    assert record.kind != ERROR, "Spark refuses it"
    assert query.select[0].type == arrow_type(record.kind)
    if not record.fails:
        try:
            assert agree(record, values(query, ROWS), record.values)
        except InputError as error:
            assert any(why in str(error) for why in REFUSALS)  # noqa: PT017 - any other is a failure
        return
    for row, want in enumerate(record.values):
        try:
            got = values(query, ROWS.slice(row, 1))
        except InputError:
            continue
        assert agree(record, got, [want]), f"row {row}"


def test_the_table_is_recorded() -> None:
    assert [record.expression for record in RECORDS] == list(expressions())


def test_every_function_is_in_the_table() -> None:
    called = set()
    for record in RECORDS:
        [statement] = parse(f"SELECT {record.expression} AS x FROM trades [NOW]")
        called |= {node.meta.get(FUNCTION_MARK) for node in statement.tree.walk()}
    assert FUNCTIONS - called == set()


def test_most_of_the_table_is_computed_in_process() -> None:
    allowed = [record for record in RECORDS if record.kind != ERROR]
    assert sum(bound(record.expression) is not None for record in allowed) > 0.7 * len(allowed)


def test_the_page_of_functions_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "write it with python -m tests.spark.record"
