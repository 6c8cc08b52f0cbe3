"""State-Slice's experiments (sections 4.3 and 7 of the paper): many queries over one join, by every way to share it.

Read in this order: :mod:`~thalweg.experiments.slices.workloads` (streams and queries),
:mod:`~thalweg.experiments.slices.sizes` (which, and how long), :mod:`~thalweg.experiments.slices.driving` (strategies,
clocks, looks into the windows), then the parts: :mod:`~thalweg.experiments.slices.formulas` (figure 11),
:mod:`~thalweg.experiments.slices.strategies` (figures 17 and 18), :mod:`~thalweg.experiments.slices.chains` (figure
19), :mod:`~thalweg.experiments.slices.many`, :mod:`~thalweg.experiments.slices.coming` and
:mod:`~thalweg.experiments.slices.on_spark`, which the paper does not have.
:mod:`~thalweg.experiments.slices.plots` draws what was measured.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from thalweg.engine.compilation import ready_kernels
from thalweg.experiments import machine
from thalweg.experiments.experiment import Claim, Document, Keep, Part, Report, Row, Scale, go_through
from thalweg.experiments.slices.chains import compare_chains
from thalweg.experiments.slices.coming import enter_and_leave
from thalweg.experiments.slices.formulas import compare_with_equations
from thalweg.experiments.slices.many import serve_many
from thalweg.experiments.slices.sizes import SIZES, OnSpark, Sizes
from thalweg.experiments.slices.strategies import compare_strategies


def run(scale: Scale, report: Report, keep: Keep) -> Document:
    """Measure at a scale."""
    return measure(scale, SIZES[scale], report, keep)


def plot(document: Document, directory: Path) -> list[Path]:
    """Draw the figures of a document."""
    from thalweg.experiments.slices.plots import draw

    return draw(document, directory)


def measure(scale: Scale, sizes: Sizes, report: Report, keep: Keep = lambda _: None) -> Document:
    """Measure all parts in the given sizes."""
    report("loading the kernels")
    ready_kernels()
    document = Document(bench="slices", scale=scale, machine=machine.describe(), rows=[], claims=[])
    parts: list[Part] = [
        ("figure 11", partial(compare_with_equations, sizes.formulas, report)),
        ("figures 17 and 18", partial(compare_strategies, sizes.strategies, report)),
        ("figure 19", partial(compare_chains, sizes.chains, report)),
        ("many queries", partial(serve_many, sizes.many, report)),
        ("entering and leaving", partial(enter_and_leave, sizes.many, report)),
        ("on Spark", partial(_serve_on_spark, sizes.on_spark, report)),
    ]
    return go_through(parts, document, report, keep)


def _serve_on_spark(sizes: OnSpark, report: Report) -> tuple[list[Row], list[Claim]]:
    """Spark is loaded when it is used."""
    from thalweg.experiments.slices.on_spark import serve_on_spark

    return serve_on_spark(sizes, report)
