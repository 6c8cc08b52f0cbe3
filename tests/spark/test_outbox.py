"""The outbox behind real queries: two readers and one that never gets rows, restarts, lost commits, kills."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.spark import outbox_job
from tests.spark.outbox_job import DEADLY_BATCH, open_readers
from tests.spark.runs import write_stream as write_files
from thalweg.errors import OutboxError
from thalweg.spark.outbox.directory import Outbox
from thalweg.spark.outbox.publishing import publish
from thalweg.spark.outbox.reading import read_stream, read_table
from thalweg.spark.outbox.sink import write_stream
from thalweg.spark.outbox.staging import Stage
from thalweg.spark.packing import blob

ROWS = 30
"""Of a file, which is a batch."""
READERS = {"a": lambda x: x % 3 == 0, "b": lambda x: x % 3 > 0, "never": lambda x: False}


def give(root: Path, files: int) -> None:
    """So many files of input; those that are there stay as they are."""
    write_files(root / "in", [pa.table({"x": range(ROWS * n, ROWS * (n + 1))}) for n in range(files)])


def run(spark: SparkSession, root: Path) -> str:
    """Process what there is; Spark's id of the query."""
    query = outbox_job.start(spark, root)
    query.awaitTermination()
    return str(query.id)


def values(frame: DataFrame) -> list[int]:
    return sorted(row[0] for row in frame.collect())


def check(spark: SparkSession, root: Path, files: int) -> None:
    for reader, is_its in READERS.items():
        want = [x for x in range(ROWS * files) if is_its(x)]
        assert values(read_table(spark, root / "outbox", reader)) == want, reader


def read_on(spark: SparkSession, root: Path, reader: str) -> list[int]:
    """All that a stream of a reader has had, which goes on from a checkpoint of its own."""
    sink = root / f"read {reader}"
    query = (
        read_stream(spark, root / "outbox", reader)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(root / f"checkpoint of {reader}"))
        .trigger(availableNow=True)
        .start(str(sink))
    )
    query.awaitTermination()
    return values(spark.read.schema("x BIGINT").parquet(str(sink)))


def contents(outbox: Outbox) -> dict[Path, tuple[bytes, int]]:
    """Everything that is published, with the times at which it was written."""
    paths = [*outbox.places.root.glob("*/*.parquet"), *outbox.places.root.glob("*/_manifests/*")]
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}


def test_each_reader_gets_its_rows_once_also_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    outbox = open_readers(tmp_path)
    check(spark, tmp_path, 0)
    assert [read_on(spark, tmp_path, reader) for reader in READERS] == [[], [], []]
    give(tmp_path, 2)
    query = run(spark, tmp_path)
    check(spark, tmp_path, 2)
    assert outbox.owner() == query
    assert (outbox.latest(), outbox.batches("a"), outbox.batches("never")) == (1, [0, 1], [])
    assert read_on(spark, tmp_path, "a") == [x for x in range(2 * ROWS) if x % 3 == 0]
    before = contents(outbox)
    give(tmp_path, 4)
    assert run(spark, tmp_path) == query
    check(spark, tmp_path, 4)
    assert before.items() <= contents(outbox).items()
    for reader, is_its in READERS.items():
        assert read_on(spark, tmp_path, reader) == [x for x in range(4 * ROWS) if is_its(x)]
    files = [file for manifest in outbox.manifests("b") for file in manifest.files]
    assert len(files) == 8  # one for each of two tasks of four batches
    assert outbox.totals("b").rows == 80


def forget_last_commit(root: Path) -> None:
    """Spark has not noted that its last batch was committed."""
    commits = root / "checkpoint" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    (commits / f"{last}").unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


def test_a_batch_whose_commit_was_lost_publishes_nothing_twice(spark: SparkSession, tmp_path: Path) -> None:
    outbox = open_readers(tmp_path)
    give(tmp_path, 2)
    run(spark, tmp_path)
    before = contents(outbox)
    forget_last_commit(tmp_path)
    run(spark, tmp_path)
    assert contents(outbox) == before
    left = [path for path in outbox.places.staged.rglob("*") if path.is_file()]
    assert len(left) == 4, "the batch was not run again"
    give(tmp_path, 3)
    run(spark, tmp_path)
    check(spark, tmp_path, 3)
    assert before.items() <= contents(outbox).items()
    assert not [path for path in outbox.places.staged.rglob("*") if path.is_file()]


