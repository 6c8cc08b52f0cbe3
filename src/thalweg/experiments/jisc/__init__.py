"""JISC's experiments (section 6 of the paper) side by side in one run, and what adapting by JISC is worth.

Read in this order: :mod:`~thalweg.experiments.jisc.workloads` (the streams), :mod:`~thalweg.experiments.jisc.driving`
(policies, clocks, answers), then the parts: :mod:`~thalweg.experiments.jisc.figures` (figures 7, 8, 9, 11, 12),
:mod:`~thalweg.experiments.jisc.first_output` (figure 10), :mod:`~thalweg.experiments.jisc.no_stall`,
:mod:`~thalweg.experiments.jisc.memory` and :mod:`~thalweg.experiments.jisc.adaptivity` (on Spark:
:mod:`~thalweg.experiments.jisc.on_spark`).
:mod:`~thalweg.experiments.jisc.plots` draws what was measured.

Times are processor time, work is counted beside them, contenders take turns (:mod:`thalweg.experiments.laps`), and
every answer is compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from thalweg.engine.compilation import ready_kernels
from thalweg.experiments import machine
from thalweg.experiments.experiment import Document, Keep, Part, Report, Scale, go_through
from thalweg.experiments.jisc import adaptivity, figures
from thalweg.experiments.jisc.first_output import time_to_first_output
from thalweg.experiments.jisc.memory import throughput_within_limits
from thalweg.experiments.jisc.no_stall import latency_of_results
from thalweg.experiments.jisc.sizes import SIZES, Sizes


def run(scale: Scale, report: Report, keep: Keep) -> Document:
    """Measure at a scale."""
    return measure(scale, SIZES[scale], report, keep)


def plot(document: Document, directory: Path) -> list[Path]:
    """Draw the figures of a document."""
    from thalweg.experiments.jisc.plots import draw

    return draw(document, directory)


def measure(scale: Scale, sizes: Sizes, report: Report, keep: Keep = lambda _: None) -> Document:
    """Measure all parts in the given sizes."""
    report("loading the kernels")
    ready_kernels()
    document = Document(bench="jisc", scale=scale, machine=machine.describe(), rows=[], claims=[])
    parts: list[Part] = [
        ("figure 7", partial(figures.migration_stage, figures.FIGURE_7, sizes.stage, report)),
        ("figure 8", partial(figures.migration_stage, figures.FIGURE_8, sizes.stage, report)),
        ("figure 9", partial(figures.normal_operation, sizes.normal, report)),
        *((f"figure 10, {each.method}", partial(time_to_first_output, each, report)) for each in sizes.first_output),
        ("figure 11", partial(figures.changes_from_time_to_time, figures.FIGURE_11, sizes.often, report)),
        ("figure 12", partial(figures.changes_from_time_to_time, figures.FIGURE_12, sizes.often, report)),
        ("no stall", partial(latency_of_results, sizes.no_stall, report)),
        ("memory limit", partial(throughput_within_limits, sizes.limited, report)),
        ("drifting streams", partial(adaptivity.drifting, sizes.adapting, report)),
        ("stationary streams", partial(adaptivity.stationary, sizes.adapting, report)),
        *_on_spark(sizes, report),
    ]
    return go_through(parts, document, report, keep)


def _on_spark(sizes: Sizes, report: Report) -> Iterator[Part]:
    if sizes.on_spark is not None:
        from thalweg.experiments.jisc.on_spark import drifting_on_spark, stationary_on_spark

        yield "drifting streams on Spark", partial(drifting_on_spark, sizes.on_spark, report)
        yield "stationary streams on Spark", partial(stationary_on_spark, sizes.on_spark, report)
