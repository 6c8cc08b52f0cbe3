"""Bound expressions as Spark SQL."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType
from sqlglot import exp

from thalweg.cql.dialect import CQL
from thalweg.engine.rows.expressions import ColumnKey


def column(expression: exp.Expr, names: Mapping[ColumnKey, str] | None = None) -> Column:
    """An expression over columns that Spark knows by other names; without names: as fields of a struct per stream."""

    def rename(node: exp.Expr) -> exp.Expr:
        if names is not None and isinstance(node, exp.Column):
            return exp.column(exp.to_identifier(names[node.table, node.name], quoted=True))
        return node

    return F.expr(expression.transform(rename).sql(dialect=CQL, comments=False))


def quoted(name: str) -> Column:
    """The column of this name, whatever characters it has."""
    return F.col(f"`{name.replace('`', '``')}`")


def spark_type(kind: pa.DataType) -> DataType:
    return from_arrow_type(kind)


def hash_of(values: list[Column], kinds: list[pa.DataType]) -> Column:
    """A 64-bit hash in which values that are equal are equal: 0.0 and -0.0 too."""
    return F.xxhash64(
        *(
            value + F.lit(0.0) if pa.types.is_floating(kind) else value
            for value, kind in zip(values, kinds, strict=True)
        )
    )
