"""The Spark experiment: its processes, its files, and the document from end to end in sizes that take seconds."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.runs import BRIEF
from thalweg.errors import ThalwegError
from thalweg.experiments import answers, micro_batches, spark
from thalweg.experiments.experiment import Document
from thalweg.experiments.micro_batches import Extra, Files, Timings, Trigger, window_first
from thalweg.experiments.peers import mjoin
from thalweg.experiments.process_memory import Peaks
from thalweg.experiments.spark import comparison, growth, processes, restarts
from thalweg.experiments.spark.contenders import DEFAULT_STORE, EVERYONE, FLOOR, ROCKSDB_2, ROCKSDB_4, SPARKS, THALWEG
from thalweg.experiments.spark.processes import Ask, Job, Outcome, in_own_process
from thalweg.experiments.spark.sizes import SIZES, Bars, Counts, Load, Payload, Sizes
from thalweg.experiments.workloads import Workload

WORKLOAD = Workload(streams=2, keys=100, window_us=100_000)
SMALL = Sizes(
    workload=WORKLOAD,
    check=replace(WORKLOAD, streams=3),
    check_rows=600,
    check_triggers=2,
    loads=(
        Load(300, Counts(2, 2), fewer={ROCKSDB_2: Counts(1, 1)}),
        Load(600, Counts(1, 1), (FLOOR, THALWEG)),
    ),
    tiny=Load(30, Counts(1, 2), (FLOOR, THALWEG)),
    wide_columns=40,
    window_of_restart_s=1,
    payload=Payload(window_bytes=1 << 20, trigger_bytes=1 << 18, row_bytes=1 << 10),
    growth_rows=300,
    growth_counts=Counts(2, 1),
    window_seconds=(),
    stream_counts=(2,),
    key_counts=(100,),
    bucket_counts=(1,),
    bars=Bars(best_of_spark=20, floor=0.8, tiny_seconds=0.25, first_seconds=3, wide=1.3, restart_seconds=5),
)

SPEED = {FLOOR: 0.4, THALWEG: 0.5, DEFAULT_STORE: 9.0, ROCKSDB_2: 25.0, ROCKSDB_4: 8.0}
"""Seconds of a steady trigger, as :class:`Pretended` has it."""
FIRST, WIDER, RESTARTED = 3.5, 0.125, 4.5


class Pretended:
    """Does jobs without Spark: the right answer, by the kernel, in the times that a test wants."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[Job]]] = []

    def __call__(self, name: str, jobs: Sequence[Job]) -> Outcome:
        self.asked.append((name, list(jobs)))
        runs = tuple(self._run(name, job) for job in jobs)
        return Outcome(runs, Peaks(3 << 30, 2 << 30, 1 << 30 if name in (FLOOR, THALWEG) else None), {"java": "17"})

    def _run(self, name: str, job: Job) -> Timings:
        files = job.files
        streams = {
            stream: pa.concat_tables(pq.read_table(path) for path in sorted((files.directory / stream).iterdir()))
            for stream in files.workload.names
        }
        ids = mjoin.join(mjoin.merge(streams, files.workload.window_us), files.workload.window_us)
        if job.answer is not None:
            job.answer.mkdir(parents=True)
            kept = ids[:, (ids < files.ends[job.triggers - 1]).all(axis=0)]
            columns = dict(zip(files.workload.outputs, kept, strict=True))
            pq.write_table(pa.table(columns), job.answer / "all.parquet")
        past = job.directory / "past"
        done = int(past.read_text()) if past.exists() else 0
        past.parent.mkdir(parents=True, exist_ok=True)
        past.write_text(str(job.triggers))
        newest = np.searchsorted(files.ends, ids.max(axis=0), side="right")
        rows = files.rows(job.triggers)
        triggers = [
            self._trigger(
                name, job, rows[i], int((newest == i).sum()) if EVERYONE[name].joins else rows[i], i - done, sum(rows)
            )
            for i in range(done, job.triggers)
        ]
        return Timings(tuple(triggers), job.warm_up)

    def _trigger(self, name: str, job: Job, rows: int, results: int, since: int, held: int) -> Trigger:
        seconds = SPEED[name] + (WIDER if job.files.extra.numbers else 0)
        if since == 0:
            seconds = RESTARTED if (job.directory / "past").exists() and rows < 31 else FIRST
        spent = dict.fromkeys(("decode", "probe", "rebuild"), 0.1)
        metrics = {
            "seconds": spent,
            "rebuilds": 1,
            "state_tuples": held,
            "state_bytes": 100,
            "buckets": [{}] * (job.buckets or 2),
        }
        return Trigger(rows, results, seconds, {"addBatch": 0.3}, metrics if name == THALWEG else {})


