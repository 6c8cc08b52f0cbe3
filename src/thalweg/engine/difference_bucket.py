"""A bucket of an ``EXCEPT`` query: stream 0 without what the others hold (JISC 4.7).

A tuple travels: key and selection -> order -> difference -> output. A blocker that comes
late must still block, so tuples wait until the watermark has passed them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
import pyarrow.compute as pc
from sqlglot import exp

from thalweg.cql.query import Query, RowsWindow
from thalweg.engine.difference import END_OF_INPUT, SetDifference
from thalweg.engine.image.image import ImageTag
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.kernels.difference import Arrivals
from thalweg.engine.observations import StoreSize, Work
from thalweg.engine.outputs.readers import Emitted
from thalweg.engine.outputs.results import Outputs, engine_columns, payload_columns
from thalweg.engine.rows.batch import Batch, Waiting
from thalweg.engine.rows.expressions import Expressions, Scalar, of_selected, physical_names
from thalweg.engine.rows.interner import Interner
from thalweg.engine.rows.payload import Payload, Rows
from thalweg.errors import PlanError
from thalweg.plan.difference import AnyPlan, DifferencePlan, as_written

_TIME, _ROW, _KEY, _PASSES, _HAS_KEY, _PARTITION, _WORDS = range(7)


class DifferenceBucket:
    """See :class:`thalweg.engine.bucket.AnyBucket` for the order of calls."""

    __image__: ClassVar = ("plan", "_payloads", "_keys", "_inputs", "_waiting", "_difference", "_tuples", "_results")

    def __init__(self, query: Query, plan: AnyPlan | None = None, payloads: Sequence[Rows] | None = None) -> None:
        expressions = Expressions(physical_names(query) | engine_columns(query))
        self._payloads: Sequence[Rows] = payloads or [
            Payload(ref.schema, columns) for ref, columns in zip(query.streams, payload_columns(query), strict=True)
        ]
        self._keys = Interner()
        self._inputs = [_Input(query, stream, expressions, self._keys) for stream in range(len(query.streams))]
        self._waiting = Waiting([_WORDS] * len(query.streams))
        self._difference = SetDifference(tuple(ref.window for ref in query.streams), query.output)
        self._outputs = Outputs(query, expressions, query.select)
        self._query = query
        self.transition(plan or as_written(len(query.streams)))
        self.image = ImageTag(query)
        self._tuples = 0
        self._results = 0

    def offer(self, batches: Sequence[Batch | None], watermark: int | None = None) -> None:  # noqa: ARG002 - settle decides
        for stream, batch in enumerate(batches):
            if batch is not None:
                rows = self._payloads[stream].append(batch.table, batch.numbers) if batch.rows is None else batch.rows
                self._waiting.add(stream, self._inputs[stream].words(batch, rows))
                self._tuples += len(rows)

    def advance(self, limit: int | None = None) -> Iterator[Emitted]:  # noqa: ARG002 - everything waits for time
        yield from ()

    def settle(self, watermark: int) -> Iterator[Emitted]:
        streams = self._waiting.before(watermark)
        words = np.concatenate(streams)
        numbers = np.repeat(np.arange(len(streams), dtype=np.int32), [len(stream) for stream in streams])
        order = np.argsort(words[:, _TIME], kind="stable")
        words = words[order]
        arrivals = Arrivals(
            stream=numbers[order],
            time=words[:, _TIME].copy(),
            key=words[:, _KEY].copy(),
            row=words[:, _ROW].copy(),
            passes=words[:, _PASSES] == 1,
            blockable=words[:, _HAS_KEY] == 1,
            partition=words[:, _PARTITION].copy(),
        )
        times, rows = self._difference.advance(arrivals, watermark)
        if len(times):
            self._results += len(times)
            yield Emitted(self._query.name, self._outputs.of_results(self._payloads, rows[:, None], times))
        self._forget()

    def close(self) -> Iterator[Emitted]:
        yield from self.settle(END_OF_INPUT)

    def transition(self, plan: AnyPlan) -> None:
        """Take the streams away in another order; since no intermediate difference is kept, none is missing."""
        if not isinstance(plan, DifferencePlan):
            raise PlanError(f"query '{self._query.name}' is a set difference and needs the plan of one")
        self.plan = plan

    def sizes(self) -> list[StoreSize]:
        node = frozenset(range(len(self._query.streams)))
        return [StoreSize(node, len(self._difference), None, self._difference.bytes)]

    @property
    def work(self) -> Work:
        return Work(self._tuples, self._tuples, 0, 0, 0, self._results)

    def rows(self, stream: int) -> Int64s:
        return np.concatenate([self._difference.rows(stream), self._waiting.rows(stream, _ROW)])

    def _forget(self) -> None:
        held = len(self._difference) + len(self._waiting)
        for stream, payload in enumerate(self._payloads):
            if payload.is_due(held):
                payload.retain(self.rows(stream))
        if self._keys.due:
            self._keys.retain(np.concatenate([self._difference.keys, self._waiting.values(_KEY)]))


class _Input:
    """What the difference needs of one stream's rows."""

    __image__: ClassVar = ("_partitions",)

    def __init__(self, query: Query, stream: int, expressions: Expressions, keys: Interner) -> None:
        ref = query.streams[stream]
        self._expressions = expressions
        self._names = {name: physical_names(query)[ref.alias, name] for name in ref.schema.names}
        self._keys = keys
        self._null_safe = [attribute.null_safe for attribute in query.classes]
        self._is_minuend = stream == 0
        self._partitions = Interner()
        outputs: list[tuple[str, exp.Expression]] = [
            (f"k{i}", of_selected(attribute.members[stream], ref.selection))
            for i, attribute in enumerate(query.classes)
        ]
        self._types = [attribute.type for attribute in query.classes]
        partition_by = ref.window.partition_by if isinstance(ref.window, RowsWindow) else ()
        outputs += [(f"p{i}", expression) for i, expression in enumerate(partition_by)]
        if ref.selection is not None:
            outputs.append(("passes", ref.selection))
        self._scalar: Scalar = expressions.compile(outputs)

    def words(self, batch: Batch, rows: Int64s) -> Int64s:
        computed = self._expressions.evaluate(self._scalar, batch.table.rename_columns(self._names))
        columns = {name: computed.column(name).combine_chunks() for name in computed.column_names}
        keys = [columns[f"k{i}"].cast(kind) for i, kind in enumerate(self._types)]
        has_key = np.ones(len(rows), bool)
        for key, null_safe in zip(keys, self._null_safe, strict=True):
            if not null_safe:
                has_key &= key.is_valid().to_numpy(zero_copy_only=False)
        passes = np.ones(len(rows), bool)
        if "passes" in columns:
            passes = pc.fill_null(columns["passes"], False).to_numpy(zero_copy_only=False)
        if not self._is_minuend:
            passes = passes & has_key
        words = np.zeros((len(rows), _WORDS), np.int64)
        words[:, _TIME] = batch.times
        words[:, _ROW] = rows
        words[:, _KEY] = self._keys.codes(keys)
        words[:, _PASSES] = passes
        words[:, _HAS_KEY] = has_key
        partitions = [column for name, column in columns.items() if name.startswith("p") and name != "passes"]
        if partitions:
            words[:, _PARTITION] = self._partitions.codes(partitions)
        return words
