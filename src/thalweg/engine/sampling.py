"""A look at the beginning of the streams, for the planner."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from thalweg.cql.query import Query, Theta
from thalweg.engine.encoding import encoders
from thalweg.engine.expressions import Expressions, physical_names
from thalweg.engine.kernels.join import ROW, Float64s, Int64s, T
from thalweg.plan.sampling import StreamSample

SAMPLE_ROWS = 20_000
"""Rows of each stream to look at: encoding them takes milliseconds, and they fill typical windows."""


def sample(query: Query, beginnings: Sequence[tuple[pa.Table, Int64s, int]]) -> list[StreamSample]:
    """Samples from the first rows of each stream: with their times, in time order, and how many there are in all."""
    expressions = Expressions(physical_names(query))
    samples = []
    for encoder, (table, times, total) in zip(encoders(query, expressions), beginnings, strict=True):
        words = encoder.encode(table, times, np.arange(len(times)))
        joining = words[words[:, ROW] >= 0]
        layout = encoder.layout
        share = len(joining) / max(1, len(words))
        samples.append(
            StreamSample(
                times=joining[:, T],
                codes={attribute: joining[:, field] for attribute, field in layout.codes.items()},
                operands={
                    theta: _numbers(query.thetas[theta], joining[:, field])
                    for (theta, _), field in layout.operands.items()
                },
                partitions=None if layout.partition is None else joining[:, layout.partition],
                share=share,
                total=round(total * share),
            )
        )
    return samples


def _numbers(theta: Theta, words: Int64s) -> Float64s:
    """Theta operands as numbers to compare."""
    if theta.offset is not None and pa.types.is_floating(theta.type):
        return np.ascontiguousarray(words).view(np.float64)
    return words.astype(np.float64)
