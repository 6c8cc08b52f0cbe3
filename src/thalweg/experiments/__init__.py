"""Every figure and table of the papers, and the peers, as runnable experiments.

An experiment checks every answer first, then measures, and hands back one document: the rows
that were measured and the claims they were asked to support. ``thalweg bench NAME`` runs one.

Experiments load when they run, so listing them costs nothing.

>>> EXPERIMENTS["engine"].name
'engine'
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from thalweg.experiments.experiment import Document, Experiment, Keep, Report, Scale

__all__ = ["EXPERIMENTS", "Document", "Experiment", "Keep", "Report", "Scale"]


def _experiment(name: str, summary: str, *, parts: bool = False, plots: bool = False, data: bool = False) -> Experiment:
    """The experiment of a module with ``run(scale, report)`` and, if there are plots, ``plot(document, directory)``.

    One in parts has ``run(scale, report, keep)``. One that takes data has ``run_on(scale, report, keep, path)`` too.
    """

    def run(scale: Scale, report: Report, keep: Keep) -> Document:
        measure = import_module(f"{__name__}.{name}").run
        document: Document = measure(scale, report, keep) if parts else measure(scale, report)
        return document

    def plot(document: Document, directory: Path) -> list[Path]:
        files: list[Path] = import_module(f"{__name__}.{name}").plot(document, directory)
        return files

    def run_on(scale: Scale, report: Report, keep: Keep, path: Path) -> Document:
        document: Document = import_module(f"{__name__}.{name}").run_on(scale, report, keep, path)
        return document

    return Experiment(name, summary, run, plot if plots else None, run_on if data else None)


EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        _experiment("engine", "the engine against DuckDB, a bare M-Join kernel and its own plain-Python twin"),
        _experiment(
            "spark", "thalweg on Spark against Spark's own chained joins, and the floor that Spark sets", parts=True
        ),
        _experiment(
            "jisc",
            "JISC's figures 7 to 12: changes of plan against their rivals; what adapting is worth",
            parts=True,
            plots=True,
        ),
        _experiment(
            "jit", "JIT's figures 10 to 17: intermediate results that are asked for, against all of them", plots=True
        ),
        _experiment(
            "slices",
            "State-Slice's figures 11 and 17 to 19: many queries over one join, by every way to share it",
            parts=True,
            plots=True,
        ),
        _experiment(
            "jaqpot",
            "JAQPOT's figures 6 to 9: joins that may not make all the probes they want, by every way to choose",
            parts=True,
            plots=True,
            data=True,
        ),
    )
}
"""All experiments by name, in the order in which they are listed."""
