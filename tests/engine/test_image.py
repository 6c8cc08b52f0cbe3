"""A bucket handed over through an image goes on as if nothing had happened; what is no image is never taken for one."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.test_interner import COLUMNS
from thalweg.cql import Source, bind
from thalweg.cql.group import Group
from thalweg.cql.query import Query
from thalweg.engine.bucket import AnyBucket, open_bucket
from thalweg.engine.feedback.gates import NO_GATES, Gates
from thalweg.engine.image import image
from thalweg.engine.image.image import mark_dirty, read_image, write_image
from thalweg.engine.image.snapshot import Restoration, Snapshot
from thalweg.engine.join_bucket import JoinBucket
from thalweg.engine.kernels import machine as kernels
from thalweg.engine.outputs.readers import Emitted
from thalweg.engine.rows.batch import Batch
from thalweg.engine.rows.interner import Interner
from thalweg.engine.rows.payload import Payload, TablePayload
from thalweg.engine.storage.memory import MappedArena, Memory
from thalweg.errors import ThalwegError
from thalweg.plan.tree import Plan, TreePlan, parse_plan
from thalweg.policies import Policies
from thalweg.settings import Budget, Feedback, Production

SCHEMA = pa.schema(
    {
        "ts": pa.int64(),
        "k": pa.int64(),
        "s": pa.string(),
        "x": pa.float64(),
        "n": pa.decimal128(10, 2),
        "d": pa.decimal128(30, 2),
        "kind": pa.dictionary(pa.int8(), pa.string()),
    }
)
BATCHES, ROWS_PER_BATCH = 14, 12
ALL_CALLS = (
    "COUNT(*) AS c, COUNT(a.x) AS cx, SUM(a.x) AS sx, AVG(b.x) AS ax, MIN(a.x) AS ix, MAX(b.x) AS mx, SUM(a.k) AS sk, "
    "AVG(a.k) AS ak, SUM(a.n) AS sn, AVG(a.d) AS ad, SUM(b.d) AS sd, MIN(a.d) AS id, MAX(b.s) AS ms, MIN(a.s) AS is_"
)
QUERIES = {
    "istream": "SELECT a.ts, b.s, c.kind FROM a [RANGE 20 US], b [RANGE 30 US], c [RANGE 15 US] "
    "WHERE a.k = b.k AND b.k = c.k",
    "unbounded": "SELECT a.ts, b.ts AS bt FROM a [RANGE UNBOUNDED], b [RANGE 10 US] WHERE a.k = b.k AND a.x > 0",
    "constants": "SELECT 1 AS one FROM a [RANGE 20 US], b [RANGE 20 US] WHERE a.k = b.k",
    "strings": "SELECT a.ts, b.d FROM a [RANGE 20 US], b [RANGE 20 US] WHERE a.s = b.s",
    "composite": "SELECT a.ts, b.d FROM a [RANGE 30 US], b [RANGE 30 US], c [RANGE 30 US] "
    "WHERE a.k = b.k AND a.s = b.s AND b.s = c.s",
    "thetas": "SELECT a.ts, b.ts AS bt, c.n FROM a [RANGE 20 US], b [RANGE 20 US], c [RANGE 20 US] "
    "WHERE a.x < b.x AND ABS(b.x - c.x) < 1.5 AND a.k = c.k",
    "loops": "SELECT a.ts, b.ts AS bt, c.n FROM a [RANGE 20 US], b [RANGE 40 US], c [RANGE 30 US] "
    "WHERE a.x < b.x AND b.x < c.x",
    "dstream": "SELECT DSTREAM a.s, b.x FROM a [RANGE 20 US], b [RANGE 25 US] WHERE a.k = b.k",
    "rows": "SELECT a.ts, b.ts AS bt FROM a [ROWS 5], b [ROWS 7] WHERE a.k = b.k",
    "departing rows": "SELECT DSTREAM a.ts, b.kind FROM a [ROWS 5], b [RANGE 30 US] WHERE a.k = b.k",
    "partitions": "SELECT a.ts, c.s FROM a [PARTITION BY s ROWS 2], b [PARTITION BY k, d ROWS 2], c [RANGE 20 US] "
    "WHERE a.k = b.k AND b.k = c.k",
    "aggregates": f"SELECT a.s, a.x, {ALL_CALLS} "  # noqa: S608 - constants
    "FROM a [RANGE 20 US], b [RANGE 20 US] WHERE a.k = b.k GROUP BY a.s, a.x",
    "one row": f"SELECT DSTREAM {ALL_CALLS} "  # noqa: S608 - constants
    "FROM a [ROWS 6], b [RANGE 20 US] WHERE a.k = b.k",
    "difference": "SELECT k, s, ts FROM a [RANGE 20 US] EXCEPT CORRESPONDING BY (k, s) SELECT k, s FROM b [RANGE 9 US]",
    "difference of rows": "SELECT DSTREAM s FROM a [PARTITION BY k ROWS 2] "
    "EXCEPT SELECT s FROM b [ROWS 4] EXCEPT SELECT s FROM c [PARTITION BY d ROWS 1]",
}

Feed = list[tuple[list[Batch | None], int]]
"""Batches per stream, and the watermark after them."""


def bound(name: str) -> Query:
    return bind(QUERIES[name], {stream: Source(SCHEMA, "ts") for stream in "abc"})[0]


def rows(rng: random.Random, times: list[int]) -> pa.Table:
    def some(values: list[Any]) -> list[Any]:
        return [rng.choice(values) for _ in times]

    kinds = pa.array(some(["x", "y", None]), pa.string()).dictionary_encode().cast(SCHEMA.field("kind").type)
    columns = [
        times,
        some([1, 2, 3, 4, None]),
        some(["", "a", "b", "ä", "abc", None]),
        some([0.0, -0.0, 1.0, 1e300, -2.5, float("nan"), None]),
        some([Decimal("1.25"), Decimal("-3.00"), None]),
        some([Decimal("1.25"), Decimal("12345678901234567890.01"), Decimal("-7.00"), None]),
    ]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=False)]
    return pa.table([*arrays, kinds], schema=SCHEMA)


def feed(query: Query, seed: int = 1) -> Feed:
    """Rows of every batch up to 5 us late, in any order."""
    rng = random.Random(seed)
    batches: Feed = []
    for n in range(BATCHES):
        offered: list[Batch | None] = []
        for _ in query.streams:
            times = [10 * n + rng.randrange(-5, 10) for _ in range(rng.choice([0, 1, ROWS_PER_BATCH]))]
            offered.append(Batch(rows(rng, times), np.array(times)) if times else None)
        batches.append((offered, 10 * n + 5))
    return batches


def plans(query: Query) -> list[Plan]:
    """Plans to change to, over and over: with states that are kept, so that some of their keys are absent."""
    aliases = query.aliases
    trees = [" ".join(aliases), " ".join(reversed(aliases))] if len(aliases) < 3 else ["(a b) c", "(b c) a", "(a c) b"]
    parsed = [parse_plan(text, aliases) for text in trees]
    kept: list[Plan] = [tree.keeping_all() for tree in parsed if isinstance(tree, TreePlan)]
    linear = "; ".join(f"{head}: {' '.join(a for a in aliases if a != head)}" for head in aliases)
    return [*kept, parse_plan(linear, aliases), parsed[0]]


def opened(query: Query, plan: int = 0, production: Production | Feedback = "push") -> AnyBucket:
    return open_bucket(
        Group.of(query),
        None if query.kind == "difference" else plans(query)[plan],
        policies=Policies(production=production),
    )


def contents(emitted: Iterable[Emitted]) -> list[str]:
    """Results to compare: in a text, NaN is equal to itself."""
    return [f"{reader} {table.to_pylist()}" for reader, table in emitted]


def together(emitted: Iterable[Emitted]) -> str:
    """The same of one reader, as one table."""
    return str(pa.concat_tables([table for _, table in emitted]).to_pylist())


Between = Callable[[AnyBucket, int], AnyBucket]


def run(
    bucket: AnyBucket, query: Query, batches: Feed, between: Between = lambda bucket, _: bucket
) -> Iterator[Emitted]:
    """Feed a bucket, with a new plan every other batch; ``between`` two batches another one may take its place."""
    for n, (offered, watermark) in enumerate(batches):
        bucket.offer(offered, watermark)
        yield from bucket.advance()
        yield from bucket.settle(watermark)
        if query.kind == "join" and n % 2:
            bucket.transition(plans(query)[n % len(plans(query))])
        bucket = between(bucket, n)
    yield from bucket.close()


def snapshot(directory: Path, value: object) -> bytes:
    return b"".join(Snapshot(directory, value).pieces())


def through(directory: Path, query: Query, production: Production | Feedback = "push") -> Between:
    """Hand over to one of a few buckets, opened under whichever plan: first new ones, then those of an older state."""
    takers: dict[int, AnyBucket] = {}

    def between(bucket: AnyBucket, n: int) -> AnyBucket:
        sizes = bucket.sizes()
        write_image(directory, bucket, str(n))
        taker = takers.setdefault(n % 3, opened(query, n % 3, production))
        assert read_image(directory, taker, str(n))
        assert snapshot(directory, taker) == snapshot(directory, bucket)
        mark_dirty(directory)
        assert taker.work == bucket.work
        if isinstance(bucket, JoinBucket):
            assert taker.savings == bucket.savings
        assert taker.sizes() == sizes
        return taker

    return between


@pytest.mark.parametrize("name", QUERIES)
def test_a_bucket_handed_over_after_every_batch_answers_as_one_that_never_was(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("thalweg.engine.states.kept_states._SPARE_SLOTS", 1)
    monkeypatch.setattr("thalweg.engine.machine.workspace.FIRST_CAPACITY", 2)  # stores have to grow all the time
    query = bound(name)
    alone = list(run(opened(query), query, feed(query)))
    assert sum(table.num_rows for _, table in alone) > 20
    assert contents(run(opened(query), query, feed(query), through(tmp_path, query))) == contents(alone)


@pytest.mark.parametrize("production", ["jit", Feedback(lattice=2), Feedback(filter_bits=64)], ids=str)
@pytest.mark.parametrize("name", ["istream", "composite", "thetas", "partitions"])
def test_what_is_suspended_is_handed_over_too(
    name: str, production: Production | Feedback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables of feedback once came out of an image as something else."""
    monkeypatch.setattr("thalweg.engine.feedback.memory._FIRST_SLOTS", 2)
    query = bound(name)
    handed_over = run(opened(query, 0, production), query, feed(query), through(tmp_path, query, production))
    assert contents(handed_over) == contents(run(opened(query, 0, production), query, feed(query)))


