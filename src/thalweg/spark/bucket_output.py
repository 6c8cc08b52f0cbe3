"""What comes out of the buckets of a query: results out of their blobs, and the metrics that Spark reports."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from thalweg.engine.outputs.results import TIME
from thalweg.engine.rows.expressions import ColumnKey
from thalweg.spark import sql
from thalweg.spark.division import Division
from thalweg.spark.metrics import OBSERVED
from thalweg.spark.operator import SAVED, TOTALS
from thalweg.spark.packing import unpacker
from thalweg.spark.streams import Stream


def results(division: Division, streams: Mapping[str, Stream], emitted: DataFrame) -> DataFrame:
    """Results out of their blobs, through what Spark SQL computes of them."""
    inside = division.inside
    if not division.select:
        schema = StructType([StructField(p.name, sql.spark_type(p.type)) for p in inside.select])
        return emitted.select("body").mapInArrow(unpacker("body"), schema)
    fields = []
    for projection in inside.select:
        alias, name = division.gathered[projection.name]
        if not alias:
            is_time = (alias, name) == TIME
            fields.append(StructField(projection.name, sql.spark_type(projection.type), nullable=not is_time))
        else:
            source = streams[next(r.stream for r in inside.streams if r.alias == alias)].frame
            field = source.schema[name]
            fields.append(StructField(projection.name, field.dataType, field.nullable, field.metadata))
    rows = emitted.select("body").mapInArrow(unpacker("body"), StructType(fields))
    rows = rows.select(*_by_stream(division.gathered))
    for predicate in division.where:
        rows = rows.where(sql.column(predicate))
    return rows.select(*(sql.column(p.expression).alias(p.name) for p in division.select))


def _by_stream(gathered: Mapping[str, ColumnKey]) -> list[Column]:
    """The columns of each stream as a struct of its alias, in which they have their own names; others as they are."""
    streams: dict[str, list[Column]] = {}
    others = []
    for name, (alias, column) in gathered.items():
        if alias:
            streams.setdefault(alias, []).append(sql.quoted(name).alias(column))
        else:
            others.append(sql.quoted(name).alias(column))
    return [*(F.struct(*columns).alias(alias) for alias, columns in streams.items()), *others]


def observation(query: str) -> str:
    """Under which name Spark reports the metrics of a query."""
    return f"thalweg_{query}"


def observed(*, saves: bool) -> list[Column]:
    """The totals of a batch, and the metrics of every bucket; ``saves``: also what feedback saved."""
    totals = (F.sum(name).alias(name) for name in (*TOTALS, *(SAVED if saves else ())))
    return [*totals, F.collect_list("metrics").alias(OBSERVED)]
