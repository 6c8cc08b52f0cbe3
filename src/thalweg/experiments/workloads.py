"""Generated input: Poisson arrivals with uniform keys, and the windowed equi-join over them.

A tuple has an event time ``ts``, a key ``k`` and an ``id`` that counts the tuples of its stream, so that
the ids of a result name it. In the steady state a probe of another stream finds
``window * rate / keys`` partners; one of them keeps the results about as many as the tuples,
however many streams there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

MICROSECONDS = 1_000_000
SCHEMA = pa.schema({"ts": pa.timestamp("us"), "k": pa.int64(), "id": pa.int64()})
"""Every stream's."""


@dataclass(frozen=True, slots=True)
class Workload:
    """An n-way equi-join on one key over streams of equal rate and window.

    Attributes:
        streams: how many streams are joined.
        tuples: tuples per stream.
        keys: the keys are uniform in ``0 .. keys - 1``.
        rate: mean arrivals per second and stream.
        window_us: the common RANGE window.

    >>> print(Workload(streams=3, tuples=10, keys=5, window_us=2_000_000).cql)
    SELECT s1.id AS id1, s2.id AS id2, s3.id AS id3
    FROM s1, s2, s3
    WHERE s1.k = s2.k AND s1.k = s3.k
    WINDOW RANGE 2 SECONDS

    """

    streams: int = 4
    tuples: int = 1_000_000
    keys: int = 10_000
    rate: float = 1_000.0
    window_us: int = 10 * MICROSECONDS

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"s{stream}" for stream in range(1, self.streams + 1))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The columns of the answer: an id per stream."""
        return tuple(f"id{stream}" for stream in range(1, self.streams + 1))

    @property
    def total(self) -> int:
        """Tuples of all streams together."""
        return self.streams * self.tuples

    @property
    def window_s(self) -> float:
        return self.window_us / MICROSECONDS

    @property
    def select_list(self) -> str:
        return ", ".join(f"{name}.id AS {output}" for name, output in zip(self.names, self.outputs, strict=True))

    @property
    def cql(self) -> str:
        """The join as a continuous query."""
        first, *others = self.names
        return (
            f"SELECT {self.select_list}\n"
            f"FROM {', '.join(self.names)}\n"
            f"WHERE {' AND '.join(f'{first}.k = {other}.k' for other in others)}\n"
            f"WINDOW RANGE {_interval(self.window_us)}"
        )

    def arrivals(self, rng: np.random.Generator) -> dict[str, pa.Table]:
        """The whole streams, each in time order."""
        return {name: self._stream(rng) for name in self.names}

    def _stream(self, rng: np.random.Generator) -> pa.Table:
        times = np.cumsum(rng.exponential(MICROSECONDS / self.rate, self.tuples))
        return _table(rng, self, times, 0)

    def slices(self, rng: np.random.Generator, span_us: int) -> Iterator[dict[str, pa.Table]]:
        """Streams of the same kind cut at common times, made when asked for and held by nobody.

        Slice ``i`` has the tuples of ``[i * span_us, (i + 1) * span_us)``, and there are as many slices as
        ``tuples`` take at this rate.
        """
        held = dict.fromkeys(self.names, 0)
        for start in range(0, round(self.tuples / self.rate * MICROSECONDS), span_us):
            slice_ = {}
            for name in self.names:
                count = rng.poisson(self.rate * span_us / MICROSECONDS)
                times = start + np.sort(rng.integers(0, span_us, count))  # what a Poisson process is, given its count
                slice_[name] = _table(rng, self, times, held[name])
                held[name] += count
            yield slice_


def _table(rng: np.random.Generator, workload: Workload, times: NDArray[Any], first: int) -> pa.Table:
    """Tuples with these times, numbered from ``first`` on."""
    keys = rng.integers(0, workload.keys, len(times), dtype=np.int64)
    ids = np.arange(first, first + len(times), dtype=np.int64)
    return pa.table([times.astype(np.int64), keys, ids], schema=SCHEMA)


def _interval(microseconds: int) -> str:
    if microseconds % MICROSECONDS == 0:
        return f"{microseconds // MICROSECONDS} SECONDS"
    return f"{microseconds} MICROSECONDS"