@pytest.mark.parametrize("name", ["istream", "composite", "partitions"])
def test_accounts_are_handed_over_too(name: str, tmp_path: Path) -> None:
    """Who takes a bucket over refuses the same probes, and has the same estimate of what is missing."""
    query = bound(name)
    n = len(query.streams)

    def budgeted() -> JoinBucket:
        bucket = open_bucket(Group.of(query), plans(query)[0], policies=Policies(states="none", budget=Budget.of(1)))
        assert isinstance(bucket, JoinBucket)
        return bucket

    def between(bucket: AnyBucket, batch: int) -> AnyBucket:
        write_image(tmp_path, bucket, str(batch))
        taker = budgeted()
        assert read_image(tmp_path, taker, str(batch))
        mark_dirty(tmp_path)
        return taker

    seen = []
    for handing_over in (lambda bucket, _: bucket, between):
        bucket: AnyBucket = budgeted()
        assert isinstance(bucket, JoinBucket)
        assert bucket.accounts is not None
        bucket.accounts.set_feeds([[0.4, 0.2][: n - 1]] * n)
        held: list[AnyBucket] = [bucket]

        def kept(bucket: AnyBucket, batch: int, handing_over: Between = handing_over, held: Any = held) -> AnyBucket:
            held.append(handing_over(bucket, batch))
            return held[-1]

        answer = contents(run(bucket, query, feed(query), kept))
        last = held[-1]
        assert isinstance(last, JoinBucket)
        assert last.accounts is not None
        spent = last.accounts.spent
        assert spent.refused.any()
        seen.append((answer, spent.allowed.tolist(), spent.refused.tolist(), spent.full, spent.variance))
    assert seen[0] == seen[1]
    assert contents(run(opened(query), query, feed(query))) != seen[0][0]


