"""A local session: quiet, on this machine alone, with the settings that joins need."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from thalweg.errors import OptionError
from thalweg.spark.session import _quiet_python, local_session


def test_settings(spark: SparkSession) -> None:
    assert spark.sparkContext.master in ("local[2,4]", "local[*,4]")  # whoever started it in this process
    assert spark.sparkContext.uiWebUrl is None
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "200"


def test_only_errors_are_logged(spark: SparkSession) -> None:
    logging = spark.sparkContext._jvm.org.apache.logging.log4j.LogManager
    assert logging.getRootLogger().getLevel().toString() == "ERROR"


@pytest.mark.parametrize(("error", "is_told"), [(EOFError(), False), (ValueError("of another kind"), True)])
def test_java_may_end_first(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], error: Exception, *, is_told: bool
) -> None:
    try:
        raise error
    except type(error):
        spark.sparkContext._accumulatorServer.handle_error(None, ("here", 1))  # type: ignore[arg-type]
    assert ("of another kind" in capsys.readouterr().err) == is_told


def test_workers_run_the_python_of_the_driver(spark: SparkSession) -> None:
    def where(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for _ in frames:
            yield pd.DataFrame({"prefix": [sys.prefix]})

    (row,) = spark.range(1, numPartitions=1).mapInPandas(where, "prefix string").collect()
    assert row.prefix == sys.prefix


def test_what_a_worker_prints_while_it_starts_is_not_shown(tmp_path: Path) -> None:
    python = tmp_path / "a python"
    python.write_text('#!/bin/sh\necho "out: $*"\necho "error: $2" >&2\nexit 3\n')
    python.chmod(0o700)
    quiet = _quiet_python(str(python), tmp_path)

    def ran(*arguments: str) -> tuple[int, str, str]:
        done = subprocess.run([quiet, *arguments], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    chatty = "pyspark.sql.streaming.transform_with_state_driver_worker"
    assert importlib.util.find_spec(chatty) is not None
    assert ran("-m", chatty, "x y") == (3, "", f"error: {chatty}\n")
    assert ran("-m", "pyspark.daemon", "x y") == (3, "out: -m pyspark.daemon x y\n", "error: pyspark.daemon\n")
    assert ran("-c") == (3, "out: -c\n", "error: \n")


def test_state_is_kept_in_rocksdb(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.json").write_text('{"k": 1}\n{"k": 1}\n')
    counts = spark.readStream.schema("k long").json(str(tmp_path / "in")).groupBy().count()
    query = (
        counts.writeStream.format("memory")
        .queryName("counts")
        .outputMode("complete")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert [row["count"] for row in spark.table("counts").collect()] == [2]
    assert list((tmp_path / "checkpoint" / "state").rglob("*.changelog"))


def test_a_running_session_is_returned_as_it_is(spark: SparkSession) -> None:
    assert local_session(cores=1, **{"spark.sql.session.timeZone": "Asia/Tokyo"}) is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_no_cores() -> None:
    with pytest.raises(OptionError, match="at least one core, not 0"):
        local_session(cores=0)


def test_what_is_no_setting_of_spark() -> None:
    with pytest.raises(OptionError, match="'shuffle_partitions' is not a Spark setting"):
        local_session(shuffle_partitions=8)


def test_the_messages_of_stateful_operators_fit_the_library_that_reads_them() -> None:
    """A protobuf that is missing, or of another age, would show only as a worker that dies."""
    importlib.reload(importlib.import_module("pyspark.sql.streaming.proto.StateMessage_pb2"))
