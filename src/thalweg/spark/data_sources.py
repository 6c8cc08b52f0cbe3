"""Our Python data sources, made known to a session of Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource


def register(spark: SparkSession, source: type[DataSource]) -> None:
    """Let a session know a data source, unless it does: one that was copied from another app's session."""
    session: Any = spark._jsparkSession
    if not session.sessionState().dataSourceManager().dataSourceExists(source.name()):
        with active(spark):
            spark.dataSource.register(source)


@contextmanager
def active(spark: SparkSession) -> Iterator[None]:
    """Let a session be the active one of this thread meanwhile.

    Spark asks the active session which data sources there are. That may be another app's, or the caller's.
    """
    jvm: Any = spark._jvm
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
