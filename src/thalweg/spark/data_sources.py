"""Our Python data sources, made known to a session of Spark."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource


def register(spark: SparkSession, source: type[DataSource]) -> None:
    """Let a session know a data source, unless it does: one that was copied from another app's session.

    Spark asks the active session of the thread whether the name is taken. That may be another app's. So this one is the
    active one meanwhile.
    """
    session: Any = spark._jsparkSession
    if session.sessionState().dataSourceManager().dataSourceExists(source.name()):
        return
    jvm: Any = spark._jvm
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    active = sessions.getActiveSession()
    sessions.setActiveSession(session)
    try:
        spark.dataSource.register(source)
    finally:
        if active.isDefined():
            sessions.setActiveSession(active.get())
        else:
            sessions.clearActiveSession()
