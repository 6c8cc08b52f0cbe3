"""An outbox without Spark: what is in it, what it refuses, and how tasks write."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.outboxes import QUERY, SCHEMA, Input, opened, run, stage, table, visible, wanted
from thalweg.errors import OutboxError
from thalweg.spark.outbox.directory import Outbox
from thalweg.spark.outbox.layout import Totals, folder_name, reader_name
from thalweg.spark.outbox.publishing import publish
from thalweg.spark.outbox.sink import OutboxSink, OutboxWriter
from thalweg.spark.outbox.staging import Stage
from thalweg.spark.packing import blob

GIVEN: Input = {"a": [[2, 1], [3]], "b": [[], [1]]}


def test_an_outbox_answers_what_was_published(tmp_path: Path) -> None:
    outbox = opened(tmp_path / "outbox", ["b", "a", "_c/d"])
    assert (outbox.owner(), outbox.latest(), outbox.totals("a")) == (None, None, Totals(0, 0, 0, 0))
    run(outbox, 0, GIVEN)
    run(outbox, 1, GIVEN)
    asked = Outbox(tmp_path / "outbox")
    assert sorted(asked.readers()) == ["_c/d", "a", "b"]
    assert asked.schema("a") == SCHEMA
    assert (asked.owner(), asked.latest()) == (QUERY, 1)
    assert (asked.batches("a"), asked.batches("b"), asked.batches("_c/d")) == ([0, 1], [1], [])
    files = list(asked.places.reader("a").glob("*.parquet"))
    assert asked.totals("a") == Totals(2, 3, 6, sum(file.stat().st_size for file in files))
    first = asked.manifest("a", 0)
    assert first is not None
    assert [(file.name, file.rows) for file in first.files] == [
        ("000000000000-00000.parquet", 2),
        ("000000000000-00001.parquet", 1),
    ]
    assert asked.manifest("b", 0) is None


def test_only_published_rows_are_there_for_any_reader_of_parquet(tmp_path: Path) -> None:
    outbox = opened(tmp_path, ["a", "b"])
    run(outbox, 0, GIVEN)
    stage(outbox, 1, GIVEN)  # not published
    folder = outbox.places.reader("a")
    assert visible(outbox, "a") == wanted(GIVEN, "a", 1)
    for pattern in (folder / "*.parquet", tmp_path / "**" / "*.parquet"):
        assert sorted(duckdb.read_parquet(str(pattern)).fetchall()) == wanted(GIVEN, "a", 1)


def test_rows_keep_the_order_of_their_bodies(tmp_path: Path) -> None:
    outbox = opened(tmp_path, ["a", "b"])
    with Stage(outbox, 0, 7, row_group_bytes=2000, held_bytes=3000) as files:
        for row in range(300):
            files.add("a", blob(table(0, [row])))
            if row % 3 == 0:
                files.add("b", blob(table(0, [row])))
        publish(outbox, QUERY, 0, files.close())
    for reader, rows in {"a": list(range(300)), "b": list(range(0, 300, 3))}.items():
        (path,) = outbox.places.reader(reader).glob("*.parquet")
        assert path.name == "000000000000-00007.parquet"
        assert pq.read_table(path).column("row").to_pylist() == rows
        assert pq.ParquetFile(path).num_row_groups > 5


@pytest.mark.parametrize("readers", [1, 50])
def test_a_task_holds_a_bounded_amount(tmp_path: Path, readers: int) -> None:
    names = [f"r{number}" for number in range(readers)]
    outbox = opened(tmp_path, names)
    body = blob(table(0, range(200)))
    most = 0
    with Stage(outbox, 0, 0, row_group_bytes=len(body) * 4, held_bytes=len(body) * 20) as files:
        for _ in range(400 // readers):
            for name in names:
                files.add(name, body)
                most = max(most, files.held)
        publish(outbox, QUERY, 0, files.close())
        assert files.held == 0
    assert 0 < most < len(body) * 20
    assert {outbox.totals(name).rows for name in names} == {400 // readers * 200}


def test_a_huge_body_is_written_in_row_groups(tmp_path: Path) -> None:
    outbox = opened(tmp_path, ["a"])
    with Stage(outbox, 0, 0, row_group_bytes=1 << 16) as files:
        files.add("a", blob(table(0, range(100_000))))
        publish(outbox, QUERY, 0, files.close())
    (path,) = outbox.places.reader("a").glob("*.parquet")
    about = pq.ParquetFile(path).metadata
    assert about.num_rows == 100_000
    assert max(about.row_group(i).num_rows for i in range(about.num_row_groups)) <= 4096


def test_a_reader_without_rows_gets_no_file(tmp_path: Path) -> None:
    outbox = opened(tmp_path, ["a"])
    with Stage(outbox, 0, 0) as files:
        files.add("a", blob(table(0, [])))
        assert files.close() == []


def test_bodies_do_not_keep_the_batch_that_they_came_in(tmp_path: Path) -> None:
    """The writer copies each body, so that what Spark handed over can go."""
    outbox = opened(tmp_path, ["a"])
    before = pa.total_allocated_bytes()
    with Stage(outbox, 0, 0) as files:
        for _ in range(20):
            rows = pa.record_batch(
                [pa.array(["a", None]), pa.array([blob(table(0, [1])), None])], names=["reader", "body"]
            )
            files.add("a", rows.column(1)[0].as_buffer().to_pybytes())
            del rows
        assert pa.total_allocated_bytes() - before < 20_000
        files.close()


@pytest.mark.parametrize("reader", ["spread_1m", "_a", ".a", "..", "a/b", "a=b", "ü ß", "%2E", "a\nb", "*[x]"])
def test_readers_may_have_any_name(tmp_path: Path, reader: str) -> None:
    assert reader_name(folder_name(reader)) == reader
    outbox = opened(tmp_path, [reader])
    assert outbox.readers() == [reader]
    run(outbox, 0, {reader: [[2]]})
    run(outbox, 1, {reader: [[0], [1]]})
    assert visible(outbox, reader) == [(0, 0), (0, 1), (1, 0)]
    assert {path.parent for path in tmp_path.rglob("*.parquet")} == {tmp_path / folder_name(reader)}


@pytest.mark.parametrize("reader", ["", "x" * 201, "ü" * 40])
def test_names_that_no_directory_can_have_are_refused(tmp_path: Path, reader: str) -> None:
    with pytest.raises(OutboxError, match="Choose another name"):
        Outbox(tmp_path).open_reader(reader, SCHEMA)


def test_a_reader_that_is_opened_again_has_the_same_columns(tmp_path: Path) -> None:
    outbox = opened(tmp_path, ["a"])
    outbox.open_reader("a", pa.schema([pa.field("batch", pa.int64(), nullable=False), ("row", pa.int64())]))
    with pytest.raises(
        OutboxError, match=r"has the columns batch int64, row int64, and cannot get row int64. Open a reader of another"
    ):
        outbox.open_reader("a", pa.schema([("row", pa.int64())]))
    assert outbox.schema("a") == SCHEMA


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ([("x", pa.int64()), ("X", pa.int64())], r"X, x would be found twice by Spark"),
        ([], "there must be at least one"),
        ([("x", pa.null())], "column 'x' of reader 'a' is NULL and has no type"),
        ([("x", pa.month_day_nano_interval())], "a column that parquet cannot hold"),
    ],
)
def test_columns_that_could_not_be_read_are_refused(tmp_path: Path, columns: list[Any], text: str) -> None:
    outbox = Outbox(tmp_path)
    with pytest.raises(OutboxError, match=text):
        outbox.open_reader("a", pa.schema(columns))
    assert outbox.readers() == []


def test_a_reader_that_was_not_opened_is_refused_and_the_others_are_named(tmp_path: Path) -> None:
    outbox = opened(tmp_path, ["a", "b"])
    for ask in (outbox.schema, outbox.totals):
        with pytest.raises(OutboxError, match=r"has no reader 'c'. Its readers are: 'a', 'b'. Open a reader before"):
            ask("c")


def test_rows_for_a_reader_that_was_not_opened_open_it_with_their_columns(tmp_path: Path) -> None:
    outbox = opened(tmp_path, ["a"])
    with Stage(outbox, 0, 0) as files:
        files.add("c", blob(table(0, [1])))
        assert [(staged.reader, staged.rows) for staged in files.close()] == [("c", 1)]
    assert (outbox.readers(), outbox.schema("c")) == (["a", "c"], table(0, [1]).schema)


def test_bodies_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    outbox = opened(tmp_path, ["a"])
    for body, text in {
        blob(
            pa.table({"x": [1]})
        ): "in batch 3 has the columns x int64, and the reader was opened with batch int64, row",
        b"nothing of the kind": "19 bytes that begin with b'nothing of the k'",
    }.items():
        with pytest.raises(OutboxError, match=text), Stage(outbox, 3, 0, row_group_bytes=1) as files:
            files.add("a", body)
    with pytest.raises(OutboxError, match="its column 'reader' is NULL"), Stage(outbox, 3, 0) as files:
        files.add(None, b"")


def test_another_query_is_refused(tmp_path: Path) -> None:
    outbox = opened(tmp_path, ["a", "b"])
    run(outbox, 0, GIVEN)
    staged = stage(outbox, 1, GIVEN)
    for ask in (lambda: publish(outbox, "another", 1, staged), lambda: outbox.check("another", 1)):
        with pytest.raises(OutboxError, match=r"belongs to query the query .* and query another tries to write to it"):
            ask()
    assert outbox.batches("a") == [0]


def test_of_two_queries_that_begin_at_once_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have found that nobody is the owner."""
    outbox = opened(tmp_path, ["a", "b"])
    real = Outbox.create

    def slowly(self: Outbox, path: Path, data: bytes, drafts: Path) -> bool:
        monkeypatch.setattr(Outbox, "create", real)
        run(outbox, 0, GIVEN)
        return real(self, path, data, drafts)

    monkeypatch.setattr(Outbox, "create", slowly)
    with pytest.raises(OutboxError, match="belongs to query the query"):
        publish(Outbox(tmp_path), "another", 0, [])
    assert outbox.owner() == QUERY


