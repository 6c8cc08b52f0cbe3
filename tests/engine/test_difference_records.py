"""The records of a set difference without a difference: a pool, a directory, queues, against a dict and a list."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.engine.uncompiled import uncompiled
from thalweg.engine.kernels import difference_records as r
from thalweg.engine.kernels.compiled import Int64s


def a_pool(size: int) -> Int64s:
    return np.concatenate([r.empty_pool(2), np.full((size, r.FIELDS), r.NOTHING, np.int64)])


def check_directory(rng: random.Random) -> None:
    """Codes come and go in a directory that is half full, so that most searches meet others."""
    records, directory = a_pool(32), np.full(64, r.NOTHING, np.int64)
    held: dict[int, int] = {}
    for _ in range(400):
        code = rng.choice([*held, rng.randrange(2**62)]) if len(held) < 32 else rng.choice(list(held))
        if code in held and rng.random() < 0.5:
            r.unlist(directory, records, code)
            r.free(records, held.pop(code))
        else:
            record = r.listed(records, directory, r.KEY, code)
            assert held.setdefault(code, record) == record
        for known, record in held.items():
            assert directory[r.find(directory, records, known)] == record
        assert records[r.POOL, r.IN_USE] == r.STREAM_QUEUES + 2 + len(held)
        assert np.count_nonzero(directory != r.NOTHING) == len(held)
    again = np.full(64, r.NOTHING, np.int64)
    r.enlist(again, records, r.KEY, r.STREAM_QUEUES)
    assert {code: int(again[r.find(again, records, code)]) for code in held} == held


@pytest.mark.parametrize("seed", range(5))
def test_a_directory_finds_what_is_listed_and_nothing_else(seed: int) -> None:
    check_directory(random.Random(seed))


def test_the_same_uncompiled() -> None:
    with uncompiled(r):
        check_directory(random.Random(5))


def test_records_that_are_free_are_taken_again() -> None:
    records = a_pool(3)
    first, second = r.new(records, r.TUPLE), r.new(records, r.TUPLE)
    r.free(records, first)
    assert r.new(records, r.KEY) == first
    assert r.new(records, r.TUPLE) == second + 1
    assert records[r.POOL, r.USED] == records[r.POOL, r.IN_USE] == len(records)


def test_queues_have_the_oldest_first() -> None:
    records = a_pool(3)
    pushed = [r.new(records, r.TUPLE) for _ in range(3)]
    for record in pushed:
        r.push(records, r.STREAM_QUEUES + 1, record)
    found, record = [], int(records[r.STREAM_QUEUES + 1, r.OLDEST])
    while record != r.NOTHING:
        found.append(record)
        record = int(records[record, r.LINK])
    assert found == pushed
    assert records[r.STREAM_QUEUES + 1, r.LENGTH] == 3
    assert records[r.STREAM_QUEUES, r.LENGTH] == 0
