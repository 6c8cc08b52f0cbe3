"""The columns of a DataFrame, as a query may name them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StringType

from thalweg.cql import Source, match_name
from thalweg.errors import InputError
from thalweg.spark.carriage import Kept

_BINARY = "UTF8_BINARY"


def source_of(df: DataFrame, time: str | None) -> Source:
    """What is known of a DataFrame; a column of a type that cannot be handled is in nobody's way unless it is used."""
    fields, unusable = [], {}
    for field in df.schema:
        kind = _arrow_type(field.dataType)
        if kind is None:
            unusable[field.name] = f"has the type {field.dataType.simpleString()}, which Arrow does not have"
        elif isinstance(field.dataType, StringType) and field.dataType.collation != _BINARY:
            collation = field.dataType.collation
            unusable[field.name] = f"has the collation {collation}, and strings are compared byte by byte here"
        fields.append(pa.field(field.name, pa.null() if field.name in unusable else kind))
    return Source(pa.schema(fields), time, unusable)


def kept_columns(name: str, source: Source, keep: Sequence[str] | Literal["all"] | None) -> Kept:
    """The columns of a stream that ``keep`` names."""
    if keep is None:
        return Kept()
    if source.time is None:
        raise InputError(
            f"'{name}' is a static relation, which is read again at every start: nothing of it is kept. Leave out keep."
        )
    if keep == "all":
        return Kept(tuple(column for column in source.schema.names if column not in source.unusable), required=False)
    if isinstance(keep, str):
        raise InputError(f"keep={keep!r} of stream '{name}' is neither 'all' nor a list of columns. Write [{keep!r}].")
    columns = []
    for wanted in keep:
        column = match_name(wanted, source.schema.names)
        if column is None:
            known = ", ".join(source.schema.names)
            raise InputError(f"stream '{name}' has no column '{wanted}' to keep. Its columns are {known}.")
        if column in source.unusable:
            raise InputError(f"column '{column}' of stream '{name}' {source.unusable[column]}. It cannot be kept.")
        columns.append(column)
    return Kept(tuple(columns))


def _arrow_type(kind: DataType) -> pa.DataType | None:
    """None if Arrow has none."""
    try:
        return to_arrow_type(kind, timezone="UTC")
    except PySparkTypeError:
        return None
