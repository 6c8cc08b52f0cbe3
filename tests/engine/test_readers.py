"""Whose a result is, decided for whole blocks, against a look at every reader."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from thalweg.cql import Source, bind
from thalweg.cql.group import Group
from thalweg.cql.query import RangeWindow, Reader
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.outputs.readers import Routing
from thalweg.engine.time_bounds import FOREVER
from thalweg.plan.slices import limits, share

SCHEMA = pa.schema({"ts": pa.int64(), "k": pa.int64(), "v": pa.int64()})
TEXT = """
CREATE QUERY q0 AS SELECT a.ts FROM a, b WHERE a.k = b.k WINDOW RANGE 1 SECOND;
CREATE QUERY q1 AS SELECT a.ts FROM a, b WHERE a.k = b.k AND a.v > 1 WINDOW RANGE 1 SECOND;
CREATE QUERY q2 AS SELECT a.ts FROM a, b WHERE a.k = b.k AND b.v > 2 WINDOW RANGE 1 SECOND
"""
QUERIES = bind(TEXT, {name: Source(SCHEMA, "ts") for name in "ab"})


def group(count: int, *, common: bool, seed: int = 3) -> Group:
    """So many readers with windows of their own, which select in three ways; two of them have the same."""
    rng = np.random.default_rng(seed)
    readers = []
    for i in range(count):
        reader = QUERIES[i % 3].reader
        widths: list[int | None] = rng.integers(1, 1000, 2).tolist()
        if common:
            widths[1] = widths[0]
        if i == 4 and not common:
            widths[0] = None
        views = [
            replace(view, window=RangeWindow(width), retention_us=width)
            for view, width in zip(reader.views, widths, strict=True)
        ]
        readers.append(replace(reader, name=f"r{i}", views=tuple(views)))
    readers.append(replace(readers[0], name="again"))
    return Group(QUERIES[0].join, tuple(readers))


def results(bits: int, count: int = 700) -> Int64s:
    """Time, expiry, rows, mask and ages, a row for each result; columns lie one behind the other, as in an engine."""
    rng = np.random.default_rng(9)
    ages = rng.integers(0, 1000, (2, count))
    ages[rng.integers(0, 2, count), np.arange(count)] = 0  # that of the newest component
    block = np.stack([np.arange(count), *rng.integers(0, 9, (3, count)), rng.integers(1, 1 << bits, count), *ages])
    return block.T


@pytest.mark.parametrize(
    ("readers", "common", "sharing"), list(product((3, 20, 120, 900), (True, False), ("auto", "pull_up")))
)
def test_results_belong_to_whose_selections_they_pass_and_in_whose_windows_they_are(
    readers: int, common: bool, sharing: str
) -> None:
    all_readers = group(readers, common=common)
    shared = share(all_readers, sharing)  # type: ignore[arg-type]
    assert len(shared.signatures) == 3
    block = results(shared.slicing.selections)
    routing = Routing(all_readers, shared)
    found: dict[int, Int64s] = {}
    for part in routing.route(block):
        assert part.count
        mine = part.results()
        lasting = part.lasting(mine, routing.ranged)
        assert (lasting[:, [0, 2, 3]] == mine[:, [0, 2, 3]]).all()
        for place in part.readers:
            assert place not in found
            found[place] = lasting
    bits = {place: bit for s, bit in zip(shared.signatures, shared.bits, strict=True) for place in s.readers}
    for place, reader in enumerate(all_readers.readers):
        expected = expected_of(reader, block, bits[place])
        assert found.get(place, np.zeros((0, 4), np.int64)).tolist() == expected.tolist(), reader.name
    assert sum(map(len, found.values())) > 400
    assert routing.comparisons > 0


def expected_of(reader: Reader, block: Int64s, bit: int) -> Int64s:
    """Row by row, in order."""
    rows = []
    for time, _, a, b, mask, *ages in block.tolist():
        left = [FOREVER if span is None else span - age for span, age in zip(limits(reader), ages, strict=True)]
        if (mask >> bit) & 1 and min(left) > 0:
            rows.append([time, time + min(left), a, b])
    return np.array(rows, np.int64).reshape(-1, 4)


def test_a_block_without_results_is_nobodys() -> None:
    all_readers = group(3, common=True)
    assert not list(Routing(all_readers, share(all_readers)).route(np.zeros((0, 7), np.int64)))
