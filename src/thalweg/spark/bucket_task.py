"""What a task of Spark does with a bucket: takes its batch, runs it, commits its state and hands out its results.

The live engine of a bucket lies in mapped files, so that any worker of the host can go on with it; a worker also keeps
the one it used last. An engine is trusted only if its image carries the token of the committed record: a batch that is
retried never meets an engine that is ahead of it, nor one that a crash left half changed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark import TaskContext

from thalweg.engine.time_bounds import NEVER
from thalweg.errors import ThalwegError
from thalweg.spark.attendance import attend
from thalweg.spark.bucket_spec import Arriving, Delivery, Outcome, Spec
from thalweg.spark.buckets import bucket_keys
from thalweg.spark.commands import PRICES, STARTED, Sent
from thalweg.spark.image_directory import image_directory
from thalweg.spark.operator import SAVED, TOTALS
from thalweg.spark.prices import Prices
from thalweg.spark.resident import Resident
from thalweg.spark.side_output import write

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import MapState

_RECORD = (-1, -1)
"""Where the record lies among the pieces: Spark compiles an encoder for every state variable in every task, which
takes longer than anything that a small batch does with it. So there is one."""

_QUERY_ID, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""Properties of all tasks of a streaming query."""

_IDLE_SECONDS = 600.0
"""How long a worker keeps the engine of a bucket that it is not asked for."""

_NOTHING: dict[str, Any] = {"metrics": None} | dict.fromkeys((*TOTALS, *SAVED), 0)
_DELIVERED = ["reader", "since", "body", "failure"]
_TYPES = {"bucket": "int32", "since": "int64"} | dict.fromkeys((*TOTALS, *SAVED), "int64")
_FRAME_BYTES = 1 << 26
"""Results that are handed to Spark at a time, about."""

_kept: dict[tuple[str, str, int], tuple[Resident, float]] = {}
"""By checkpoint, start and bucket: options may be other after each, and a frame can be written to two checkpoints."""


class StateLog:
    """The log and the record of a bucket in Spark's state store."""

    def __init__(self, state: MapState) -> None:
        self._state = state

    def put(self, batch: int, number: int, body: bytes) -> None:
        self._state.updateValue((batch, number), (body,))

    def get(self, batch: int, number: int) -> bytes | None:
        held = self._state.getValue((batch, number))
        return None if held is None else bytes(held[0])

    def drop(self, batch: int, number: int) -> None:
        self._state.removeKey((batch, number))

    def record(self) -> str | None:
        """What was committed last."""
        held = self._state.getValue(_RECORD)
        return None if held is None else bytes(held[0]).decode()

    def set_record(self, record: str) -> None:
        self._state.updateValue(_RECORD, (record.encode(),))


def run_bucket(spec: Spec, bucket: int, state: MapState, rows: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Run a batch of a bucket; ``bucket`` is the number by which Spark knows it."""
    log = StateLog(state)
    checkpoint = _checkpoint()
    place = checkpoint, spec.identity, bucket
    _retire()
    with image_directory(checkpoint, bucket) as directory:
        kept = _kept.pop(place, None)
        resident, outcome = attend(
            spec,
            bucket_keys(spec.partitioning.buckets).index(bucket),
            log.record(),
            _arriving(rows, checkpoint),
            log,
            directory,
            None if kept is None else kept[0],
        )
        log.set_record(outcome.record)
        outcome.metrics["partition"] = _partition()
        if resident.is_imaged:
            _kept[place] = resident, time.monotonic()
    if spec.late_directory is not None:
        query = spec.query
        name = f"{checkpoint}-{outcome.batch:012}-{bucket}"
        write(spec.late_directory, query.name, query.aliases, name, outcome.kept_out)
    yield from _emitted(bucket, outcome)


def _checkpoint() -> str:
    """The id that Spark gave to the query: that of its checkpoint, the same after every start."""
    context = TaskContext.get()
    known = None if context is None else context.getLocalProperty(_QUERY_ID)
    if known is None:
        raise ThalwegError(
            f"a task does not know which streaming query it belongs to: Spark has not set '{_QUERY_ID}'. "
            "Start the query with writeStream."
        )
    return known


def _partition() -> int:
    """Which of Spark's tasks this is: it runs its buckets one after the other."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def _retire() -> None:
    """Let go of engines that nobody has asked for in a while: their query has stopped, or moved away."""
    now = time.monotonic()
    for key in [key for key, (_, used) in _kept.items() if now - used > _IDLE_SECONDS]:
        del _kept[key]


def _batch() -> int:
    """The number of the batch that Spark runs: the same in every attempt at it."""
    context = TaskContext.get()
    known = None if context is None else context.getLocalProperty(_BATCH)
    return 0 if known is None else int(known)


def _arriving(frames: Iterator[pd.DataFrame], checkpoint: str) -> Arriving:
    arriving = Arriving(query_id=checkpoint, batch=_batch())
    bodies: list[tuple[int, int, bytes]] = []
    for frame in frames:
        for row in frame.itertuples(index=False):
            if row.command == STARTED:
                arriving.starts = True
                continue
            if row.command is not None and row.command.startswith(PRICES):
                arriving.prices = Prices.of_text(row.command.removeprefix(PRICES))
                continue
            if row.command is not None:
                arriving.commands.append(Sent.from_json(row.command))
                continue
            if row.body is not None:
                bodies.append((row.stream, row.place, row.body))
            if row.rejected is not None:
                arriving.rejected.append((row.stream, row.rejected))
            newest = None if row.newest == NEVER else row.newest
            arriving.news.append((row.stream, newest, row.moment))
            if row.bad:
                arriving.bad[row.stream] = arriving.bad.get(row.stream, 0) + row.bad
    # Spark promises no order of the blobs; tuples of one time count in the order of their tasks.
    bodies.sort(key=lambda body: body[:2])
    arriving.bodies = [(stream, body) for stream, _, body in bodies]
    return arriving


def _emitted(bucket: int, outcome: Outcome) -> Iterator[pd.DataFrame]:
    """Frames of some blobs each, because all blobs of a frame together may not have more than 2 GiB."""
    numbers = {name: outcome.metrics.get(name, 0) for name in TOTALS}
    numbers |= {name: outcome.metrics.get("savings", {}).get(name, 0) for name in SAVED}
    told: dict[str, Any] = {"metrics": json.dumps(outcome.metrics), **numbers}
    for rows in _in_frames(outcome.results):
        others = len(rows) - 1
        frame = pd.DataFrame(rows, columns=_DELIVERED, dtype="object")
        frame.insert(0, "bucket", bucket)
        yield frame.assign(**{name: [value, *[_NOTHING[name]] * others] for name, value in told.items()}).astype(_TYPES)
        told = _NOTHING


def _in_frames(results: list[Delivery]) -> Iterator[list[Delivery] | list[tuple[None, int, None, None]]]:
    """At least one frame, of at least one delivery, if only of none."""
    frame: list[Delivery] = []
    size = 0
    for each in results:
        of_body = len(each.body or b"")
        if frame and size + of_body > _FRAME_BYTES:
            yield frame
            frame, size = [], 0
        frame.append(each)
        size += of_body
    yield frame or [(None, 0, None, None)]
