"""Static relations in buckets: their share of the rows, there before everything, in no log, after a rebuild too."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from tests.spark.simulated import DictLog, simulated_spec, with_hashes
from thalweg.cql import Source, bind
from thalweg.plan.partitioning import choose_partitioning
from thalweg.spark.attendance import attend
from thalweg.spark.bucket_spec import Arriving
from thalweg.spark.chunks import PIECES
from thalweg.spark.packing import blob, unblob
from thalweg.spark.relations import Broadcasted, relation_blob, rows_of_bucket

NAMES = pa.table({"k": [1, 2, 2, 3], "name": ["one", "two", "zwei", "three"]})
TRADES = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64())])
CATALOG = {"names": Source(NAMES.schema, None), "a": Source(TRADES, "ts"), "b": Source(TRADES, "ts")}


@pytest.mark.parametrize(
    ("cql", "want"),
    [
        ("SELECT name FROM names n, a WHERE n.k = a.k", [["one"], ["two", "zwei"], ["one"]]),
        ("SELECT name FROM names n, a [ROWS 1] WHERE n.k = a.k", [[], ["one"], ["two", "zwei"]]),
        ("SELECT COUNT(*) AS n FROM names n, a [RANGE 1 HOUR] WHERE n.k = a.k", [[], [1], [3]]),
        ("SELECT k FROM a [NOW] EXCEPT SELECT k FROM names WHERE name <> 'one'", [[], [1], []]),
    ],
)
def test_an_engine_that_is_built_anew_for_every_batch_has_the_relation(cql: str, want: list[list[Any]]) -> None:
    query = bind(cql, CATALOG)[0]
    static = next(s for s, ref in enumerate(query.streams) if ref.is_static)
    moving = 1 - static
    lateness = [None if s == static else 0 for s in range(2)]
    spec = simulated_spec(query, choose_partitioning(query, 1), lateness, relations={static: NAMES})
    record, log, got = None, DictLog(), []
    for batch, k in enumerate([1, 2, 1]):
        table = pa.table({"ts": pa.array([10 * batch], pa.timestamp("us")), "k": [k]})
        arriving = Arriving(bodies=[(moving, blob(table))], news=[(moving, 10 * batch, 0)])
        resident, outcome = attend(spec, 0, record, arriving, log, None)
        record = outcome.record
        got.append(
            sorted(value for each in outcome.results for value in unblob(each.body or b"").column(0).to_pylist())
        )
        assert outcome.metrics["rebuilds"] == (batch > 0)
        assert outcome.metrics["tuples"] == {query.aliases[moving]: 1}
        assert resident.bucket.sizes()
    assert got == want
    assert {number // PIECES for _, number in log.held} <= {moving}


def test_every_row_is_in_the_buckets_that_it_belongs_to() -> None:
    split = "SELECT name FROM a [NOW], b [NOW], names n WHERE a.k = b.k AND b.k = n.k"
    copied = (
        "SELECT name FROM a [NOW], b [NOW], names n WHERE a.k = b.k AND a.ts = b.ts AND n.name = CAST(a.ts AS STRING)"
    )
    for cql, copies in ((split, 1), (copied, 4)):
        query = bind(cql, CATALOG)[0]
        partitioning = choose_partitioning(query, 4)
        assert partitioning.buckets == 4
        handed = with_hashes(query, partitioning, 2, NAMES, NAMES)

        class Held:
            value = {2: relation_blob(handed, NAMES.schema, partitioning, 2)}  # noqa: RUF012 - as a broadcast has it

        shares = [rows_of_bucket(Held(), partitioning, bucket)[2] for bucket in range(4)]
        assert all(share.schema.equals(NAMES.schema) for share in shares)
        assert sorted(pa.concat_tables(shares)["name"].to_pylist()) == sorted(NAMES["name"].to_pylist() * copies)


_loaded: dict[int, Variable] = {}


class Variable:
    """A broadcast variable, as far as pickling goes."""

    def __init__(self, number: int) -> None:
        self.value = {number: b"rows"}
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _find, (self.number,)


def _find(number: int) -> Variable:
    return _loaded[number]


def test_a_broadcast_variable_is_looked_up_when_it_is_needed() -> None:
    sent = pickle.dumps(Broadcasted.of(Variable(7)))  # type: ignore[arg-type]
    received = pickle.loads(sent)  # noqa: S301 - our own bytes
    with pytest.raises(KeyError):
        _ = received.value
    _loaded[7] = Variable(7)
    assert received.value == {7: b"rows"}
    assert pickle.loads(pickle.dumps(received)).value == received.value  # noqa: S301 - our own bytes