def measured(ask: Ask) -> Document:
    return spark.measure("quick", SMALL, lambda text: None, lambda document: None, ask)


@pytest.fixture(scope="module")
def pretended() -> Document:
    return measured(Pretended())


@pytest.fixture(scope="module", params=["pretended", "real"])
def document(request: pytest.FixtureRequest) -> Document:
    """What the experiment finds: without Spark, and with a Spark for each contender."""
    if request.param == "pretended":
        found: Document = request.getfixturevalue("pretended")
        return found
    if "THALWEG_SOAK" not in os.environ:
        pytest.skip("measuring takes minutes: make soak")
    return measured(partial(in_own_process, settings=BRIEF))


def part(document: Document, begins: str) -> list[dict[str, object]]:
    return [row for row in document["rows"] if str(row["part"]).startswith(begins)]


def test_the_document_has_the_agreed_fields_and_is_json(document: Document) -> None:
    assert list(document) == ["bench", "scale", "machine", "rows", "claims"]
    assert (document["bench"], document["scale"]) == ("spark", "quick")
    assert json.loads(json.dumps(document)) == document
    assert {"pyspark", "java", "heap_mib", "cores"} <= set(document["machine"])


def test_rows_of_a_part_have_the_same_columns(document: Document) -> None:
    columns: dict[object, list[str]] = {}
    for row in document["rows"]:
        assert list(row) == columns.setdefault(row["part"], list(row))
    assert [str(name).split(",")[0] for name in columns] == [
        "answers",
        "fixed cost of a trigger",
        "the workload",
        "where the time of thalweg's triggers goes",
        "where the time of thalweg's triggers goes",
        "streams of many columns",
        "a restart with full windows",
        "a restart with 0.000976562 GiB of windows in one bucket",
        "growth: number of streams",
        "growth: keys",
        "growth: buckets",
    ]


def test_everyone_takes_part_and_has_the_same_answer(document: Document) -> None:
    compared = part(document, "answers")
    assert {row["contender"] for row in compared} == {THALWEG, *SPARKS}
    assert len({row["results"] for row in compared}) == 1
    found = [
        (row["rows_per_trigger"], row["contender"], row["warm_up"], row["steady"])
        for row in part(document, "the workload")
    ]
    assert found == [
        (300, FLOOR, 2, 2),
        (300, THALWEG, 2, 2),
        (300, DEFAULT_STORE, 2, 2),
        (300, ROCKSDB_2, 1, 1),
        (300, ROCKSDB_4, 2, 2),
        (600, FLOOR, 1, 1),
        (600, THALWEG, 1, 1),
    ]


def test_the_time_of_a_trigger_is_accounted_for(document: Document) -> None:
    by_spark, in_buckets = (
        [row for row in part(document, "where the time") if str(row["part"]).endswith(end)]
        for end in ("account", "together")
    )
    kinds = [("steady", rows) for rows in (30, 300, 600)] + [("first", 200)] * 3
    for rows in (by_spark, in_buckets):
        assert [(row["trigger"], row["rows_per_trigger"]) for row in rows] == kinds
    for row in by_spark:
        assert 0 < row["addBatch"] < row["seconds"]
    for row in in_buckets:
        assert row["buckets"] == 2
        assert {"probe", "decode", "rebuild"} <= set(row)
        assert row["state_bytes"] > 0


def test_the_memory_of_java_is_a_part_of_all(document: Document) -> None:
    for row in part(document, "the workload"):
        assert 100 << 20 < row["peak_jvm_bytes"] < row["peak_bytes"] < 8 << 30


@pytest.mark.parametrize(("gibibytes", "heap"), [(64, 6144), (24, 6144), (16, 4096)])
def test_the_heap_is_six_gibibytes_or_a_quarter_of_the_machine(
    gibibytes: int, heap: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes.machine, "memory", lambda: gibibytes << 30)
    assert processes.heap_mib() == heap


