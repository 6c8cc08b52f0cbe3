"""A look at the beginning of the streams, or into the windows of a running engine, for the planner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from thalweg.cql.query import Query, Theta
from thalweg.engine.kernels.compiled import Float64s, Int64s
from thalweg.engine.kernels.tables import T
from thalweg.engine.observations import Glimpse
from thalweg.engine.rows.encoding import encoders
from thalweg.engine.rows.expressions import Expressions, physical_names
from thalweg.engine.rows.layout import StreamLayout, layouts
from thalweg.errors import InputError, UnsupportedError
from thalweg.plan.sampling import StreamSample

SAMPLE_ROWS = 20_000
"""Rows of each stream to look at: encoding them takes milliseconds, and they fill typical windows."""


def sample(query: Query, beginnings: Sequence[tuple[pa.Table, Int64s, int]]) -> list[StreamSample]:
    """Samples from the first rows of each stream: with their times, in time order, and how many there are in all.

    Nothing is said of a stream with a row that something cannot be computed for: that is an error when the row comes.
    """
    expressions = Expressions(physical_names(query))
    samples = []
    for encoder, (table, times, total) in zip(encoders(query, expressions), beginnings, strict=True):
        try:
            words = encoder.encode(table, times, np.arange(len(times)))
        except (InputError, UnsupportedError):
            words = np.zeros((0, encoder.layout.offered), np.int64)
        joining = words[words[:, encoder.layout.offered_mask] != 0]
        share = len(joining) / max(1, len(words))
        samples.append(replace(_of_words(query, encoder.layout, joining), share=share, total=round(total * share)))
    return samples


def sample_windows(query: Query, glimpse: Glimpse) -> list[StreamSample]:
    """Samples of what the windows of a running engine hold."""
    return [
        _of_words(query, layout, window.words) for layout, window in zip(layouts(query), glimpse.windows, strict=True)
    ]


def _of_words(query: Query, layout: StreamLayout, words: Int64s) -> StreamSample:
    return StreamSample(
        times=words[:, T],
        codes={attribute: words[:, field] for attribute, field in layout.codes.items()},
        operands={
            theta: _numbers(query.thetas[theta], words[:, field]) for (theta, _), field in layout.operands.items()
        },
        partitions=None if layout.partition is None else words[:, layout.partition],
    )


def _numbers(theta: Theta, words: Int64s) -> Float64s:
    """Theta operands as numbers to compare."""
    if theta.offset is not None and pa.types.is_floating(theta.type):
        return np.ascontiguousarray(words).view(np.float64)
    return words.astype(np.float64)