def test_states_become_complete_however_often_they_are_handed_over(tmp_path: Path) -> None:
    """Each taker has the bucket for two tuples: by itself, none would see a window turn."""
    query, rng = bound("istream"), random.Random(2)
    bucket, between = opened(query), through(tmp_path, query)
    for n in range(120):
        offered: list[Batch | None] = [None] * len(query.streams)
        for stream in rng.sample(range(len(query.streams)), 2):
            offered[stream] = Batch(rows(rng, [n]), np.array([n]))
        bucket.offer(offered, n)
        list(bucket.advance())
        if n == 60:
            bucket.transition(plans(query)[1])
            assert [size.live_keys for size in bucket.sizes() if len(size.node) > 1] == [0]
        bucket = between(bucket, n)
    assert [size.live_keys for size in bucket.sizes() if len(size.node) > 1] == [None]


def test_the_plan_comes_with_the_image(tmp_path: Path) -> None:
    query = bound("istream")
    giver, taker = opened(query, plan=1), opened(query, plan=3)
    write_image(tmp_path, giver, "v")
    assert read_image(tmp_path, taker, "v")
    assert isinstance(taker, JoinBucket)
    assert taker.plan == plans(query)[1]


def test_gates_come_with_the_image(tmp_path: Path) -> None:
    """Whoever takes it over can change them, and they stop the same tuples."""
    query = bound("thetas")
    giver, taker = (opened(query, 0, "auto") for _ in range(2))
    assert isinstance(giver, JoinBucket)
    assert isinstance(taker, JoinBucket)
    assert giver.gated is not None
    assert taker.gated is not None
    giver.gated.choose(Gates(everywhere=True))
    write_image(tmp_path, giver, "v")
    assert taker.gated.gates == NO_GATES
    assert read_image(tmp_path, taker, "v")
    assert taker.gated.gates == Gates(everywhere=True)
    for bucket in (giver, taker):
        bucket.image.name = None
    sleeping = Gates(sleepers=(frozenset({0, 1}),))
    taker.gated.choose(sleeping)
    write_image(tmp_path, taker, "w")
    assert read_image(tmp_path, giver, "w")
    assert giver.gated.gates == sleeping


