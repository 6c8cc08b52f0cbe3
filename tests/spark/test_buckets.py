"""Bucket numbers are spread as Spark's own hash spreads them."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import hash as hash_of

from thalweg.spark.buckets import bucket_keys, default_buckets, spark_hash


def test_the_hash_is_sparks(spark: SparkSession) -> None:
    values = [0, 1, -1, 42, 2**31 - 1, -(2**31)]
    rows = spark.createDataFrame([(v,) for v in values], "v INT").select("v", hash_of("v")).collect()
    assert dict(rows) == {v: spark_hash(v) for v in values}


@pytest.mark.parametrize(("buckets", "partitions"), [(1, 1), (2, 2), (8, 2), (8, 4), (6, 3), (64, 8)])
def test_partitions_get_equally_many_buckets(buckets: int, partitions: int) -> None:
    keys = bucket_keys(buckets)
    assert len(set(keys)) == buckets
    placed = [spark_hash(key) % partitions for key in keys]
    assert {placed.count(p) for p in range(partitions)} == {buckets // partitions}


@pytest.mark.parametrize(("cores", "buckets"), [(1, 1), (2, 2), (3, 4), (8, 8), (9, 16)])
def test_default_number(cores: int, buckets: int) -> None:
    assert default_buckets(cores) == buckets