def test_another_checkpoint_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    outbox = open_readers(tmp_path)
    give(tmp_path, 1)
    owner = run(spark, tmp_path)
    before = contents(outbox)
    with pytest.raises(StreamingQueryException, match=f"belongs to query {owner}"):
        outbox_job.start(spark, tmp_path, "another checkpoint").awaitTermination()
    assert contents(outbox) == before
    give(tmp_path, 2)
    run(spark, tmp_path)
    check(spark, tmp_path, 2)


def test_rows_for_readers_that_were_not_opened_are_published(spark: SparkSession, tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox")
    outbox.open_reader("never", pa.schema([("x", pa.int64())]))
    give(tmp_path, 1)
    run(spark, tmp_path)
    assert outbox.readers() == ["a", "b", "never"]
    check(spark, tmp_path, 1)


@pytest.mark.parametrize("moment", ["manifests", "files", "noted"])
def test_a_job_that_is_killed_while_it_publishes_goes_on(spark: SparkSession, tmp_path: Path, moment: str) -> None:
    outbox = open_readers(tmp_path)
    give(tmp_path, 3)
    with (tmp_path / "job.log").open("wb") as log:
        job = subprocess.run(
            [sys.executable, "-m", "tests.spark.outbox_job", str(tmp_path), moment],
            stdout=log,
            stderr=log,
            start_new_session=True,
            timeout=300,
            check=False,
        )
    assert job.returncode == -9, (tmp_path / "job.log").read_text()
    has_b = DEADLY_BATCH in outbox.batches("b")
    shown = sum(len(list(outbox.places.reader(reader).glob(f"{DEADLY_BATCH:012}-*"))) for reader in "ab")
    assert (outbox.batches("a"), has_b, shown, outbox.latest()) == {
        "manifests": ([0, 1], False, 0, 0),
        "files": ([0, 1], True, 1, 0),
        "noted": ([0, 1], True, 4, 1),
    }[moment]
    before = contents(outbox)
    run(spark, tmp_path)
    check(spark, tmp_path, 3)
    assert before.items() <= contents(outbox).items()
    assert [read_on(spark, tmp_path, reader) for reader in "ab"] == [
        [x for x in range(3 * ROWS) if x % 3 == 0],
        [x for x in range(3 * ROWS) if x % 3 > 0],
    ]


def test_values_of_all_types_come_back(spark: SparkSession, tmp_path: Path) -> None:
    moment = datetime(1500, 2, 3, 4, 5, 6, 7, tzinfo=UTC)
    row = {
        "i": 1,
        "f": 0.5,
        "s": "ü",
        "b": b"\0",
        "t": moment,
        "n": moment.replace(tzinfo=None),
        "d": date(1500, 2, 3),
        "c": Decimal("-1.23"),
        "g": timedelta(days=-1, microseconds=1),
        "l": ["x", None],
        "m": {"k": 1, "l": [2]},
    }
    kinds = {
        "i": pa.int32(),
        "f": pa.float64(),
        "s": pa.string(),
        "b": pa.binary(),
        "t": pa.timestamp("us", "UTC"),
        "n": pa.timestamp("us"),
        "d": pa.date32(),
        "c": pa.decimal128(9, 2),
        "g": pa.duration("us"),
        "l": pa.list_(pa.string()),
        "m": pa.struct([("k", pa.int64()), ("l", pa.list_(pa.int16()))]),
    }
    rows = pa.Table.from_pylist([row, dict.fromkeys(row)], schema=pa.schema(list(kinds.items())))
    outbox = Outbox(tmp_path / "an outbox")
    outbox.open_reader("all of them: a/b=c*", rows.schema)
    with Stage(outbox, 0, 0) as files:
        files.add("all of them: a/b=c*", blob(rows))
        publish(outbox, "q", 0, files.close())
    table = read_table(spark, tmp_path / "an outbox", "all of them: a/b=c*")
    stream = read_stream(spark, tmp_path / "an outbox", "all of them: a/b=c*")
    assert table.schema == stream.schema
    assert table.schema.simpleString() == (
        "struct<i:int,f:double,s:string,b:binary,t:timestamp,n:timestamp_ntz,d:date,c:decimal(9,2),"
        "g:interval day to second,l:array<string>,m:struct<k:bigint,l:array<smallint>>>"
    )
    assert table.toArrow().cast(rows.schema).to_pylist() == rows.to_pylist()


def test_what_lacks_a_column_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(OutboxError, match=r"lacks body. Its columns are reader, other"):
        write_stream(spark.createDataFrame([("a", 1)], "reader STRING, other INT"), tmp_path)
