"""The join in DuckDB, in batch over the finite streams, as SQL a good DuckDB user would write.

:func:`plain_sql` states the windows as conditions between every two event times in the ON clauses, so that
each join drops at once what cannot become a result. (The one condition on the greatest and
the least time says the same but is only tested above the last join: measured 7 times slower at
50,000 tuples per stream, and worse from there. Writing the pairs with ``abs`` or ``<`` instead of BETWEEN makes
no difference.) It still meets all tuples of a key ever: its cost per tuple grows with the length of the
streams.

:func:`bucket_sql` adds the trick that takes that away: time is cut into buckets as wide as the
window, the bucket joins the key, and a tuple probes its own and the two neighbouring ones.
"""

# ruff: noqa: S608 - the texts are made of our own names and numbers
from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from thalweg.experiments.workloads import Workload


def plain_sql(workload: Workload) -> str:
    """The join with its windows between every two event times.

    >>> print(plain_sql(Workload(streams=2, window_us=5)))
    SELECT s1.id AS id1, s2.id AS id2
    FROM s1
    JOIN s2 ON s2.k = s1.k AND s2.ts BETWEEN s1.ts - INTERVAL 4 MICROSECONDS AND s1.ts + INTERVAL 4 MICROSECONDS
    """
    reach = f"INTERVAL {workload.window_us - 1} MICROSECONDS"
    first, *others = workload.names
    lines = [f"SELECT {workload.select_list}", f"FROM {first}"]
    for position, name in enumerate(others, start=1):
        within = [
            f"{name}.ts BETWEEN {earlier}.ts - {reach} AND {earlier}.ts + {reach}"
            for earlier in workload.names[:position]
        ]
        lines.append(f"JOIN {name} ON {name}.k = {first}.k AND {' AND '.join(within)}")
    return "\n".join(lines)


def bucket_sql(workload: Workload) -> str:
    """The join with the time bucket in its key.

    >>> print(bucket_sql(Workload(streams=2, window_us=5)))
    WITH
    b1 AS (SELECT k, id, epoch_us(ts) AS t, epoch_us(ts) // 5 AS bucket FROM s1),
    b2 AS (SELECT k, id, epoch_us(ts) AS t, epoch_us(ts) // 5 AS bucket FROM s2),
    j1 AS (SELECT k, bucket, t AS t1, id AS id1 FROM b1),
    j2 AS (SELECT l.* EXCLUDE (near), r.t AS t2, r.id AS id2
           FROM (SELECT *, bucket + unnest([-1, 0, 1]) AS near FROM j1) l
           JOIN b2 r ON r.k = l.k AND r.bucket = l.near AND abs(r.t - l.t1) < 5)
    SELECT id1, id2 FROM j2
    """
    width = workload.window_us
    numbers = range(1, workload.streams + 1)
    parts = [
        f"b{i} AS (SELECT k, id, epoch_us(ts) AS t, epoch_us(ts) // {width} AS bucket FROM {name})"
        for i, name in zip(numbers, workload.names, strict=True)
    ]
    parts.append("j1 AS (SELECT k, bucket, t AS t1, id AS id1 FROM b1)")
    for i in numbers[1:]:
        within = " AND ".join(f"abs(r.t - l.t{j}) < {width}" for j in range(1, i))
        parts.append(
            f"j{i} AS (SELECT l.* EXCLUDE (near), r.t AS t{i}, r.id AS id{i}\n"
            f"       FROM (SELECT *, bucket + unnest([-1, 0, 1]) AS near FROM j{i - 1}) l\n"
            f"       JOIN b{i} r ON r.k = l.k AND r.bucket = l.near AND {within})"
        )
    return "WITH\n" + ",\n".join(parts) + f"\nSELECT {', '.join(workload.outputs)} FROM j{workload.streams}"


@contextmanager
def connected(streams: Mapping[str, pa.Table], threads: int) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database that sees the streams, without a copy, under their names."""
    with duckdb.connect(config={"threads": threads, "preserve_insertion_order": False}) as connection:
        for name, table in streams.items():
            connection.register(name, table)
        yield connection


def answer(connection: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    """The whole answer, as Arrow."""
    table: pa.Table = connection.sql(sql).to_arrow_table()
    return table