def test_an_old_copy_of_the_checkpoint_is_refused(tmp_path: Path) -> None:
    outbox = opened(tmp_path, ["a", "b"])
    run(outbox, 0, GIVEN)
    run(outbox, 1, GIVEN)
    run(outbox, 1, GIVEN)  # the last one may be run again
    with pytest.raises(OutboxError, match=r"batch 0 cannot be published: .* has everything up to batch 1"):
        run(outbox, 0, GIVEN)


def test_files_that_the_driver_does_not_find_are_an_error_before_anything_is_published(tmp_path: Path) -> None:
    """The directory is not shared: the tasks have written somewhere else."""
    outbox = opened(tmp_path, ["a", "b"])
    staged = stage(outbox, 1, GIVEN)
    for file in outbox.places.staged.rglob("b/*"):
        file.unlink()
    with pytest.raises(OutboxError, match=r"the driver finds no such file there. This commit has published nothing"):
        publish(outbox, QUERY, 1, staged)
    assert (outbox.batches("a"), visible(outbox, "a")) == ([], [])


def test_two_files_of_one_task_are_an_error(tmp_path: Path) -> None:
    outbox = opened(tmp_path, ["a"])
    staged = [each for _ in range(2) for each in stage(outbox, 0, {"a": [[1]]})]
    with pytest.raises(OutboxError, match=r"two files for reader 'a' from one task: \[0, 0\]"):
        publish(outbox, QUERY, 0, staged)
    assert outbox.batches("a") == []


