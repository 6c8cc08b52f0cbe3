"""The rows of a bucket without a join: the tuples that readers make of them, one set of readers after the other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from thalweg.cql import Source, bind
from thalweg.cql.group import Group, grouped
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.kernels.tables import ROW, T
from thalweg.engine.outputs.results import engine_columns
from thalweg.engine.rows.batch import Batch
from thalweg.engine.rows.expressions import Expressions, physical_names
from thalweg.engine.rows.payload import Payload
from thalweg.engine.rows.row_store import RowStore
from thalweg.errors import ReaderError
from thalweg.plan.slices import share

SCHEMA = pa.schema({"ts": pa.int64(), "k": pa.int64(), "v": pa.int64()})
TEXT = """
CREATE QUERY few AS SELECT a.v FROM a, b, c WHERE a.k = b.k AND b.k = c.k AND {} WINDOW RANGE 10 MICROSECONDS;
CREATE QUERY long AS SELECT a.v FROM a, b, c WHERE a.k = b.k AND b.k = c.k AND a.v < 3 WINDOW RANGE 50 MICROSECONDS
"""
CATALOG = {"a": Source(SCHEMA, "ts"), "b": Source(SCHEMA, "ts"), "c": Source(SCHEMA, None)}


def group(selection: str = "a.v > 5") -> Group:
    (found,) = grouped(bind(TEXT.format(selection), CATALOG))
    return found


def store(group: Group, former: RowStore | None = None) -> RowStore:
    names = physical_names(group.whole)
    for query in group.queries:
        names |= engine_columns(query)
    payloads = [Payload(SCHEMA, SCHEMA.names) for _ in range(3)] if former is None else former.payloads
    return RowStore(group, share(group), Expressions(names), payloads, remembers=True, former=former)


def rows(*values: int, time: int = 0) -> Batch:
    """Rows of these values, a microsecond apart."""
    times = np.arange(time, time + len(values))
    return Batch(pa.table([times, np.ones(len(values), np.int64), np.array(values)], schema=SCHEMA), times)


def told(words: Int64s) -> list[tuple[int, int]]:
    return [(time, row) for time, row in words[:, [T, ROW]].tolist()]


def test_others_make_tuples_of_the_same_rows() -> None:
    both = group()
    first = store(both)
    words = first.add([rows(1, 4, 9), None, None])
    assert list(map(told, words)) == [[(0, 0), (1, 1), (2, 2)], [], []]
    joins = words[0][:, first.encoders[0].layout.offered_mask]
    assert [int(each > 0) for each in joins.tolist()] == [1, 0, 1]
    alone = Group.of(both.queries[1])  # a.v < 3
    second = store(alone, first)
    again = second.again(0, words[0])
    assert told(again) == told(words[0])
    assert again[:, second.encoders[0].layout.offered_mask].tolist() == [1, 0, 0]


def test_what_nobody_could_use_any_more_is_of_no_use() -> None:
    known = store(group())
    layout = known.encoders[0].layout
    words = known.add([rows(9, 9, 1, 1), None, None])[0][:, : layout.width]
    assert told(known.useful(0, words, 0)) == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert told(known.useful(0, words, 11)) == [(2, 2), (3, 3)]  # v > 5 is asked by the short window alone
    assert told(known.useful(0, words, 52)) == [(3, 3)]


def test_relations_are_remembered_for_whoever_comes() -> None:
    first = store(group())
    assert [first.remembers(stream) for stream in range(3)] == [False, False, True]
    words = first.add([None, None, rows(7, 8)])
    second = store(group("a.v > 6"), first)
    assert second.relation_rows(2).tolist() == [0, 1]
    assert second.relation(2, words[2][:1])[:, 1].tolist() == [1]  # the first is still to come
    second.add([None, None, rows(9)])
    assert (len(second.relation_rows(2)), len(first.relation_rows(2))) == (3, 2)


def test_readers_are_named_whose_selection_cannot_be_computed() -> None:
    known = store(group("1 / a.v > 5"))
    with pytest.raises(ReaderError) as raised:
        known.add([rows(1, 0), None, None])
    assert list(raised.value.reasons) == ["few"]