def test_restarts_rebuild_every_bucket_once_and_say_what_windows_held(document: Document) -> None:
    many, wide = part(document, "a restart")
    assert (many["buckets"], wide["buckets"], wide["rebuilds"]) == (2, 1, 1)
    assert (many["fill_triggers"], wide["fill_triggers"]) == (1, 4)
    assert (many["payload_bytes"], wide["payload_bytes"]) == (0, SMALL.payload.window_bytes)
    assert many["state_tuples"] == 2000


def test_growth_varies_one_thing_and_measures_the_common_point_once(document: Document) -> None:
    (streams,), (keys,) = part(document, "growth: number of streams"), part(document, "growth: keys")
    assert keys == streams | {"part": "growth: keys"}
    (buckets,) = part(document, "growth: buckets")
    assert (buckets["buckets"], streams["buckets"]) == (1, 2)
    assert buckets["results_per_trigger"] == streams["results_per_trigger"]


def test_claims_follow_from_what_was_measured(pretended: Document) -> None:
    found = [(claim["claim"], claim["measured"], claim["bar"], claim["holds"]) for claim in pretended["claims"]]
    assert found == [
        ("thalweg, a trigger of 30 rows, seconds on this machine", 0.5, "<= 0.25", False),
        ("thalweg / the best of Spark's 3 ways to join, rows/s, 300 rows per trigger", 16.0, ">= 20", False),
        (f"thalweg / {FLOOR}, rows/s, 300 rows per trigger", 0.8, ">= 0.8", True),
        ("the first trigger of a new query (200 rows), seconds on this machine", 3.5, "<= 3", False),
        ("thalweg, streams of 40 columns / of 3, seconds per trigger", 1.25, "<= 1.3", True),
        ("the first trigger after a restart with 2,000 tuples in windows, seconds on this machine", 4.5, "<= 5", True),
    ]


def test_every_contender_has_a_process_for_each_load_and_the_same_files() -> None:
    ask = Pretended()
    outcomes = comparison.timed(WORKLOAD, SMALL.loads[0], ask, lambda text: None)
    assert [name for name, _ in ask.asked] == list(outcomes) == list(EVERYONE)
    assert len({str(job.files) for _, (job,) in ask.asked}) == 1
    assert len({job.directory for _, (job,) in ask.asked}) == len(EVERYONE)


def test_a_restart_goes_on_in_a_new_process_from_the_same_checkpoint() -> None:
    ask = Pretended()
    restarts.restart_with_wide_rows(SMALL, ask, lambda text: None)
    (_, (before,)), (_, (after,)) = ask.asked
    assert before.directory == after.directory
    assert (before.triggers, after.triggers) == (4, 6)
    assert before.buckets == after.buckets == 1


def test_growth_shares_one_process_whose_first_job_does_not_count() -> None:
    ask = Pretended()
    rows = growth.measure_growth(SMALL, ask, lambda text: None)
    ((name, jobs),) = ask.asked
    assert (name, len(jobs), len(rows)) == (THALWEG, 3, 3)


def test_who_takes_longest_takes_part_in_fewer_triggers_and_others_in_the_same_number() -> None:
    for sizes in SIZES.values():
        for load in (*sizes.loads, sizes.tiny):
            assert THALWEG not in load.fewer
            assert all(load.of(name) == load.counts for name in load.names if name not in load.fewer)
            assert all(counts.triggers < load.counts.triggers for counts in load.fewer.values())
        assert sizes.payload.fill_triggers * sizes.payload.trigger_bytes >= 4 << 30


@pytest.mark.parametrize("name", [THALWEG, ROCKSDB_4])
def test_a_process_of_its_own_runs_jobs_and_tells_its_memory(name: str, tmp_path: Path) -> None:
    made = micro_batches.write(tmp_path / "in", WORKLOAD, window_first(WORKLOAD, 60, 3), 2, Extra(numbers=1))
    jobs = [Job(made.files, 2, tmp_path / "a", tmp_path / "answer"), Job(made.files, 3, tmp_path / "b", warm_up=1)]
    outcome = in_own_process(name, jobs, BRIEF)
    kept, timed = outcome.runs
    comparison.check(name, timed, made, 3)
    assert [trigger.rows for trigger in kept.triggers] == made.files.rows(2)
    found = answers.ids_of(pq.read_table(tmp_path / "answer", columns=list(WORKLOAD.outputs)))
    answers.check_same(made.ids[:, (made.ids < made.files.ends[1]).all(axis=0)], found, ("the kernel", name))
    assert (len(timed.steady), "java" in outcome.machine) == (2, True)
    assert outcome.peaks.tree is not None
    assert outcome.peaks.jvm is not None
    assert 100 << 20 < outcome.peaks.jvm < outcome.peaks.tree
    assert (outcome.peaks.worker is not None) == (name == THALWEG)
    assert (len(timed.triggers[0].metrics["buckets"]) == 2) if name == THALWEG else not timed.triggers[0].metrics


