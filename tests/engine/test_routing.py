"""Results told to their readers, against a loop over all readers and results."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from thalweg.cql import Source, bind
from thalweg.cql.group import Group, grouped
from thalweg.cql.query import RangeWindow, Reader, RowsWindow, View
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.outputs.readers import Routing
from thalweg.engine.time_bounds import FOREVER, NEVER
from thalweg.plan.slices import Shared, share
from thalweg.settings import Sharing

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
CATALOG = {"A": Source(SCHEMA, "ts"), "B": Source(SCHEMA, "ts"), "C": Source(SCHEMA, None)}
STREAMS = 3


def a_group(rng: random.Random, *, counts: bool) -> Group:
    """Readers with few different windows and selections; with ``counts``, stream B has windows that count rows."""
    texts = []
    for n in range(rng.randint(2, 12)):
        a = rng.choice(["UNBOUNDED", *(f"{width} MICROSECONDS" for width in (1, 3, 5, 8))])
        b = f"ROWS {rng.randint(1, 6)}" if counts else f"RANGE {rng.randint(1, 6)} MICROSECONDS"
        selections = [f"AND {alias}.v = {rng.randint(0, 1)}" for alias in "AB" if rng.random() < 0.5]
        kind = "SELECT" if counts else rng.choice(["SELECT", "SELECT DSTREAM"])
        texts.append(
            f"CREATE QUERY q{n} AS {kind} A.v FROM A [RANGE {a}], B [{b}], C "
            f"WHERE A.k = B.k AND B.k = C.k {' '.join(selections)}"
        )
    (group,) = grouped(bind(";".join(texts), CATALOG))
    return group


def a_block(rng: random.Random, shared: Shared, *, counts: bool) -> Int64s:
    """Results: time, expiry, rows, mask, ages. That of a static relation is that of the world."""
    size, bits = rng.randint(0, 60), shared.slicing.selections
    time = np.array([rng.randint(0, 50) for _ in range(size)], np.int64)
    a = [rng.randint(0, 9) for _ in range(size)]
    b = [rng.randint(0, 7) for _ in range(size)]
    if not counts:  # some component is the newest
        b = [rng.randint(0, 7) if age == 0 else 0 for age in a]
    columns = [time, np.full(size, FOREVER), *(np.arange(size) + 100 * s for s in range(STREAMS))]
    columns += [[rng.randrange(1, 1 << bits) for _ in range(size)], a, b, time - NEVER]
    return np.column_stack([np.asarray(column, np.int64) for column in columns]).reshape(size, 3 + 2 * STREAMS)


def width(view: View, *, lasting: bool) -> int | None:
    """The age at which a component has left."""
    if isinstance(view.window, RowsWindow):
        return view.window.rows
    assert isinstance(view.window, RangeWindow)
    return view.window.width_us if lasting else view.retention_us


def naive(reader: Reader, bit: int, block: Int64s) -> list[tuple[int, ...]]:
    """The results of one reader, with the time at which each leaves if it asks for that."""
    widths = [width(view, lasting=reader.is_lasting) for view in reader.views]
    found = []
    for row in block.tolist():
        time, expiry, rows, mask, ages = row[0], row[1], row[2:5], row[5], row[6:]
        if not mask >> bit & 1 or any(w is not None and age >= w for w, age in zip(widths, ages, strict=True)):
            continue
        if reader.is_lasting:
            ends = [time - age + w for w, age in zip(widths, ages, strict=True) if w is not None]
            expiry = min(ends, default=FOREVER)
        found.append((time, expiry, *rows))
    return sorted(found)


@pytest.mark.parametrize("sharing", ["auto", "memory", "pull_up"])
@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_each_reader_gets_what_it_would_pick(
    monkeypatch: pytest.MonkeyPatch, seed: int, counts: bool, sharing: Sharing
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr("thalweg.plan.slices.MOST_SELECTIONS", rng.choice([1, 3, 62]))
    group = a_group(rng, counts=counts)
    shared = share(group, sharing)
    block = a_block(rng, shared, counts=counts)
    bits = {reader: bit for each, bit in zip(shared.signatures, shared.bits, strict=True) for reader in each.readers}
    got: dict[int, list[tuple[int, ...]]] = {place: [] for place in bits}
    routing = Routing(group, shared)
    for part in routing.route(np.asfortranarray(block)):
        for place in part.readers:
            assert not got[place]  # once for a block
            results = part.results()
            if shared.slicing.is_aged and group.readers[place].is_lasting:
                results = part.lasting(results, routing.ranged)
            got[place] = sorted(map(tuple, results.tolist()))
    if not shared.slicing.is_aged:
        assert all(len(part) == len(block) for part in got.values())
        return
    assert got == {place: naive(reader, bits[place], block) for place, reader in enumerate(group.readers)}


def test_readers_that_differ_in_nothing_get_the_same_block() -> None:
    text = "SELECT A.v FROM A [RANGE 5 MICROSECONDS], B [RANGE 5 MICROSECONDS] WHERE A.k = B.k"
    (group,) = grouped(bind(f"CREATE QUERY x AS {text}; CREATE QUERY y AS {text}", CATALOG))
    routing = Routing(group, share(group))
    block = np.zeros((3, 4), np.int64)
    (part,) = routing.route(block)
    assert part.readers == (0, 1)
    assert part.results().tolist() == block.tolist()
    assert routing.comparisons == 0
