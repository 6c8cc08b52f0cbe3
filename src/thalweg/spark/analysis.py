"""Types of expressions by Spark's own analyser: on Spark a query may use whatever Spark can compute of its input.

An expression is analysed over an empty DataFrame that has the columns of the query's streams. What Spark cannot
analyse, what is no value of a row (aggregates, generators, subqueries) and what is not deterministic is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StringType, StructField, StructType
from sqlglot import exp

from thalweg.cql.binder import Typing
from thalweg.cql.expression_grammar import FUNCTION_MARK
from thalweg.cql.expression_types import Types
from thalweg.cql.functions import volatile
from thalweg.cql.locations import SourceText
from thalweg.cql.rendering import render, shorten
from thalweg.cql.scope import NamedStream
from thalweg.cql.types import canonical
from thalweg.engine.rows.expressions import ColumnKey
from thalweg.errors import BindError, UnsupportedError
from thalweg.spark.sql import column, spark_type

_UNKNOWN = "UNRESOLVED_ROUTINE"


class OnSpark(pa.ExtensionType):  # type: ignore[misc]
    """A type of Spark's that Arrow does not have: such values are computed above the operator, and go no further."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(pa.binary(), "thalweg.on_spark")

    def __arrow_ext_serialize__(self) -> bytes:
        return self.name.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> OnSpark:
        return cls(serialized.decode())

    def __str__(self) -> str:
        return self.name


def spark_typing(spark: SparkSession, schema_of: Callable[[str], StructType]) -> Typing:
    """What finds types by asking Spark; ``schema_of`` gives the schema of a stream by its name."""

    def typing(source: SourceText, streams: Sequence[NamedStream]) -> Types:
        fields = {
            (stream.alias, field.name): field
            for stream in streams
            for field in schema_of(stream.stream)
            if field.name not in stream.unusable
        }
        return SparkTypes(source, {stream.alias: stream.schema for stream in streams}, spark, fields)

    return typing


class SparkTypes(Types):
    """The types that Spark gives to expressions over these columns."""

    passes = True

    def __init__(
        self,
        source: SourceText,
        streams: Mapping[str, pa.Schema],
        spark: SparkSession,
        fields: Mapping[ColumnKey, StructField],
        free: Mapping[str, pa.DataType] | None = None,
    ) -> None:
        super().__init__(source, streams, free)
        self._spark, self._fields = spark, fields
        # A struct per stream, so that names are those of the query, in Spark's messages and in structs too.
        streams_of: dict[str, list[StructField]] = {}
        for (alias, _), field in fields.items():
            streams_of.setdefault(alias, []).append(field)
        columns = [StructField(alias, StructType(inner)) for alias, inner in streams_of.items()]
        columns += [
            StructField(name, StringType() if isinstance(kind, OnSpark) else spark_type(kind))
            for name, kind in self._free.items()
        ]
        self._empty = _empty(spark, StructType(columns))

    def with_columns(self, free: Mapping[str, pa.DataType]) -> Types:
        return SparkTypes(self._source, self._streams, self._spark, self._fields, free)

    def prime(self, expressions: Iterable[exp.Expr]) -> None:
        unknown = {render(e): e for e in expressions if not isinstance(e.unnest(), exp.Column)}
        unknown = {text: e for text, e in unknown.items() if text not in self._known}
        if not unknown:
            return
        try:
            frame = self._select(list(unknown.values()))
        except PySparkException:
            return  # which one it is will be found when it is asked for
        if self._is_plain(frame):
            kinds = [_arrow_type(field.dataType) for field in frame.schema]
            self._known.update(zip(unknown, kinds, strict=True))

    def value(self, expression: exp.Expr) -> Any:
        try:
            [[found]] = self._spark.range(1).select(column(expression)).collect()
        except PySparkException as error:
            raise self._complaint(expression, error) from error
        return found

    def _find(self, expression: exp.Expr) -> pa.DataType:
        try:
            frame = self._select([expression])
        except PySparkException as error:
            raise self._complaint(expression, error) from error
        if not self._is_plain(frame):
            raise self._refusal(expression)
        return _arrow_type(frame.schema[0].dataType)

    def _select(self, expressions: Sequence[exp.Expr]) -> DataFrame:
        columns = [column(e).alias(f"c{number}") for number, e in enumerate(expressions)]
        return self._empty.select(*columns)

    def _is_plain(self, frame: DataFrame) -> bool:
        """Whether all columns are deterministic values of single rows."""
        if not self._is_projection(frame):
            return False
        chosen = frame._jdf.queryExecution().analyzed().projectList()
        return all(bool(chosen.apply(i).deterministic()) for i in range(chosen.size()))

    @staticmethod
    def _is_projection(frame: DataFrame) -> bool:
        plan: Any = frame._jdf.queryExecution().analyzed()
        return plan.nodeName() == "Project" and bool(plan.child().children().isEmpty())

    def _refusal(self, expression: exp.Expr) -> UnsupportedError:
        """An error about the innermost call that is no deterministic value of a row."""
        calls = [node for node in expression.walk() if FUNCTION_MARK in node.meta]
        for call in reversed(calls):
            frame = self._select([call])
            if self._is_plain(frame):
                continue
            name = call.meta[FUNCTION_MARK]
            if self._is_projection(frame):
                return volatile(call, name, self._source)
            what = f"{name.upper()} is not a value of one row"
            return UnsupportedError(
                what, self._source.of(call), "A query has the aggregates COUNT, SUM, MIN, MAX, AVG."
            )
        what = f"'{shorten(render(expression))}' is not a value of one row"
        return UnsupportedError(what, self._source.of(expression))

    def _complaint(self, expression: exp.Expr, error: PySparkException) -> BindError:
        hint = " ".join((error.getMessage() or str(error)).split("\n")[0].split(" SQLSTATE")[0].split())
        if _UNKNOWN in str(error):
            hint += " Functions of your own are registered before the App is made, or with app.spark.udf.register."
        return BindError(f"Spark cannot evaluate '{shorten(render(expression))}'", self._source.of(expression), hint)


def _empty(spark: SparkSession, schema: StructType) -> DataFrame:
    """No rows of a schema; unlike ``createDataFrame`` this leaves the caller's session the active one."""
    session: Any = spark._jsparkSession
    jvm: Any = spark._jvm
    rows = session.createDataFrame(jvm.java.util.ArrayList(), session.parseDataType(schema.json()))
    return DataFrame(rows, spark)


def _arrow_type(kind: DataType) -> pa.DataType:
    if isinstance(kind, StringType) and kind.collation != "UTF8_BINARY":
        return OnSpark(kind.simpleString())
    try:
        return canonical(to_arrow_type(kind, timezone="UTC"))
    except PySparkException:
        return OnSpark(kind.simpleString())
