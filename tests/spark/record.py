"""Records what plain Spark SQL says to the table of expressions, and writes the page of functions: run this module.

With ``--new``, only what was added to the table is asked.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.cql.conformance import ERROR, RECORDED, ROWS, Record, expressions, recorded, written
from tests.cql.functions_page import PAGE, page
from thalweg.spark.session import local_session

_ERRORS = (PySparkException, Py4JError, OverflowError, ValueError)


def plain_rows(spark: SparkSession) -> list[DataFrame]:
    """The rows of the table, each as a DataFrame, after all of them together."""
    tables = [ROWS, *(ROWS.slice(row, 1) for row in range(ROWS.num_rows))]
    frames = (spark.createDataFrame(table) for table in tables)
    return [frame.withColumn("m", frame.m.cast("timestamp_ntz")) for frame in frames]


def ask(expression: str, frames: list[DataFrame]) -> Record:
    """What Spark says to one expression."""
    together, *rows = frames
    try:
        chosen = together.selectExpr(f"{expression} AS r")
        kind = chosen.schema[0].dataType.simpleString()
    except PySparkException:
        return Record(expression, ERROR, ())
    try:
        values = [written(row[0]) for row in chosen.collect()]
    except _ERRORS:
        values = [_value(expression, row) for row in rows]
    return Record(expression, kind, tuple(values))


def _value(expression: str, row: DataFrame) -> Any:
    try:
        return written(row.selectExpr(f"{expression} AS r").collect()[0][0])
    except _ERRORS:
        return {ERROR: True}


def record(path: Path = RECORDED, *, anew: bool = True) -> None:
    """Ask Spark about every expression, or (not ``anew``) about those that it was not asked about before."""
    known = {} if anew else {each.expression: each for each in recorded()}
    # Without a second try after an error, and without compiling what is computed once.
    settings = {"spark.master": "local[2]", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    frames = plain_rows(local_session(cores=2, **settings))
    said = (known.get(expression) or ask(expression, frames) for expression in expressions())
    lines = ({"expression": each.expression, "type": each.kind, "values": each.values} for each in said)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    record(anew="--new" not in sys.argv)
    PAGE.write_text(page())
