"""The queries of a bucket, without a bucket: what its record, its driver and its log are told."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pyarrow as pa

from thalweg.cql import Source, bind
from thalweg.cql.group import Group, grouped
from thalweg.spark.bucket_spec import Delivery
from thalweg.spark.membership import Membership
from thalweg.spark.record import Record
from thalweg.spark.shared_run import Registered

SCHEMA = pa.schema({"ts": pa.int64(), "k": pa.int64()})
ONE, TWO, THREE = (Registered(f"q{n}", f"{n} SECONDS", n) for n in (1, 2, 3))


def group(registered: Any) -> Group:
    text = "CREATE QUERY {} AS SELECT a.k FROM a, b WHERE a.k = b.k WINDOW RANGE {}"
    texts = [text.format(each.name, each.text) for each in registered]
    return grouped(bind("; ".join(texts), {name: Source(SCHEMA, "ts") for name in "ab"}))[0]


def membership(*registered: Registered, shares: bool = True) -> tuple[Membership, Mock, Mock]:
    """One of these queries; its record and its driver, which only listen."""
    query = group([ONE]).whole
    spec = Mock(query=query, shared=Mock(group=group) if shares else None)
    record = Mock(spec=Record, registered=registered, failed=[], former=[], marks=Mock(watermark=7), chunks=Mock())

    def change(after: Any) -> None:
        record.registered = tuple(after)

    record.change.side_effect = change
    driver = Mock()
    return Membership(spec, record, driver), record, driver


def test_who_enters_and_leaves_is_known_to_record_driver_and_log() -> None:
    members, record, driver = membership(ONE)
    assert members.enter(TWO) is None
    assert record.registered == (ONE, TWO)
    driver.serve.assert_called_with(group([ONE, TWO]), 7)
    record.chunks.serve.assert_called_with(group([ONE, TWO]).whole, [])
    assert members.leave("q1", None) is None
    assert record.registered == (TWO,)
    driver.serve.assert_called_with(group([TWO]), 7)
    assert members.group == group([TWO])


def test_what_cannot_be_is_said_and_changes_nothing() -> None:
    members, record, driver = membership(ONE, TWO)
    assert "there is a query 'q2' already" in (members.enter(TWO) or "")
    assert "there is no query 'q3' in 'q1'. Its queries are: q1, q2." in (members.leave("q3", None) or "")
    assert members.leave("q2", 99) is None  # another of that name, which has failed elsewhere
    alone, _, _ = membership(shares=False)
    assert "query 'q1' runs by itself" in (alone.enter(TWO) or "")
    assert record.registered == (ONE, TWO)
    driver.serve.assert_not_called()


def test_who_is_put_out_stays_known_until_it_leaves() -> None:
    members, record, driver = membership(ONE, TWO)
    assert members.put_out({"q2": "divided by nothing"}) == [Delivery("q2", TWO.since, None, "divided by nothing")]
    assert (record.registered, record.failed) == ((ONE,), ["q2"])
    driver.serve.assert_called_once_with(group([ONE]), 7)
    assert "there is a query 'q2' already" in (members.enter(TWO) or "")
    assert members.leave("q2", None) is None
    assert record.failed == []


def test_a_bucket_that_is_not_open_begins_without_them() -> None:
    members, record, driver = membership(ONE, THREE)
    assert [each.reader for each in members.begin_without({"q3": "why"})] == ["q3"]
    driver.readers_are.assert_called_once_with(group([ONE]))
    driver.serve.assert_not_called()
    assert record.registered == (ONE,)
    assert members.begin_without({}) == []
