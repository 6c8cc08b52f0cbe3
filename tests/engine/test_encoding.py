"""Keys as codes: equal keys have equal codes, whatever their type, and the true columns decide."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import thalweg
from thalweg.engine.rows.encoding import exact, microseconds, mix
from thalweg.errors import InputError

NAN = float("nan")
DAY = datetime.date(2026, 1, 1)

KEYS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-1, 0, 1]),
    (pa.int64(), [-(2**63), 2**63 - 1, 0]),
    (pa.uint64(), [0, 2**64 - 1, 2**63]),
    (pa.float64(), [0.5, NAN, float("inf")]),
    (pa.float32(), [0.5, NAN, -1.0]),
    (pa.bool_(), [True, False]),
    (pa.date32(), [DAY, DAY + datetime.timedelta(1)]),
    (pa.timestamp("us"), [datetime.datetime(2026, 1, 1), datetime.datetime(2026, 1, 2)]),
    (pa.timestamp("us", "UTC"), [datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)]),
    (pa.decimal128(10, 2), [Decimal("-1.50"), Decimal("1.50")]),
    (pa.decimal128(30, 2), [Decimal("-1.50"), Decimal("12345678901234567890.50")]),
    (pa.string(), ["", "x", "xx", "ä"]),
    (pa.large_string(), ["", "x"]),
    (pa.binary(), [b"", b"\x00", b"\x00\x00"]),
]


@pytest.mark.parametrize(
    ("kind", "values"), KEYS, ids=lambda value: str(value) if isinstance(value, pa.DataType) else ""
)
def test_every_key_type_joins_what_is_equal(kind: pa.DataType, values: list[Any]) -> None:
    """Each value meets itself once; NULL meets nothing."""
    keys = pa.array([*values, None], kind)
    table = pa.table({"ts": pa.array(range(len(keys)), pa.int64()), "k": keys, "id": range(len(keys))})
    text = "SELECT a.id AS i, b.id AS j FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k"
    answer = thalweg.replay(text, {"a": table, "b": table})
    assert sorted(zip(*answer.to_pydict().values(), strict=True)) == [(i, i) for i in range(len(values))]


def test_hashes_only_find_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a hash that takes all strings of one length for the same, the answer is what it was."""
    words = ["aa", "bb", "cc", "a", "b", None]
    table = pa.table({"ts": list(range(6)), "k": words, "id": list(range(6))})
    text = "SELECT a.id AS i, b.id AS j, c.id AS l FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW RANGE 1 SECOND"
    streams = {"a": table, "b": table, "c": table}
    before = thalweg.replay(text, streams).to_pylist()
    monkeypatch.setattr("thalweg.engine.rows.encoding.HASH", "length")
    for plan in ("(a b) c", "a: b c; b: a c; c: b a"):
        assert thalweg.replay(text, streams, options={"plan": plan}).to_pylist() == before
    assert [row["i"] for row in before] == [0, 1, 2, 3, 4]


def test_mixing_is_one_to_one() -> None:
    values = np.concatenate([np.arange(-50_000, 50_000), [2**63 - 1, -(2**63)]])
    assert len(np.unique(mix(values))) == len(values)


def test_times_of_all_kinds_are_microseconds() -> None:
    moment = datetime.datetime(1970, 1, 1, 0, 0, 1, 500)
    for column in (
        pa.array([moment, None], pa.timestamp("us")),
        pa.array([moment, None], pa.timestamp("ns")),
        pa.array([1_000_500, None], pa.int64()),
    ):
        times, valid = microseconds(column, "column 'ts'")
        assert (times[0], list(valid)) == (1_000_500, [True, False])
    assert microseconds(pa.array([datetime.date(1970, 1, 2)]), "")[0][0] == 86_400_000_000


@pytest.mark.parametrize(
    ("column", "says"),
    [
        (
            pa.array(["noon"]),
            "column 'ts' is string, not a time. Use a timestamp, a date, or an integer of microseconds.",
        ),
        (pa.array([2**62]), "column 'ts' has times outside the years that microseconds can count"),
    ],
)
def test_what_is_no_time_is_refused(column: pa.Array, says: str) -> None:
    with pytest.raises(InputError) as caught:
        microseconds(column, "column 'ts'")
    assert says in str(caught.value)


def test_which_types_fit_into_their_code() -> None:
    assert exact(pa.int64())
    assert exact(pa.decimal128(18, 4))
    assert not exact(pa.decimal128(19, 4))
    assert not exact(pa.string())