@pytest.mark.parametrize("data", [b"", b"[]", b'{"version": 2, "query": "x"}'])
def test_files_of_another_version_are_refused(tmp_path: Path, data: bytes) -> None:
    outbox = opened(tmp_path, ["a"])
    outbox.places.owner.write_bytes(data)
    with pytest.raises(OutboxError, match="was not written by this version of thalweg"):
        outbox.owner()


@pytest.mark.parametrize("address", ["s3://bucket/box", "file:///tmp/box", "hdfs:/box"])
def test_addresses_are_refused(address: str) -> None:
    with pytest.raises(OutboxError, match="is an address"):
        Outbox(address)


@pytest.mark.parametrize("name", ["a[1]", "a*", "{a}", "a?", "a\\b"])
def test_paths_that_spark_takes_for_patterns_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(OutboxError, match="for a pattern"):
        Outbox(tmp_path / name)


def test_a_file_system_without_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(path: Path, draft: Path) -> None:
        assert draft.exists()
        raise OSError(errno.EPERM, os.strerror(errno.EPERM), str(path))

    monkeypatch.setattr(Path, "hardlink_to", no_links)
    outbox = Outbox(tmp_path)
    with pytest.raises(OutboxError, match=r"has no hard links .Operation not permitted."):
        outbox.open_reader("a", SCHEMA)
    assert outbox.readers() == []
    assert list(outbox.places.reader("a").glob(".draft*")) == []


def test_the_sink_takes_streams_that_append(tmp_path: Path) -> None:
    sink = OutboxSink({"directory": str(tmp_path)})
    with pytest.raises(OutboxError, match="only grows, and the output mode 'complete'"):
        sink.streamWriter(None, overwrite=True)  # type: ignore[arg-type] # the schema is of no concern
    with pytest.raises(OutboxError, match="is written by streaming queries of Spark alone"):
        OutboxWriter(str(tmp_path)).write(iter([]))
    with pytest.raises(OutboxError, match="1 tasks sent 0 messages"):
        OutboxWriter(str(tmp_path)).commit([None], 3)
