"""What feedback saved, batch by batch, in a bucket that is handed over or built anew."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.spark.simulated import DictLog, simulated_spec
from thalweg.cql import Source, bind
from thalweg.engine.feedback.savings import Savings
from thalweg.plan.partitioning import choose_partitioning
from thalweg.policies import Policies
from thalweg.settings import Production
from thalweg.spark.attendance import attend
from thalweg.spark.bucket_spec import Arriving, Spec
from thalweg.spark.packing import blob

TIME = pa.timestamp("us")
CATALOG = {
    "a": Source(pa.schema([("ts", TIME), ("x", pa.int64()), ("y", pa.int64())]), "ts"),
    "b": Source(pa.schema([("ts", TIME), ("x", pa.int64())]), "ts"),
    "c": Source(pa.schema([("ts", TIME), ("y", pa.int64())]), "ts"),
}
BATCHES: list[tuple[int, tuple[int, ...]]] = [  # the stream, and a tuple of it
    (1, (1,)),
    (2, (7,)),
    (0, (1, 100)),  # finds b, and no c: y = 100 is suspended
    (1, (1,)),  # finds a: withheld
    (0, (1, 100)),  # not looked at
    (2, (100,)),  # four results
    (1, (1,)),  # y = 100 is in demand again
]


def spec(production: Production) -> Spec:
    text = "SELECT a.x FROM a, b, c WHERE a.x = b.x AND a.y = c.y WINDOW RANGE 1 HOUR"
    query = bind(text, CATALOG)[0]
    partitioning = choose_partitioning(query, 1)
    return simulated_spec(query, partitioning, [0, 0, 0], "(a b) c", Policies(production=production, states="all"))


def batch(number: int, stream: int, values: tuple[int, ...]) -> Arriving:
    schema = list(CATALOG.values())[stream].schema
    columns = [pa.array([value], field.type) for value, field in zip((number, *values), schema, strict=True)]
    table = pa.table(columns, schema=schema)
    return Arriving(bodies=[(stream, blob(table))], news=[(s, number, 0) for s in range(3)])


@pytest.mark.parametrize("handed_over", [True, False], ids=["handed over", "built anew"])
def test_each_batch_says_what_it_saved(tmp_path: Path, handed_over: bool) -> None:
    record, log, saved = None, DictLog(), []
    for number, (stream, values) in enumerate(BATCHES):
        directory = tmp_path if handed_over else None
        _, outcome = attend(spec("jit"), 0, record, batch(number, stream, values), log, directory)
        record = outcome.record
        saved.append(Savings(**outcome.metrics["savings"]))
        assert outcome.metrics["rebuilds"] == (number > 0 and not handed_over)
        assert outcome.metrics["results"] == {5: 4, 6: 2}.get(number, 0)
    assert sum(each.withheld for each in saved) == (1 if handed_over else 0)
    assert [each.suspended for each in saved] == ([0, 0, 1, 1, 1, 1, 0] if handed_over else [0, 0, 1, 1, 1, 0, 0])
    assert sum(each.resumptions for each in saved) == (1 if handed_over else 0)
    assert [each.unstored_bytes for each in saved] == [48 * each.withheld for each in saved]


def test_without_feedback_nothing_is_said() -> None:
    _, outcome = attend(spec("push"), 0, None, batch(0, *BATCHES[0]), DictLog(), None)
    assert "savings" not in outcome.metrics


def test_the_production_may_change_at_a_restart(tmp_path: Path) -> None:
    record, log, results, rebuilds = None, DictLog(), 0, 0
    for number, (stream, values) in enumerate(BATCHES):
        production: Production = "push" if number in (3, 4) else "jit"
        _, outcome = attend(spec(production), 0, record, batch(number, stream, values), log, tmp_path)
        record = outcome.record
        assert ("savings" in outcome.metrics) == (production == "jit")
        results += outcome.metrics["results"]
        rebuilds += outcome.metrics["rebuilds"]
    assert (results, rebuilds) == (6, 2)  # the image of one is none of the other
