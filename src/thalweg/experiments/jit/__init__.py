"""JIT's experiments (section VI of the paper): joins that produce what is asked for, against joins that produce all.

Read in this order: :mod:`~thalweg.experiments.jit.workloads` (the joins), :mod:`~thalweg.experiments.jit.sizes` (which,
and how long), :mod:`~thalweg.experiments.jit.driving` (contenders, clocks, looks into the stores), then
:mod:`~thalweg.experiments.jit.checks` (answers first) and :mod:`~thalweg.experiments.jit.figures` (figures 10 to 17).
:mod:`~thalweg.experiments.jit.plots` draws what was measured.
"""

from __future__ import annotations

from pathlib import Path

from thalweg.engine.compilation import ready_kernels
from thalweg.experiments import machine
from thalweg.experiments.experiment import Document, Report, Scale
from thalweg.experiments.jit.checks import check_answers
from thalweg.experiments.jit.figures import measure_figures
from thalweg.experiments.jit.sizes import SIZES, Sizes


def run(scale: Scale, report: Report) -> Document:
    """Measure at a scale."""
    return measure(scale, SIZES[scale], report)


def plot(document: Document, directory: Path) -> list[Path]:
    """Draw the figures of a document."""
    from thalweg.experiments.jit.plots import draw

    return draw(document, directory)


def measure(scale: Scale, sizes: Sizes, report: Report) -> Document:
    """Compare answers, then measure in the given sizes."""
    report("loading the kernels")
    ready_kernels(feedback=True)
    checked = check_answers(sizes.families, report)
    rows, claims = measure_figures(sizes, report)
    return Document(bench="jit", scale=scale, machine=machine.describe(), rows=[*checked, *rows], claims=claims)
