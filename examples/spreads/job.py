"""Trades with the quotes and the news of their symbol, on Spark.

python job.py [more] [DIRECTORY]
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import thalweg

QUERY = """
SELECT t.sym, t.ts, t.px - q.bid AS spread, n.headline
FROM   trades t [RANGE 10 SECONDS], quotes q [RANGE 5 SECONDS], news n [RANGE 1 MINUTE]
WHERE  t.sym = q.sym AND q.sym = n.sym AND t.px > q.bid
"""
STREAMS = {
    "trades": "100 + id % 7 AS px",
    "quotes": "99 + id % 5 AS bid",
    "news": "concat('headline ', id) AS headline",
}
"""By name, the column that a stream has besides its event time and its symbol."""


def add_minute(spark: SparkSession, data: Path) -> None:
    """Append the rows of another minute to every stream; replace this by what brings your data."""
    minutes = len(list((data / "trades").glob("*.parquet")))
    ids = spark.range(60 * minutes, 60 * minutes + 60, 1, 1)
    time = "TIMESTAMP '2026-11-18 09:00:00Z' + id * INTERVAL '1' SECOND AS ts"
    for name, column in STREAMS.items():
        symbol = f"concat('S', pmod(hash(id, '{name}'), 6)) AS sym"
        ids.selectExpr(time, symbol, column).write.mode("append").parquet(str(data / name))


def open_stream(spark: SparkSession, data: Path, name: str) -> DataFrame:
    schema = spark.read.parquet(str(data / name)).schema
    return spark.readStream.schema(schema).parquet(str(data / name))


def main(data: Path, *, more: bool = False) -> None:
    app = thalweg.App(directory=data / "app")  # in a session of yours: thalweg.App(spark, directory=...)
    if more or not (data / "trades").exists():
        add_minute(app.spark, data)
    for name in STREAMS:
        app.stream(name, open_stream(app.spark, data, name), time="ts", lateness="5 seconds")
    query = (
        app.sql(QUERY)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(data / "checkpoint"))
        .trigger(availableNow=True)  # take what is there, and stop; without it, the job runs on
        .start(str(data / "out"))
    )
    query.awaitTermination()
    results = app.spark.read.parquet(str(data / "out"))
    results.orderBy("ts", "spread", "headline").show(5)
    print(f"{results.count()} results")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    more = arguments[:1] == ["more"]
    (directory,) = arguments[more:] or ["data"]
    main(Path(directory).absolute(), more=more)
