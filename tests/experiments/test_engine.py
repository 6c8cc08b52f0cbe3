"""The engine experiment from end to end, in sizes that take seconds."""

from __future__ import annotations

import json

import numpy as np
import pytest

from thalweg.errors import ThalwegError
from thalweg.experiments import contenders, engine
from thalweg.experiments.experiment import Document
from thalweg.experiments.workloads import Workload

SMALL = engine.Sizes(
    workload=Workload(streams=3, tuples=2_000, keys=100, window_us=100_000),
    rounds=1,
    lengths=(1_000,),
    window_tuples=3_000,
    window_seconds=(1,),
    stream_counts=(2, 5),
    stream_total=3_000,
    state_counts=(4,),
    state_total=2_000,
    twin_tuples=300,
    memory_tuples=4_000,
    starts=1,
    compiling=False,
)


@pytest.fixture(scope="module")
def document() -> Document:
    return engine.measure("quick", SMALL, lambda text: None)


def test_the_document_has_the_agreed_fields_and_is_json(document: Document) -> None:
    assert list(document) == ["bench", "scale", "machine", "rows", "claims"]
    assert (document["bench"], document["scale"]) == ("engine", "quick")
    assert json.loads(json.dumps(document)) == document
    for claim in document["claims"]:
        assert list(claim) == ["claim", "measured", "bar", "holds"]


def test_rows_of_a_part_have_the_same_columns(document: Document) -> None:
    columns: dict[object, list[str]] = {}
    for row in document["rows"]:
        assert list(row) == columns.setdefault(row["part"], list(row))
    assert list(columns) == [
        "the workload",
        "growth: length of the streams",
        "growth: window, keys in proportion",
        "growth: number of streams",
        "kept states",
        "the twin",
        "memory",
        "start",
    ]


def test_claims_follow_from_the_rows(document: Document) -> None:
    speed = {str(row["contender"]): row["seconds"] for row in document["rows"] if row["part"] == "the workload"}
    measured = {claim["claim"]: claim["measured"] for claim in document["claims"]}
    kernel = measured["thalweg end to end / bare M-Join kernel, tuples/s"]
    assert kernel == pytest.approx(speed["bare M-Join kernel"] / speed["thalweg"], rel=0.01)  # rows are rounded
    best = min(seconds for name, seconds in speed.items() if name.startswith("DuckDB, plain"))
    plain = measured["thalweg on one core / DuckDB's plain SQL on its best number of threads, tuples/s"]
    assert plain == pytest.approx(best / speed["thalweg"], rel=0.01)
    short, long = [row for row in document["rows"] if row["part"] == "memory"]
    assert long["tuples"] == pytest.approx(10 * short["tuples"], rel=0.1)
    state = measured["state memory, 10 times the input / the input"]
    assert state == pytest.approx(long["state_bytes"] / short["state_bytes"], rel=1e-3)


def test_a_wrong_answer_stops_the_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "bucket_sql", lambda workload: engine.plain_sql(workload) + " WHERE s1.id <> s2.id")
    with pytest.raises(ThalwegError, match=r"bare M-Join kernel has .* results, DuckDB, time bucket"):
        engine.measure("quick", SMALL, lambda text: None)


def test_contenders_agree_where_the_engine_takes_part() -> None:
    workload = Workload(streams=3, tuples=2_000, keys=50, window_us=50_000)
    arrivals = workload.arrivals(np.random.default_rng(9))
    rivals = [contenders.kernel(workload, arrivals), contenders.thalweg(workload, arrivals)]
    assert contenders.check(rivals, lambda text: None, exactly=True) > 1_000
    assert contenders.check(rivals, lambda text: None, exactly=False) > 1_000
