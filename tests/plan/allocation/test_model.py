"""Models that do not fit are refused."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.plan.allocation.models import AB, A, B, C, table_2
from thalweg.errors import AllocationError
from thalweg.plan.allocation import AllocationModel, HalfWayJoin, StateLoad, StreamLoad, path_table

STREAM = StreamLoad("A", 1, 1)


@pytest.mark.parametrize(
    ("stream", "error"),
    [
        (replace(STREAM, rate=0), "the rate of A is 0"),
        (replace(STREAM, rate=math.inf), "the rate of A is inf"),
        (replace(STREAM, window=math.nan), "the window size of A is nan"),
        (replace(STREAM, freshness=-1), "the freshness of A is -1"),
        (replace(STREAM, freshness=0), "the freshness of A is 0"),
    ],
)
def test_streams(stream: StreamLoad, error: str) -> None:
    model = table_2()
    with pytest.raises(AllocationError, match=error):
        replace(model, streams=(stream, *model.streams[1:]))


@pytest.mark.parametrize(
    ("half_way", "error"),
    [
        (HalfWayJoin(A, B, -0.1, 10), r"the productivity of A ⋉ B is -1\.0"),
        (HalfWayJoin(A, B, 1, math.inf), "the productivity of A ⋉ B is inf"),
        (HalfWayJoin(A, B, 1, 1, (0, 0)), r"the sum of match rates of A ⋉ B is 0\.0"),
        (HalfWayJoin(A, B, 1, 1, (2, -1)), r"the sum of match rates of A ⋉ B is 1\.0"),
        (HalfWayJoin(A, C, 1, 1), "path of stream 'A': A⋈B ⋉ C cannot follow where A⋈C is bound"),
        (HalfWayJoin(A, B, 1e300, 1e7), "path of stream 'A': more results than a number can hold"),
    ],
)
def test_half_way_joins(half_way: HalfWayJoin, error: str) -> None:
    model = table_2()
    with pytest.raises(AllocationError, match=error):
        replace(model, half_ways=(half_way, *model.half_ways[1:]))


def test_one_stream_has_no_probe_to_refuse() -> None:
    with pytest.raises(AllocationError, match="number of streams 1, number of paths 1"):
        AllocationModel((STREAM,), (), ((),))


def test_paths() -> None:
    model = table_2()
    with pytest.raises(AllocationError, match="path of stream 'A' ends at A⋈B"):
        replace(model, paths=((0,), *model.paths[1:]))
    with pytest.raises(AllocationError, match="C ⋉ A⋈B: the paths that share it do not go on together, or there are"):
        replace(model, half_ways=(*model.half_ways, model.half_ways[3]), paths=((0, 2), (1, 2), (4,)))


def test_paths_that_meet_stay_together() -> None:
    ab, d = AB, frozenset({3})
    streams = tuple(replace(STREAM, name=name) for name in "ABCD")
    half_ways = [(A, B), (B, A), (ab, C), (ab | C, d), (ab | C, d), (C, ab), (d, ab | C)]
    with pytest.raises(AllocationError, match="A⋈B ⋉ C: the paths that share it do not go on together"):
        AllocationModel(
            streams, tuple(HalfWayJoin(*ends, 1, 1) for ends in half_ways), ((0, 2, 3), (1, 2, 4), (5, 3), (6,))
        )


@pytest.mark.parametrize("leaves", [(1.0, 1.0), (1.0, 1.0, 0.0)])
def test_units_of_paths(leaves: tuple[float, ...]) -> None:
    with pytest.raises(AllocationError, match="are not 3 positive rates, one for each stream"):
        path_table(table_2(), leaves)


def test_states() -> None:
    model = table_2()
    with pytest.raises(AllocationError, match="the size of A⋈B is 0"):
        replace(model, states=(StateLoad(AB, 0),))
    with pytest.raises(AllocationError, match="state A⋈C: the paths of its streams do not all lead through it"):
        replace(model, states=(StateLoad(A | C, 1),))
    with pytest.raises(AllocationError, match="state A⋈B⋈C: the paths of its streams do not all lead through it"):
        replace(model, states=(StateLoad(AB | C, 1),))  # that is no state but the result
