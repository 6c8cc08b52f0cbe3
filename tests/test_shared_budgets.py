"""Queries that share the budget of one join: what each is told of its own answer, and who loses last."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from thalweg.engine.kernels.compiled import Float64s, Int64s
from thalweg.engine.outputs.estimates import AnswerEstimate, added
from thalweg.errors import OptionError
from thalweg.replayer import ReplayResult
from thalweg.replayer.api import run_all

JOIN = "SELECT a.n AS x, b.n AS y, c.n AS z FROM a, b, c WHERE a.k = b.k AND b.k = c.k"
TEXT = f"""
CREATE QUERY fraud AS {JOIN} AND a.n < 30 AND b.n < 30 AND c.n < 30 WINDOW RANGE 300 MILLISECONDS;
CREATE QUERY other AS {JOIN} AND a.n >= 20 AND b.n >= 20 AND c.n >= 20 AND a.n + c.n < b.n + 60
    WINDOW RANGE 200 MILLISECONDS
"""


def streams(count: int, keys: int, seed: int = 5) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        name: {
            "ts": np.sort(rng.integers(0, 2_000_000, count)),
            "k": rng.integers(0, keys, count),
            "n": rng.integers(0, 60, count),
        }
        for name in "abc"
    }


def answers(tables: dict[str, Any], **options: Any) -> dict[str, ReplayResult]:
    return run_all(TEXT, tables, options={"adaptive": False} | options)


TURNS = ((300, "(a b) c"), (700, "(b c) a"), (1000, "(a c) b"))


@pytest.mark.parametrize(
    "given",
    [
        {"states": "none"},
        {"states": "all"},
        {"states": "all", "production": "jit", "plan": "(b c) a", "transitions": TURNS},
        {"states": "all", "migration": "moving_state", "plan": "(b c) a", "transitions": TURNS},
        {"budgets": ((300, "10%"), (600, "80%"), (900, "30%"))},
        {"entries": ((300, "fraud", "leave"), (600, "fraud", "enter"))},
        {"allocation": "harvest"},
        {"weight": {"fraud": 10}},
    ],
    ids=lambda given: " ".join(given),
)
def test_the_estimate_of_each_answer_is_right_on_average(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After all its predicates: also those that only the joined row decides. Whatever changes meanwhile."""
    monkeypatch.setattr("thalweg.adapt.spending.PERIOD", 200)
    tables = streams(400, 8)
    changes: dict[str, Any] = {
        name: list(given[name]) for name in ("transitions", "budgets", "entries") if name in given
    }
    options = {"adaptive": False, "budget": "40%"} | {name: given[name] for name in given.keys() - changes.keys()}
    whole = run_all(TEXT, tables, options={"adaptive": False}, entries=changes.get("entries", []))
    full = {name: result.table.num_rows for name, result in whole.items()}
    found: dict[str, list[float]] = {name: [] for name in full}
    errors: dict[str, list[float]] = {name: [] for name in full}
    for seed in range(120):
        monkeypatch.setattr("thalweg.engine.machine.accounts._SEED", 7919 * seed + 1)
        for name, result in run_all(TEXT, tables, options=options, **changes).items():
            use = result.summary.budget
            assert use is not None
            assert use.answer is not None
            assert 0 < result.table.num_rows < full[name]
            found[name].append(result.table.num_rows / use.answer.share)
            errors[name].append(use.answer.error / use.answer.share * found[name][-1])
    for name, estimates in found.items():
        spread = float(np.std(estimates, ddof=1))
        assert abs(np.mean(estimates) - full[name]) < 4 * spread / np.sqrt(len(estimates)), (name, full[name])
        assert 0.8 * spread < np.sqrt(np.mean(np.square(errors[name]))) < 3 * spread, (name, spread)


def test_each_stream_is_told_what_its_tuples_did_not_find() -> None:
    use = answers(streams(2_000, 20), budget="30%")["fraud"].summary.budget
    assert use is not None
    shares = [share.share for share in use.streams.values() if share is not None]
    assert len(shares) == 3
    assert min(shares) < 0.5 < 2 * max(shares)
    whole = answers(streams(2_000, 20), budget="auto")["fraud"].summary.budget
    assert whole is not None
    assert whole.answer is not None
    assert (whole.answer.share, whole.answer.error) == (1, 0)


def test_a_query_that_weighs_more_loses_last() -> None:
    tables = streams(3_000, 25)
    full = {name: result.table.num_rows for name, result in answers(tables).items()}

    def shares(**options: Any) -> dict[str, float]:
        some = answers(tables, budget="30%", allocation="equal_hj", **options)
        return {name: result.table.num_rows / full[name] for name, result in some.items()}

    alike, weighed = shares(), shares(weight={"fraud": 20})
    assert weighed["fraud"] > 1.5 * alike["fraud"], (alike, weighed)
    assert weighed["other"] < alike["other"], (alike, weighed)
    assert shares(weight=7) == alike


def test_a_weight_is_given_to_queries_that_there_are() -> None:
    with pytest.raises(OptionError, match="option weight names the query 'fruad', and the text has none"):
        answers(streams(10, 2), weight={"fruad": 2})


def estimate(*blocks: tuple[list[int], list[float]]) -> AnswerEstimate:
    made = AnswerEstimate()
    for tuples, scores in blocks:
        numbers: Int64s = np.array(tuples, np.int64)
        values: Float64s = np.array(scores)
        made.add(numbers, values)
    return made


def test_results_of_one_tuple_hang_together_wherever_blocks_are_cut() -> None:
    whole = estimate(([1, 1, 1, 4, 4], [2.0, 2.0, 2.0, 3.0, 5.0]))
    parts = estimate(([1], [2.0]), ([1, 1, 4], [2.0, 2.0, 3.0]), ([], []), ([4], [5.0]))
    for each in (whole, parts, estimate(([4, 1, 1, 4, 1], [3.0, 2.0, 2.0, 5.0, 2.0]))):
        assert (each.found, each.full, each.variance) == (5, 14.0, 6 * (6 - 3) + 8 * (8 - 2))
    both = added({"q": whole}, {"q": parts, "r": None, "s": whole})
    assert (both["q"].found, both["q"].full, both["q"].variance) == (10, 28.0, 2 * whole.variance)
    assert set(both) == {"q", "s"}
    assert AnswerEstimate().share is None