def test_files_have_a_window_first_and_then_equal_shares(tmp_path: Path) -> None:
    ends = window_first(WORKLOAD, 400, 3)
    made = micro_batches.write(tmp_path, WORKLOAD, ends, seed=1)
    assert made.files.ends == ends == (100, 300, 500)
    assert made.files.rows(2) == [200, 400]
    tables = dict(_parts(made.files))
    assert [[len(table) for table in parts] for parts in tables.values()] == [[100, 200, 200]] * 2
    begun = {name: parts[0] for name, parts in tables.items()}
    assert made.results(1) == mjoin.join(mjoin.merge(begun, WORKLOAD.window_us), WORKLOAD.window_us).shape[1]
    assert 0 < made.results(1) < made.results(3) == made.ids.shape[1]


def test_extra_columns_leave_the_join_as_it_is(tmp_path: Path) -> None:
    ends = window_first(WORKLOAD, 40, 2)
    narrow = micro_batches.write(tmp_path / "narrow", WORKLOAD, ends, seed=1)
    wide = micro_batches.write(tmp_path / "wide", WORKLOAD, ends, 1, Extra(numbers=2, payload=7))
    for (_, plain), (_, parts) in zip(_parts(narrow.files), _parts(wide.files), strict=True):
        for before, after in zip(plain, parts, strict=True):
            assert after.column_names == ["ts", "k", "id", "n1", "n2", "payload"]
            assert before.equals(after.select(before.column_names))
            assert {len(value) for value in after["payload"].to_pylist()} == {7}
            assert len(set(after["payload"].to_pylist())) == len(after)
    assert (narrow.ids == wide.ids).all()
    assert narrow.files.cql == WORKLOAD.cql
    assert "s2.id AS id2, s1.payload AS payload_s1, s2.payload AS payload_s2\nFROM s1, s2" in wide.files.cql
    assert Files.from_json(json.loads(json.dumps(wide.files.to_json()))) == wide.files


def _parts(files: Files) -> Iterator[tuple[str, list[pa.Table]]]:
    for name in files.workload.names:
        yield name, [pq.read_table(path) for path in sorted((files.directory / name).iterdir())]


class Wrong(Pretended):
    """Loses the last result."""

    def _run(self, name: str, job: Job) -> Timings:
        run = super()._run(name, job)
        if job.answer is not None:
            kept = pq.read_table(job.answer / "all.parquet")
            pq.write_table(kept.slice(0, len(kept) - 1), job.answer / "all.parquet")
        last = run.triggers[-1]
        return replace(run, triggers=(*run.triggers[:-1], replace(last, results=last.results - 1)))


def test_a_wrong_answer_and_a_wrong_number_of_results_are_errors() -> None:
    with pytest.raises(ThalwegError, match=r"bare M-Join kernel has \d+ results, thalweg has \d+"):
        comparison.compare_answers(SMALL, Wrong(), lambda text: None)
    with pytest.raises(ThalwegError, match=r"scan, shuffle, Python delivered \d+ rows, and there are \d+"):
        comparison.timed(WORKLOAD, SMALL.tiny, Wrong(), lambda text: None)


def test_a_trigger_that_took_other_rows_is_an_error(tmp_path: Path) -> None:
    made = micro_batches.write(tmp_path, WORKLOAD, window_first(WORKLOAD, 60, 2), seed=3)
    halved = Timings(tuple(Trigger(rows // 2, 0, 1.0, {}, {}) for rows in made.files.rows(2)))
    with pytest.raises(ThalwegError, match=r"thalweg took \[100, 30\] rows in its triggers, .* have \[200, 60\]"):
        comparison.check(THALWEG, halved, made, 2)
