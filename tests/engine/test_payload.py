"""Rows by number, from chunks that were merged, thinned out and united."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from thalweg.engine.rows.payload import Payload

SCHEMA = pa.schema([("number", pa.int64()), ("text", pa.string())])


@pytest.mark.parametrize("most_bytes", [0, 1 << 30], ids=["chunk by chunk", "united"])
@pytest.mark.parametrize("asked", [3, 200], ids=["few", "many"])
def test_rows_are_found_wherever_they_are(monkeypatch: pytest.MonkeyPatch, most_bytes: int, asked: int) -> None:
    monkeypatch.setattr("thalweg.engine.rows.payload._MOST_BYTES", most_bytes)
    monkeypatch.setattr("thalweg.engine.rows.payload._SMALL_CHUNK", 4)
    rng = np.random.default_rng(20_030_909)
    payload = Payload(SCHEMA, SCHEMA.names)
    needed = np.zeros(0, np.int64)
    count = 0
    for size in (30, 1, 17, 5, 40, 8):
        numbers = range(count, count + size)
        count += size
        new = payload.append(pa.table({"number": numbers, "text": [f"row {i}" for i in numbers]}))
        needed = np.concatenate([needed[rng.random(len(needed)) < 0.5], new])
        payload.retain(needed)
        rows = rng.choice(needed, asked)
        assert payload.take("number", rows).to_pylist() == rows.tolist()
        assert payload.take("text", rows).to_pylist() == [f"row {i}" for i in rows]
