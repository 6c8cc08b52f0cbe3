"""The columns of a DataFrame, as a query may name them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Literal

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, IntegralType, StringType

from thalweg.cql import Source, match_name
from thalweg.cql.durations import interval_option
from thalweg.errors import InputError, warn
from thalweg.event_times import PER_UNIT, TimeUnit, checked_unit
from thalweg.spark import sql
from thalweg.spark.carriage import Kept

_BINARY = "UTF8_BINARY"
_WATERMARK = "spark.watermarkDelayMs"
"""Spark's note in the metadata of a column that has a watermark."""


def check_frame(name: str, df: DataFrame, known: Iterable[str]) -> None:
    """See that this is a DataFrame of Spark, under a name that is free; tell of a watermark that it has."""
    if not isinstance(name, str) or not name:
        raise InputError(f"the name of a stream is a text, not {name!r}")
    if isinstance(df, str | os.PathLike):
        hint = f"Open it first: app.stream('{name}', spark.readStream.schema(...).parquet('{df}'), time=...)."
        raise InputError(f"stream '{name}' is the path '{df}', not a DataFrame. {hint}")
    if not isinstance(df, DataFrame):
        kind = type(df)
        raise InputError(
            f"stream '{name}' is a {kind.__module__.partition('.')[0]}.{kind.__name__}, not a DataFrame of Spark. "
            f"spark.createDataFrame(...) makes one of a table in memory, for a static relation; "
            "thalweg.replay takes such tables as streams."
        )
    for other in known:
        if other.lower() == name.lower():
            raise InputError(
                f"this app has a stream '{other}' already, which queries may be reading. Give this one another name, "
                "or make another App."
            )
    for field in df.schema:
        if _WATERMARK in field.metadata:
            delay = field.metadata[_WATERMARK] / 1000
            warn(
                f"stream '{name}' has a watermark of its own, {delay:g} seconds on column '{field.name}'. It says what "
                "operators of Spark before this one drop. What is late here is said by lateness=... alone."
            )


def check_times(name: str, df: DataFrame, time: str | None, lateness: str | None) -> None:
    """A stream has an event time, a static relation has none."""
    if not df.isStreaming and (time is not None or lateness is not None):
        what = f"time='{time}'" if time is not None else f"lateness='{lateness}'"
        raise InputError(
            f"'{name}' is a batch DataFrame, so a static relation, and its rows have no event time. "
            f"Leave out {what}, or read it as a stream with spark.readStream."
        )
    columns = f"Its columns are {', '.join(df.columns)}."
    if df.isStreaming and time is None:
        raise InputError(f"stream '{name}' has no event time. Say in which column it is with time=... {columns}")
    if time is not None and time not in df.columns:
        raise InputError(f"stream '{name}' has no column '{time}' to take its event time from. {columns}")
    if lateness is not None:
        interval_option("lateness", lateness)


def with_time_unit(name: str, df: DataFrame, time: str | None, unit: TimeUnit | None) -> DataFrame:
    """The DataFrame with integer event times as timestamps, if their unit was said; out of reach, they are NULL."""
    if unit is None or time is None:
        if unit is not None:
            raise InputError(f"'{name}' is a static relation, and its rows have no event time. Leave out time_unit.")
        return df
    factor, parts = PER_UNIT[checked_unit(unit)]
    kind = df.schema[time].dataType
    if not isinstance(kind, IntegralType):
        raise InputError(
            f"time_unit of stream '{name}' is '{unit}', but its event time '{time}' is {kind.simpleString()}, "
            "no integer. Name the streams alone whose times are integers, as in time_unit={'trades': 'ms'}."
        )
    column = sql.quoted(time).cast("bigint")
    if factor > 1:
        column = F.try_multiply(column, F.lit(factor).cast("bigint"))
    elif parts > 1:
        column = F.call_function("div", column, F.lit(parts).cast("bigint"))
    return df.withColumn(time, F.timestamp_micros(column))


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
