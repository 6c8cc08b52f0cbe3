"""Every figure and table of the papers, and the peers, as runnable experiments.

An experiment checks every answer first, then measures, and hands back one document: the rows
that were measured and the claims they were asked to support. ``thalweg bench NAME`` runs one.

Experiments load when they run, so listing them costs nothing.

>>> EXPERIMENTS["engine"].name
'engine'
"""

from __future__ import annotations

from importlib import import_module

from thalweg.experiments.experiment import Document, Experiment, Report, Scale

__all__ = ["EXPERIMENTS", "Document", "Experiment", "Report", "Scale"]


def _experiment(name: str, summary: str) -> Experiment:
    """The experiment whose module of this name has a function ``run(scale, report)``."""

    def run(scale: Scale, report: Report) -> Document:
        document: Document = import_module(f"{__name__}.{name}").run(scale, report)
        return document

    return Experiment(name, summary, run)


EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        _experiment("engine", "the engine against DuckDB, a bare M-Join kernel and its own plain-Python twin"),
        _experiment("spark", "thalweg on Spark against Spark's own chained joins, and the floor that Spark sets"),
        _experiment("jisc", "JISC's figures 7 to 12: changes of plan against their rivals; and what adapting is worth"),
    )
}
"""All experiments by name, in the order in which they are listed."""
