"""JAQPOT's experiments (section 5 of the paper): joins that may not make all the probes they want.

Read in this order: :mod:`~thalweg.experiments.jaqpot.workloads` (streams and joins of table 3),
:mod:`~thalweg.experiments.jaqpot.sizes` (how much of them), :mod:`~thalweg.experiments.jaqpot.driving` (a run under a
budget, and how its results are checked), then the parts: :mod:`~thalweg.experiments.jaqpot.throughput` (figures 6 and
7), :mod:`~thalweg.experiments.jaqpot.sensors` (figure 8), :mod:`~thalweg.experiments.jaqpot.staleness` (figure 9, by
:mod:`~thalweg.experiments.jaqpot.pipeline`, a model of the paper's states), and
:mod:`~thalweg.experiments.jaqpot.analysis` (what deciding takes). The paper does not have
:mod:`~thalweg.experiments.jaqpot.correlated`, :mod:`~thalweg.experiments.jaqpot.unlimited` and
:mod:`~thalweg.experiments.jaqpot.on_spark`.
:mod:`~thalweg.experiments.jaqpot.plots` draws what was measured.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from thalweg.engine.compilation import ready_kernels
from thalweg.experiments import machine
from thalweg.experiments.experiment import Claim, Document, Keep, Part, Report, Row, Scale, go_through
from thalweg.experiments.jaqpot import analysis, sensors, staleness, throughput
from thalweg.experiments.jaqpot.correlated import harvest_and_others
from thalweg.experiments.jaqpot.sizes import SIZES, Sizes
from thalweg.experiments.jaqpot.unlimited import without_and_with
from thalweg.experiments.jaqpot.workloads import Workload


def run(scale: Scale, report: Report, keep: Keep) -> Document:
    """Measure at a scale, with sensors that are generated."""
    return measure(scale, SIZES[scale], report, keep, on_spark=True)


def run_on(scale: Scale, report: Report, keep: Keep, data: Path) -> Document:
    """Measure at a scale, with the sensors' data of a parquet file."""
    return measure(scale, SIZES[scale], report, keep, data, on_spark=True)


def plot(document: Document, directory: Path) -> list[Path]:
    """Draw the figures of a document."""
    from thalweg.experiments.jaqpot.plots import draw

    return draw(document, directory)


def measure(
    scale: Scale,
    sizes: Sizes,
    report: Report,
    keep: Keep = lambda _: None,
    data: Path | None = None,
    *,
    on_spark: bool = False,
) -> Document:
    """Measure all parts in the given sizes; ``on_spark``: overload on Spark too, in the sizes of the scale."""
    readings, positions = sensors.generated(sizes.sensors.days) if data is None else sensors.read(data)
    weatherboards = sensors.workload_of(readings, positions, sizes.sensors)
    source = "generated" if data is None else data.name
    report("loading the kernels")
    ready_kernels(budget=True)
    document = Document(bench="jaqpot", scale=scale, machine=machine.describe(), rows=[], claims=[])
    parts: list[Part] = [
        ("figure 6", partial(throughput.while_streams_change, sizes.fluctuating, report)),
        ("figure 7", partial(throughput.by_budget, sizes.budgets, report)),
        ("figure 7, states kept", partial(throughput.by_budget, sizes.budgets, report, kept=True)),
        ("figure 8", partial(sensors.on_sensors, weatherboards, sizes.sensors, source, report)),
        ("figure 9", partial(_stale_results, weatherboards, sizes, report)),
        ("figure 7 by the model", partial(staleness.throughput, sizes.staleness.throughput, report)),
        ("time of the analysis", partial(analysis.time_of_analysis, sizes.analysis, report)),
        ("set cover", partial(analysis.covers, sizes.analysis, report)),
        ("correlated streams", partial(harvest_and_others, sizes.correlated, report)),
        ("no budget", partial(without_and_with, sizes.unlimited, report)),
    ]
    if on_spark:
        parts.append(("overload on Spark", partial(_overload, scale, report)))
    return go_through(parts, document, report, keep)


def _stale_results(weatherboards: Workload, sizes: Sizes, report: Report) -> tuple[list[Row], list[Claim]]:
    return staleness.stale_results(sizes.staleness, sensors.modelled(weatherboards), report)


def _overload(scale: Scale, report: Report) -> tuple[list[Row], list[Claim]]:
    """Spark is loaded when it is used."""
    from thalweg.experiments.jaqpot import on_spark

    return on_spark.overload_on_spark(on_spark.SIZES[scale], report)
