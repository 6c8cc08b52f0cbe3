"""The JISC experiment from end to end, in sizes that take seconds."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from thalweg.engine.join.engine import JoinEngine
from thalweg.errors import ThalwegError
from thalweg.experiments import EXPERIMENTS, jisc
from thalweg.experiments.experiment import Document
from thalweg.experiments.jisc import driving, figures, memory, no_stall
from thalweg.experiments.jisc.driving import JISC, MOVING_STATE, Drive
from thalweg.experiments.jisc.sizes import Adapting, FirstOutput, Limited, Normal, NoStall, Often, OnSpark, Sizes, Stage
from thalweg.experiments.jisc.workloads import Uniform, all_incomplete, one_incomplete, pipeline
from thalweg.plan.transition import classify

SMALL = Sizes(
    stage=Stage(joins=(3, 4), window=50, warm_turns=2, rounds=2, slow_rounds=1),
    normal=(Normal("hash", 4, 50, 4, 500, 1), Normal("nested loops", 3, 20, 4, 200, 1)),
    first_output=(FirstOutput("hash", 4, (50, 200), 3, 2, 0.01), FirstOutput("nested loops", 4, (20, 50), 3, 1, 0.001)),
    often=Often(joins=4, window=50, warm_turns=2, tuples=1_000, periods=(200, 500), rounds=(1, 3), slow_rounds=1),
    no_stall=NoStall(joins=4, window=50, changes=10, batches=40, interval=0.001),
    limited=Limited(joins=4, window=2_000, warm_turns=2, tuples=5_000, shares=(0.8,), rounds=1),
    adapting=Adapting(streams=(4,), phases=3, phase_seconds=0.4, steady_seconds=0.4, rounds=1, steady_rounds=1),
)


@pytest.fixture(scope="module")
def document() -> Document:
    kept: list[int] = []
    document = jisc.measure("quick", SMALL, lambda text: None, lambda sofar: kept.append(len(sofar["rows"])))
    assert kept == sorted(set(kept)), "after every part there is more"
    assert kept[-1] == len(document["rows"])
    return document


def test_two_turns_after_a_change_jisc_and_moving_state_do_the_same() -> None:
    workload = Uniform(joins=4, window=300)
    start, end = 2 * workload.turn, 30 * workload.turn
    tuples = workload.tuples(np.random.default_rng(5), end)
    order = range(workload.streams)
    plans = pipeline(all_incomplete(order)), pipeline(order)
    changes = [(start, plans[0]), (start + 14 * workload.turn, plans[1])]
    course = figures._Course(workload, tuples, start, end, changes)
    settled = course.settled
    assert 0 < len(settled) < len(course.cuts) - 1
    done = {}
    for policy in (JISC, MOVING_STATE):
        drive_to = course.begin(pipeline(order), policy)
        laps = [drive_to(cut) for cut in course.cuts[1:]]
        done[policy] = [(laps[i].work["probes"], laps[i].work["stored"], laps[i].work["completions"]) for i in settled]
        assert sum(lap.work["completions"] for lap in laps) > 0 or policy == MOVING_STATE
    assert done[JISC] == done[MOVING_STATE]


def test_the_document_has_the_agreed_fields_and_is_json(document: Document) -> None:
    assert list(document) == ["bench", "scale", "machine", "rows", "claims"]
    assert (document["bench"], document["scale"]) == ("jisc", "quick")
    assert json.loads(json.dumps(document)) == document


def test_rows_of_a_part_have_the_same_columns_and_count_their_work(document: Document) -> None:
    columns: dict[object, list[str]] = {}
    for row in document["rows"]:
        assert list(row) == columns.setdefault(row["part"], list(row))
        if "against" not in row:
            assert {"probes", "candidates", "stored", "completions"} <= row.keys()
        if "policy" in row and "period" in row:
            assert (row["purged"] > 0) == (row["policy"] != "cacq"), row  # it keeps nothing that could be over
    assert [str(part).partition(":")[0] for part in columns] == [
        "figure 7",
        "figure 8",
        "figure 9",
        "figure 10a",
        "figure 10b",
        "figure 11",
        "figure 12",
        "no stall",
        "memory limit",
        *["adaptivity"] * 3,
    ]


def test_policies_differ_in_their_work_and_not_in_their_results(document: Document) -> None:
    stage = [row for row in document["rows"] if row["part"] == figures.FIGURE_8 and row["joins"] == 4]
    assert len({row["results"] for row in stage}) == 1
    work = {row["policy"]: row for row in stage}
    assert work["jisc"]["completions"] > 0
    assert work["moving_state"]["completions"] == work["parallel_track"]["completions"] == 0
    assert work["moving_state"]["stored"] > work["jisc"]["stored"]
    assert work["parallel_track"]["probes"] > work["moving_state"]["probes"]
    assert work["parallel_track_printed"]["checked"] > work["parallel_track"]["checked"] > 0
    assert work["cacq"]["stored"] == 0


def test_a_memory_limit_is_felt_and_kept(document: Document) -> None:
    free, limited = [row for row in document["rows"] if row["part"] == memory.PART]
    assert free["results"] == limited["results"]
    assert free["completions"] == 0 < limited["completions"]
    assert free["peak_bytes"] > limited["limit_bytes"] >= limited["peak_bytes"]
    assert free["reserved_bytes"] > limited["reserved_bytes"] >= limited["peak_bytes"]


def test_claims_follow_from_the_rows(document: Document) -> None:
    measured = {claim["claim"]: claim["measured"] for claim in document["claims"]}
    stage = [row for row in document["rows"] if row["part"] == figures.FIGURE_7]
    slower = min(row["jisc_speedup"] for row in stage if row["policy"] == MOVING_STATE)
    claim = "figure 7, in every point: jisc / moving_state, tuples/s"
    assert measured[claim] == pytest.approx(slower, abs=1e-3)
    calm, moved = (
        next(row for row in document["rows"] if row["part"] == no_stall.PART and row["policy"] == name)
        for name in ("jisc, no change", JISC)
    )
    claim = "no stall: greatest latency through 10 changes / 99th percentile without any"
    assert measured[claim] == pytest.approx(moved["max_ms"] / calm["p99_ms"], rel=0.01)


def test_a_wrong_answer_stops_the_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = driving.open_joiner

    def forgetful(query, plan, rank, policies):
        if policies.migration == MOVING_STATE:
            return JoinEngine(query, plan, rank, as_printed=True)
        return honest(query, plan, rank, policies)

    monkeypatch.setattr(driving, "open_joiner", forgetful)
    with pytest.raises(ThalwegError, match="jisc and moving_state answer differently"):
        figures.migration_stage(figures.FIGURE_8, SMALL.stage, lambda text: None)


def test_plots_are_drawn(document: Document, tmp_path: Path) -> None:
    plot = EXPERIMENTS["jisc"].plot
    assert plot is not None
    files = plot(document, tmp_path / "new")
    assert [file.name for file in files] == [
        "figure_07.png",
        "figure_08.png",
        "figure_09.png",
        "figure_10a.png",
        "figure_10b.png",
        "figure_11.png",
        "figure_12.png",
        "no_stall.png",
        "drifting.png",
        "stationary.png",
    ]
    for file in files:
        assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("joins", [2, 3, 8])
def test_the_changes_leave_one_or_all_states_incomplete(joins: int) -> None:
    order = range(joins + 1)
    old = pipeline(order)
    assert len(classify(old, pipeline(one_incomplete(order))).incomplete) == 1
    assert len(classify(old, pipeline(all_incomplete(order))).incomplete) == joins - 1


def test_windows_hold_as_many_tuples_as_was_said_and_decks_make_a_result_per_tuple() -> None:
    workload = Uniform(joins=3, window=40, keys="decks")
    tuples = workload.tuples(np.random.default_rng(3), 4 * workload.turn)
    drive = Drive(JISC, workload, pipeline(range(4)), tuples)
    drive.to(2 * workload.turn)
    held = [size.tuples for size in drive.joiner.sizes() if len(size.node) == 1]
    assert held == pytest.approx([40] * 4, abs=1)
    assert drive.to(4 * workload.turn).found.rows == pytest.approx(2 * workload.turn, rel=0.05)


def test_nested_loops_answer_as_hash_joins_do() -> None:
    found = []
    for method in ("hash", "nested loops"):
        workload = Uniform(joins=3, window=30, method=method, keys="decks")
        tuples = workload.tuples(np.random.default_rng(4), 3 * workload.turn)
        found.append(Drive(JISC, workload, pipeline(range(4)), tuples).to(3 * workload.turn).found)
    assert found[0] == found[1]


def test_adapting_on_spark() -> None:
    if "THALWEG_SOAK" not in os.environ:
        pytest.skip("measuring takes minutes: make soak")
    from thalweg.experiments.jisc import on_spark

    sizes = OnSpark((4,), combinations=4.0, phases=2, phase_triggers=3, trigger_tuples=4_000, steady_rounds=1)
    rows, claims = on_spark.drifting_on_spark(sizes, lambda text: None)
    assert [row["contender"] for row in rows if "contender" in row] == [
        "adaptive",
        "the initial plan",
        "the plan of phase 2",
    ]
    assert len({row["results"] for row in rows if "results" in row}) == 1
    steady, more = on_spark.stationary_on_spark(sizes, lambda text: None)
    assert [row["contender"] for row in steady] == ["adaptive", "the initial plan"]
    assert [claim["bar"] for claim in claims + more] == [">= 2", "<= 1.05"]