@pytest.mark.parametrize("name", ["istream", "partitions"])
def test_a_bucket_can_be_handed_over_in_the_middle_of_a_batch(name: str, tmp_path: Path) -> None:
    query = bound(name)

    def answer(hand_over: Between) -> Iterator[Emitted]:
        bucket = opened(query)
        for n, (offered, watermark) in enumerate(feed(query)):
            bucket.offer(offered, watermark)
            for _ in range(3):
                yield from bucket.advance(4)
                bucket = hand_over(bucket, n)
            yield from bucket.advance()
            yield from bucket.settle(watermark)

    assert contents(answer(through(tmp_path, query))) == contents(answer(lambda bucket, _: bucket))


def test_another_process_takes_over(tmp_path: Path) -> None:
    query = bound("aggregates")
    alone = list(run(opened(query), query, feed(query)))
    bucket = opened(query)
    begun: list[Emitted] = []
    for offered, watermark in feed(query)[:6]:
        bucket.offer(offered, watermark)
        begun += [*bucket.advance(), *bucket.settle(watermark)]
    write_image(tmp_path / "image", bucket, "six")
    script = """
import sys
import pyarrow as pa
from pathlib import Path
from tests.engine.test_image import bound, feed, opened
from thalweg.engine.image.image import read_image

query = bound("aggregates")
bucket = opened(query, plan=1)
assert read_image(Path(sys.argv[1]) / "image", bucket, "six")
tables = []
for offered, watermark in feed(query)[6:]:
    bucket.offer(offered, watermark)
    tables += [*bucket.advance(), *bucket.settle(watermark)]
tables += bucket.close()
with pa.OSFile(sys.argv[1] + "/rest", "wb") as sink, pa.ipc.new_file(sink, query.schema) as writer:
    writer.write_table(pa.concat_tables([table for _, table in tables]))
"""
    finished = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    rest = pa.ipc.open_file((tmp_path / "rest").read_bytes()).read_all()
    assert together([*begun, Emitted("", rest)]) == together(alone)


# -- What is no image -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def giver(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, AnyBucket]:
    """A directory with an image that has files of every kind."""
    directory = tmp_path_factory.mktemp("image")
    query = bound("dstream")
    bucket = opened(query)
    for offered, watermark in feed(query)[:6]:
        bucket.offer(offered, watermark)
        list(bucket.advance())
        list(bucket.settle(watermark))
    write_image(directory, bucket, "v")
    return directory, bucket


