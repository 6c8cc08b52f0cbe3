from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.engine.rows.interner import Interner
from thalweg.errors import InputError

NAN = float("nan")

COLUMNS = {
    "int64": (pa.int64(), st.integers(-3, 3)),
    "uint64": (pa.uint64(), st.sampled_from([0, 1, 2**63, 2**64 - 1])),
    "double": (pa.float64(), st.sampled_from([0.0, -0.0, NAN, -NAN, 1.5, math.inf, 5e-324])),
    "float": (pa.float32(), st.sampled_from([0.0, -0.0, NAN, 1.5])),
    "bool": (pa.bool_(), st.booleans()),
    "string": (pa.string(), st.sampled_from(["", "a", "b", "ä", "a\0"])),
    "view": (pa.string_view(), st.sampled_from(["", "a", "b"])),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["", "a", "b"])),
    "binary": (pa.binary(), st.sampled_from([b"", b"\0", b"\0\0"])),
    "date": (pa.date32(), st.integers(-2, 2)),
    "nanoseconds": (pa.timestamp("ns", "UTC"), st.integers(-2, 2)),
    "decimal": (pa.decimal128(30, 2), st.sampled_from([Decimal("1.50"), Decimal("1.5"), Decimal("-1.50")])),
    "short decimal": (pa.decimal64(10, 2), st.sampled_from([Decimal("1.50"), Decimal("0.00")])),
    "list": (pa.list_(pa.float64()), st.lists(st.sampled_from([0.0, -0.0, NAN, 1.0]), max_size=2)),
    "struct": (pa.struct({"a": pa.int64(), "b": pa.string()}), st.sampled_from([{"a": 1, "b": "x"}, {"a": 1}, {}])),
    "null": (pa.null(), st.none()),
}


def same(value: object) -> object:
    """Equal for values that are one key."""
    if isinstance(value, dict):
        return {name: same(value.get(name)) for name in ("a", "b")}
    if isinstance(value, list):
        return [same(item) for item in value]
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value


@settings(deadline=None)
@given(st.data())
def test_codes_are_equal_exactly_when_keys_are(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=3))
    row = st.tuples(*(st.none() | COLUMNS[name][1] for name in names))
    interner = Interner()
    seen: list[tuple[object, int]] = []
    for batch in data.draw(st.lists(st.lists(row, max_size=8), max_size=4)):
        columns = [pa.array([r[i] for r in batch], COLUMNS[name][0]) for i, name in enumerate(names)]
        codes = interner.codes(columns)
        assert codes.dtype == np.int64
        seen += [(same(list(r)), code) for r, code in zip(batch, codes.tolist(), strict=True)]
    for key, code in seen:
        assert all((key == other) == (code == other_code) for other, other_code in seen)
    assert sorted({code for _, code in seen}) == list(range(len(interner)))
    assert interner.capacity == len(interner)


def test_columns_of_a_table_and_slices_are_keys_too() -> None:
    interner = Interner()
    column = pa.chunked_array([["a", "b"], ["a"]])
    assert interner.codes([column]).tolist() == [0, 1, 0]
    assert interner.codes([column.combine_chunks().slice(1)]).tolist() == [1, 0]


def test_a_column_of_another_type_is_refused() -> None:
    interner = Interner()
    interner.codes([pa.array([1, 2])])
    with pytest.raises(InputError, match=r"types \(string\) cannot be compared with those of types \(int64\)\. Cast"):
        interner.codes([pa.array(["1"])])


def test_values_in_use_keep_their_codes_and_others_are_forgotten() -> None:
    interner = Interner()
    rng = np.random.default_rng(7)
    live: dict[int, int] = {}
    for step in range(200):
        values = rng.integers(0, 10**9, 500)
        codes = interner.codes([pa.array(values)])
        assert interner.codes([pa.array(list(live), pa.int64())]).tolist() == list(live.values())
        live = dict(list(zip(values.tolist(), codes.tolist(), strict=True))[:100]) | (live if step % 3 else {})
        interner.retain(np.array(sorted(set(live.values()))))
        assert len(set(live.values())) == len(live)
    assert interner.capacity < 5_000  # of 100,000 values, at most a few hundred in use


def test_a_small_table_is_not_swept() -> None:
    interner = Interner()
    first = interner.codes([pa.array(["a", "b", "c"])])
    assert not interner.due
    assert not interner.retain(np.zeros(0, np.int64))
    assert interner.codes([pa.array(["a", "b", "c"])]).tolist() == first.tolist()


def test_forgotten_codes_are_given_out_again() -> None:
    interner = Interner()
    codes = interner.codes([pa.array(range(2_000))])
    assert interner.due
    assert interner.retain(codes[:1_500])
    assert len(interner) == 1_500
    assert not interner.due
    again = interner.codes([pa.array(range(5_000, 5_600))])
    assert sorted(again.tolist()) == list(range(1_500, 2_100))
    assert interner.codes([pa.array(range(1_500))]).tolist() == codes[:1_500].tolist()
