"""Chains of slices that are split and merged while a join runs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from thalweg.options import Options
from thalweg.replayer import Replay, open_replays

JOIN = "FROM A, B WHERE A.k = B.k"
TEXT = (
    f"CREATE QUERY near AS SELECT A.v, B.ts AS t {JOIN} WINDOW RANGE 1 SECOND; "
    f"CREATE QUERY far AS SELECT A.ts, B.v {JOIN} AND A.v > 6 AND B.v > 6 WINDOW RANGE 10 SECONDS"
)


def turning(seed: int, rows: int = 20_000) -> pa.Table:
    """Few rows are of use for long at first, then nearly all."""
    rng = np.random.default_rng(seed)
    often = np.where(np.arange(rows) < rows // 2, 0.01, 0.99)
    return pa.table(
        {
            "ts": pa.array(np.sort(rng.integers(0, 200_000_000, rows)), pa.timestamp("us")),
            "k": rng.integers(0, 50, rows),
            "v": np.where(rng.random(rows) < often, 9, 1),
        }
    )


def run(sharing: str) -> tuple[Replay, list[tuple[int, ...]]]:
    """A run, and how many slices windows had on the way."""
    (replay,) = open_replays(
        TEXT,
        {"A": turning(1), "B": turning(2)},
        time="ts",
        time_unit=None,
        options=Options(sharing=sharing, batch_size=1_024),  # type: ignore[arg-type]
    )
    slices = []
    for _ in replay.steps():
        join = replay.driver.join
        assert join is not None
        slices.append(tuple(map(len, join.shared.slicing.ends)))  # type: ignore[attr-defined]
    return replay, slices


def test_slices_are_split_where_few_tuples_last_and_merged_where_most_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.adapt.chains.PERIOD", 1_000)
    monkeypatch.setattr("thalweg.adapt.chains.chain_price", lambda _: 0.0)
    adapting, slices = run("auto")
    assert (2, 2) in slices
    assert slices[-1] == (1, 1)
    assert adapting.driver.deciders.chains.changes >= 1
    steady, same = run("memory")
    assert set(same) == {(2, 2)}
    assert steady.driver.deciders.chains.changes == 0
    for name in ("near", "far"):
        assert adapting.result(name).table.sort_by("v").num_rows == steady.result(name).table.num_rows > 1_000


def test_a_change_waits_until_it_would_have_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.adapt.chains.PERIOD", 1_000)
    monkeypatch.setattr("thalweg.adapt.chains.chain_price", lambda _: 1e18)
    replay, slices = run("auto")
    assert replay.driver.deciders.chains.changes == 0
    assert len(set(slices)) == 1
