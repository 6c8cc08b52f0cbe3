"""Records what plain Spark SQL says to the table of expressions, and writes the page of functions: run this module."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.cql.conformance import ERROR, RECORDED, ROWS, Record, expressions, written
from tests.cql.functions_page import PAGE, page
from thalweg.spark.session import local_session

_ERRORS = (PySparkException, Py4JError, OverflowError, ValueError)


def plain_rows(spark: SparkSession) -> list[DataFrame]:
    """The rows of the table, each as a DataFrame, after all of them together."""
    tables = [ROWS, *(ROWS.slice(row, 1) for row in range(ROWS.num_rows))]
    return [spark.createDataFrame(table) for table in tables]


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


def record(path: Path = RECORDED) -> None:
    spark = local_session(cores=2, **{"spark.master": "local[2]"})  # without a second try after an error
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")  # to compile takes longer than to compute
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    frames = plain_rows(spark)
    with path.open("w") as file:
        for expression in expressions():
            said = ask(expression, frames)
            line = {"expression": said.expression, "type": said.kind, "values": said.values}
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    record()
    PAGE.write_text(page())
