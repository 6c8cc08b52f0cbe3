"""How states became complete, as it is remembered from batch to batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.spark.simulated import DictLog, simulated_spec
from tests.spark.test_phases import KEYS, SCHEMA, batch
from thalweg.cql import Source, bind
from thalweg.plan.partitioning import choose_partitioning
from thalweg.policies import Policies
from thalweg.spark.attendance import attend


@pytest.mark.parametrize("is_kept", [True, False])
def test_the_way_of_a_state_is_remembered(is_kept: bool, tmp_path: Path) -> None:
    """Its keys are completed by the batch behind the change; when the windows have turned, all of it is complete.

    A bucket that is built anew in every batch has had the same plans. Its states begin again with absent keys.
    """
    text = "SELECT a.k FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW RANGE 10 MICROSECONDS"
    query = bind(text, dict.fromkeys("abc", Source(SCHEMA, "ts")))[0]
    spec = simulated_spec(query, choose_partitioning(query, 1), [0, 0, 0], "(a b) c", Policies(states="all"))
    change = {"command": "plan", "plan": "(b c) a", "states": "all"}
    record, log, histories = None, DictLog(), []
    for arriving in [batch(0, "abc"), batch(1, "a", change), *(batch(n, "abc") for n in range(2, 40))]:
        _, outcome = attend(spec, 0, record, arriving, log, tmp_path if is_kept else None)
        record = outcome.record
        histories.append(outcome.metrics["history"])
        committed = [{**period, "states": []} for period in outcome.metrics["history"]]
        assert json.loads(record)["history"]["periods"] == committed

    def state(number: int) -> dict[str, Any]:
        first, second = histories[number]
        assert (first["position"], second["position"], second["batch"]) == (0, 3 * KEYS, 1)
        (only,) = second["states"]
        assert not only["complete_at_start"]
        return dict(only)

    assert state(1)["course"] == [[3 * KEYS, 0], [4 * KEYS, KEYS]]
    if is_kept:
        completed = state(39)["completed_at"]
        assert state(39)["live_keys"] is None
        assert 4 * KEYS < completed < 39 * 3 * KEYS
        assert [n for n in range(1, 40) if state(n)["completed_at"] == completed][-1] == 39
    else:
        assert state(39)["course"][-1][0] == 4 * KEYS + 38 * 3 * KEYS
