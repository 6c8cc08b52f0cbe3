"""A stream that an app has been told of."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from thalweg import cql as language
from thalweg.engine.rows.expressions import ColumnKey
from thalweg.spark.carriage import Kept


@dataclass(frozen=True, slots=True)
class Stream:
    """A DataFrame under the name by which queries know it.

    Attributes:
        frame: the DataFrame, in the session of the operator.
        source: its columns, as queries may name them.
        lateness: how far its rows may be out of order; None: as the options of the query say.
        kept: the columns that stay in the checkpoint though no query reads them.
        session: the caller's, which the DataFrame came from.

    """

    frame: DataFrame
    source: language.Source
    lateness: str | None
    kept: Kept
    session: SparkSession

    @property
    def schema(self) -> pa.Schema:
        """Its columns, those that no query may name included."""
        return self.source.schema

    def names(self, alias: str) -> dict[ColumnKey, str]:
        """How its columns are called in Spark, by how a bound query calls them."""
        return {(alias, name): name for name in self.schema.names}