def files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.part"), key=lambda path: path.stat().st_size)


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def image_file(directory: Path) -> Path:
    return next(path for path in files(directory) if b'"object":"JoinBucket"' in path.read_bytes())


def garble(directory: Path) -> None:
    path = image_file(directory)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def stamp_directory(directory: Path) -> None:
    (directory / "stamp").unlink()
    (directory / "stamp").mkdir()


def to_file(number: int, damage: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda directory: damage(files(directory)[number])


DAMAGE: dict[str, Callable[[Path], object]] = {
    "marked dirty": mark_dirty,
    "no directory": shutil.rmtree,
    "another stamp": lambda d: (d / "stamp").write_text(
        (d / "stamp").read_text().replace('"stamp": "v"', '"stamp": "w"')
    ),
    "an empty stamp": lambda directory: (directory / "stamp").write_bytes(b""),
    "half a stamp": lambda directory: shorten(directory / "stamp"),
    "a stamp of nothing": lambda directory: (directory / "stamp").write_text("null"),
    "a stamp that is a list": lambda directory: (directory / "stamp").write_text("[]"),
    "a stamp without an end": lambda directory: (directory / "stamp").write_text("[" * 100_000),
    "a stamp of binary garbage": lambda directory: (directory / "stamp").write_bytes(b"\xff\xfe\0"),
    "a stamp without contents": lambda d: (d / "stamp").write_text((d / "stamp").read_text().replace('"image"', '"i"')),
    "a stamp that names a number": lambda d: (d / "stamp").write_text(
        (d / "stamp").read_text().replace('"image": "', '"image": 7, "was": "')
    ),
    "a stamp that is a directory": stamp_directory,
    "a shorter image": lambda directory: shorten(image_file(directory)),
    "an image with another byte": garble,
    **{f"file {n} cut short": to_file(n, shorten) for n in range(4)},
    **{f"file {n} gone": to_file(n, Path.unlink) for n in range(4)},
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_damaged_is_not_taken_over(damage: str, giver: tuple[Path, AnyBucket], tmp_path: Path) -> None:
    directory = tmp_path / "copy"
    shutil.copytree(giver[0], directory)
    assert len(files(directory)) == 4  # the image, the join's memory, and a chunk of payload per stream
    assert read_image(directory, opened(bound("dstream")), "v")
    DAMAGE[damage](directory)
    taker = opened(bound("dstream"))
    untouched = taker.work
    assert not read_image(directory, taker, "v")
    assert taker.work == untouched
    assert read_image(giver[0], taker, "v")  # and it can still take over another
    assert taker.work == giver[1].work


def test_an_image_is_one_of_a_stamp_a_query_a_version_and_a_run_of_the_machine(
    giver: tuple[Path, AnyBucket], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = giver[0]
    assert not read_image(directory, opened(bound("dstream")), "u")
    assert not read_image(directory, opened(bound("istream")), "v")
    assert not read_image(directory, opened(bound("difference")), "v")
    other_types = SCHEMA.set(2, pa.field("s", pa.binary()))
    retyped = bind(QUERIES["dstream"], {stream: Source(other_types, "ts") for stream in "abc"})[0]
    assert not read_image(directory, opened(retyped), "v")
    for name, value in (("FORMAT", image.FORMAT + 1), ("_BOOT_ID", directory / "nothing")):
        with monkeypatch.context() as patch:
            patch.setattr(image, name, value)
            assert not read_image(directory, opened(bound("dstream")), "v")
    assert read_image(directory, opened(bound("dstream")), "v")


def test_a_class_that_lasts_differently_is_noticed(
    giver: tuple[Path, AnyBucket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JoinBucket, "__image__", JoinBucket.__image__[1:])
    assert not read_image(giver[0], opened(bound("dstream")), "v")


def test_a_stamp_written_twice_is_two_images(tmp_path: Path) -> None:
    """A batch is tried again in another process: the first one must not think that it holds the outcome."""
    query = bound("istream")
    first, second = opened(query), opened(query)
    (one, mark), (two, _), *_ = feed(query)
    first.offer(one, mark)
    list(first.advance())
    write_image(tmp_path, first, "v")
    mark_dirty(tmp_path)
    second.offer(two, mark)
    list(second.advance())
    write_image(tmp_path, second, "v")
    assert first.work != second.work
    assert read_image(tmp_path, first, "v")
    assert first.work == second.work


def test_a_bucket_over_whole_tables_has_no_image(tmp_path: Path) -> None:
    query = bound("istream")
    bucket = open_bucket(Group.of(query), plans(query)[0], payloads=[TablePayload(SCHEMA.empty_table()) for _ in "abc"])
    with pytest.raises(ThalwegError, match="TablePayload cannot be part of a bucket's image"):
        write_image(tmp_path, bucket, "v")


@pytest.mark.parametrize("name", ["istream", "dstream", "difference"])
def test_a_bucket_goes_on_whatever_happens_to_its_image(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full now and then, and files that vanish while the bucket lives in them."""
    monkeypatch.setattr("thalweg.engine.machine.workspace.FIRST_CAPACITY", 16)
    rng = random.Random(name)
    query = bound(name)
    room = os.posix_fallocate
    failures = Counter[str]()

    def now_and_then(*arguments: int) -> None:
        if rng.random() < 0.3:
            failures["growing"] += 1
            no_room()
        room(*arguments)

    def hand_over(bucket: AnyBucket, n: int) -> AnyBucket:
        try:
            write_image(tmp_path, bucket, str(n))
        except OSError:
            failures["writing"] += 1
            assert not files(tmp_path)
            assert bucket.image.name is None
            return bucket
        taker = opened(query)
        try:
            assert read_image(tmp_path, taker, str(n))
        except OSError:
            failures["reading"] += 1
            return bucket
        mark_dirty(tmp_path)
        if rng.random() < 0.5:
            failures["vanished"] += 1
            for path in files(tmp_path):
                path.unlink()
        return taker

    want = contents(run(opened(query), query, feed(query)))
    monkeypatch.setattr(os, "posix_fallocate", now_and_then)
    assert contents(run(opened(query), query, feed(query), hand_over)) == want
    assert failures["vanished"]
    assert name == "difference" or (failures["growing"] and failures["writing"])  # it maps nothing that grows


def test_files_of_earlier_images_are_deleted_and_others_are_not(tmp_path: Path) -> None:
    query = bound("istream")
    (tmp_path / "notes").write_text("mine")
    counts = []

    def between(bucket: AnyBucket, n: int) -> AnyBucket:
        write_image(tmp_path, bucket, str(n))
        counts.append(len(files(tmp_path)))
        return bucket

    list(run(opened(query), query, feed(query), between))
    assert max(counts) <= 2 + 3 * 6  # the image, the memory, and a few chunks per stream
    assert (tmp_path / "notes").read_text() == "mine"


# -- Memory -----------------------------------------------------------------------------------------------------


def test_mapped_memory_is_the_same_to_the_kernels(tmp_path: Path) -> None:
    query = bound("istream")
    list(run(opened(query), query, feed(query)))
    used = [kernel for kernel in vars(kernels).values() if getattr(kernel, "signatures", [])]
    compiled = [len(kernel.signatures) for kernel in used]
    assert compiled
    list(run(opened(query), query, feed(query), through(tmp_path, query)))
    assert compiled == [len(kernel.signatures) for kernel in used]


def test_a_mapped_arena_grows_in_place_and_is_shared(tmp_path: Path) -> None:
    arena = MappedArena(tmp_path / "words", is_new=True)
    arena.words[:3] = 1, 2, 3
    before = arena.words
    arena.grow(1 << 24)
    assert type(arena.words) is np.ndarray
    assert arena.words[:4].tolist() == [1, 2, 3, 0]
    before[0] = 7
    assert arena.words[0] == MappedArena(tmp_path / "words").words[0] == 7
    assert (tmp_path / "words").stat().st_size == 8 << 24


@pytest.mark.skipif(sys.platform != "linux", reason="room is taken in advance on Linux alone")
def test_there_is_room_on_the_disk_for_all_that_is_mapped(tmp_path: Path) -> None:
    """To write where there is none would end the process."""
    memory = Memory()
    memory.is_frugal = True
    memory.keep_in(tmp_path)
    (path,) = tmp_path.iterdir()
    size = MappedArena.least_returned
    starts = [memory.allocate(size) for _ in range(8)]
    assert path.stat().st_blocks * 512 >= path.stat().st_size >= 8 * 8 * size
    for start in starts:
        memory.free(start, size)
    given_back = path.stat().st_blocks
    assert given_back * 512 < path.stat().st_size, "this file system takes nothing back, so nothing is shown"
    for _ in starts:
        memory.allocate(size, None)
    assert path.stat().st_blocks * 512 >= path.stat().st_size


@pytest.mark.parametrize("is_used_again", [False, True], ids=["growing", "used again"])
def test_a_full_disk_moves_the_words_into_memory(
    is_used_again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = Memory()
    memory.is_frugal = True
    memory.keep_in(tmp_path)
    size = MappedArena.least_returned
    first, second = memory.allocate(size, 1), memory.allocate(size, 2)
    if is_used_again:
        memory.free(second, size)
    monkeypatch.setattr(os, "posix_fallocate", no_room)
    wanted = size if is_used_again else 2 * len(memory.words)
    third = memory.allocate(wanted, 3)
    (path,) = tmp_path.iterdir()
    held = MappedArena(path).words.copy()
    assert (memory.words[first : first + size] == 1).all()
    assert (memory.words[third : third + wanted] == 3).all()
    assert is_used_again == (third == second)
    memory.words[first] = 7
    assert np.array_equal(MappedArena(path).words, held)  # nobody else sees what happens now
    memory.allocate(wanted)
    with pytest.raises(OSError, match="No space"):
        memory.keep_in(tmp_path)
    assert memory.words[first] == 7


def no_room(*_: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_file_that_is_deleted_is_still_there_for_those_who_map_it(tmp_path: Path) -> None:
    memory = Memory()
    memory.keep_in(tmp_path)
    start = memory.allocate(8, 5)
    (path,) = tmp_path.iterdir()
    path.unlink()
    other = memory.allocate(4 * len(memory.words), 6)
    assert not path.exists()
    assert memory.words[start : start + 8].tolist() == [5] * 8
    memory.keep_in(tmp_path)
    (path,) = tmp_path.iterdir()
    assert MappedArena(path).words[other] == 6
    path.unlink()
    with pytest.raises(FileNotFoundError):
        MappedArena(path)


def test_new_regions_are_zero_and_used_ones_are_filled_again(tmp_path: Path) -> None:
    memory = Memory(1)
    memory.keep_in(tmp_path)
    start = memory.allocate(1 << 22)
    memory.words[start : start + 5] = 9
    memory.free(start, 1 << 22)
    assert memory.allocate(1 << 22) == start
    assert not memory.words[start : start + (1 << 22)].any()
    filled = memory.allocate(8, -1)
    assert memory.words[filled : filled + 8].tolist() == [-1] * 8


# -- Payload ----------------------------------------------------------------------------------------------------

WIDE = pa.schema(
    {
        "i": pa.int64(),
        "b": pa.bool_(),
        "s": pa.large_string(),
        "f": pa.binary(2),
        "d": pa.decimal128(30, 2),
        "c": pa.dictionary(pa.int8(), pa.string()),
        "l": pa.list_(pa.float64()),
        "r": pa.struct({"x": pa.int32(), "y": pa.list_(pa.string())}),
        "m": pa.map_(pa.string(), pa.int64()),
        "t": pa.timestamp("us", "Europe/Berlin"),
        "u": pa.month_day_nano_interval(),
        "z": pa.null(),
    }
)


def wide(start: int, count: int) -> pa.Table:
    """Rows whose values follow from their numbers; every seventh is NULL throughout."""
    made: dict[str, Callable[[int], Any]] = {
        "i": lambda n: n,
        "b": lambda n: n % 2 == 0,
        "s": lambda n: "s" * (n % 5),
        "f": lambda n: bytes([n % 256, 1]),
        "d": lambda n: Decimal(n) * Decimal("12345678901234567890.25"),
        "l": lambda n: [float(n)] * (n % 3),
        "r": lambda n: {"x": n, "y": [str(n), None]},
        "m": lambda n: [(str(n), n)],
        "t": lambda n: n,
        "u": lambda n: (n, 1, 2),
        "z": lambda _: None,
    }
    numbers = range(start, start + count)
    columns = {
        name: pa.array([make(n) if n % 7 else None for n in numbers], WIDE.field(name).type)
        for name, make in made.items()
    }
    codes = pa.array([f"c{n % 300}" if n % 7 else None for n in numbers]).dictionary_encode()
    columns["c"] = codes.cast(WIDE.field("c").type)
    return pa.table([columns[name] for name in WIDE.names], schema=WIDE)


@pytest.mark.parametrize("mapped", [False, True])
def test_values_are_found_across_chunks_of_every_size_and_type(
    mapped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("thalweg.engine.rows.payload._SMALL_CHUNK", 64)
    rng = random.Random(3)
    payload = Payload(WIDE, WIDE.names)
    held: dict[str, list[Any]] = {name: [] for name in WIDE.names}
    needed: list[int] = []
    count = 0
    for _ in range(60):
        table = wide(count, rng.choice([0, 1, 3, 10, 100]))
        new = range(count, count + len(table))
        count += len(table)
        assert payload.append(table).tolist() == list(new)
        for name in WIDE.names:
            held[name] += table.column(name).to_pylist()
        if mapped:
            payload.keep_in(tmp_path)
            taker = Payload(WIDE, WIDE.names)
            Restoration(tmp_path, snapshot(tmp_path, payload), taker).apply()
            payload = taker
        needed += new
        survival = rng.choice([1, 1, 0.9, 0.1])
        needed = [row for row in needed if row > count - 400 and rng.random() < survival]
        payload.retain(np.array(rng.sample(needed, len(needed)), np.int64))
        wanted = np.array(rng.choices(needed, k=rng.choice([0, 1, 60])) if needed else [], np.int64)
        for name in WIDE.names:
            taken = payload.take(name, wanted)
            assert taken.to_pylist() == [held[name][row] for row in wanted]
            kind = WIDE.field(name).type
            assert taken.type == (pa.string() if name == "c" else kind)


def test_small_chunks_are_merged_large_ones_are_not_and_old_ones_go(tmp_path: Path) -> None:
    payload = Payload(SCHEMA, ["k"])
    table = pa.table({"k": np.arange(100)})
    for _ in range(1_000):
        payload.append(table)
    payload.keep_in(tmp_path)
    first = set(files(tmp_path))
    assert len(first) < 20
    payload.append(table)
    payload.keep_in(tmp_path)
    assert len(set(files(tmp_path)) - first) == 1
    payload.retain(np.arange(99_999, 100_100))
    assert payload.take("k", np.array([100_050])).to_pylist() == [50]
    with pytest.raises(IndexError):
        payload.take("k", np.array([0]))


def test_a_row_that_stays_does_not_hold_on_to_those_that_came_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.engine.rows.payload._SMALL_CHUNK", 1_000)
    payload = Payload(SCHEMA, ["k"])
    for step in range(50):
        payload.append(pa.table({"k": np.arange(10_000) + 10_000 * step}))
        if payload.is_due(10_001):
            payload.retain(np.array([3, *range(10_000 * step, 10_000 * (step + 1))]))
        assert sum(chunk.count for chunk in payload._chunks) < 30_000
    assert payload.take("k", np.array([499_999, 3])).to_pylist() == [499_999, 3]


# -- Keys -------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(data=st.data())
def test_interned_keys_of_every_type_keep_their_codes(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=3))
    row = st.tuples(*(st.none() | COLUMNS[name][1] for name in names))
    interner, alone = Interner(), Interner()
    for batch in data.draw(st.lists(st.lists(row, max_size=8), max_size=4)):
        columns = [pa.array([r[i] for r in batch], COLUMNS[name][0]) for i, name in enumerate(names)]
        assert interner.codes(columns).tolist() == alone.codes(columns).tolist()
        taker = Interner()
        taker.codes([pa.array(["of", "another", "life"])])
        directory = tmp_path_factory.getbasetemp()
        Restoration(directory, snapshot(directory, interner), taker).apply()
        assert (len(taker), taker.capacity) == (len(alone), alone.capacity)
        interner = taker


def test_forgotten_keys_stay_forgotten(tmp_path: Path) -> None:
    interner, taker = Interner(), Interner()
    interner.codes([pa.array(range(3_000))])
    assert interner.retain(np.array([5, 2_999]))
    Restoration(tmp_path, snapshot(tmp_path, interner), taker).apply()
    assert len(taker) == 2
    again = pa.array([2_999, 5, 0])
    assert taker.codes([again]).tolist() == interner.codes([again]).tolist()
