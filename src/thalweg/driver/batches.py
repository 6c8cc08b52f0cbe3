"""A batch on its way through a bucket whose driver decides meanwhile: offer, advance, settle.

The phases that are timed here are ``probe``, ``complete`` and ``adapt``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from thalweg.adapt.decision import Decision
from thalweg.cql.query import Query
from thalweg.driver.bucket_driver import BucketDriver
from thalweg.driver.phases import Phases
from thalweg.engine.outputs.readers import Emitted
from thalweg.engine.rows.batch import Batch
from thalweg.engine.time_bounds import FOREVER, NEVER


def begin_with(driver: BucketDriver, query: Query, relations: Mapping[int, Batch]) -> None:
    """Offer static relations to a new engine, before everything else."""
    _offer(driver, query, relations, NEVER)
    for _ in driver.bucket.advance():
        pass


def run_batch(
    driver: BucketDriver, query: Query, rows: Mapping[int, Batch], watermark: int, phases: Phases
) -> tuple[list[Emitted], list[Decision]]:
    """Take rows by stream, up to a watermark; what they led to, and what was decided on the way."""
    work, join = driver.bucket.work, driver.join
    ran = 0.0 if join is None else join.seconds
    decisions: list[Decision] = []

    def adapt() -> None:
        with phases("adapt"):
            decisions.extend(driver.consider(driver.bucket.work.tuples - work.tuples))

    with phases("probe"):
        _offer(driver, query, rows, watermark)
        batches = driver.budgeting.batches
        if batches is None:
            answers = list(_answers(driver, watermark, adapt if driver.decides else None))
        else:
            driver.begin_batch()
            look = partial(driver.budgeting.look_at_batch, join)
            answers = list(_answers(driver, watermark, look, batches.period))
            driver.end_batch()
    # Probes complete the keys that they find absent; what that took is estimated, not measured.
    if join is not None:
        phases.move((join.seconds - ran) * join.work.completing_share(work), "probe", "complete")
    adapt()
    return answers, decisions


def take_again(driver: BucketDriver, query: Query, rows: Mapping[int, Batch], watermark: int) -> None:
    """Take rows whose results were emitted before."""
    _offer(driver, query, rows, watermark)
    for _ in _answers(driver, watermark):
        pass


def _offer(driver: BucketDriver, query: Query, rows: Mapping[int, Batch], watermark: int) -> None:
    driver.bucket.offer([rows.get(stream) for stream in range(len(query.streams))], watermark)


def _answers(
    driver: BucketDriver, watermark: int, between: Callable[[], None] | None = None, every: int | None = None
) -> Iterator[Emitted]:
    """``every``: call ``between`` whenever so many tuples of this batch have been taken."""
    bucket, join = driver.bucket, driver.join
    yield from bucket.advance() if join is None else join.advance(None, between, every, afresh=every is not None)
    yield from bucket.close() if watermark == FOREVER else bucket.settle(watermark)
