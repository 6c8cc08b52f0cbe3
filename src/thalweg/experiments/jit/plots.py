"""The figures of a document, each with processor time, memory and work. matplotlib loads here alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from thalweg.experiments.experiment import Document, Row
from thalweg.experiments.jit.figures import LABELS

_COLOURS = {"push": "#c0392b", "jit": "#0b6e99", "auto": "#17a589"}
_DASHES = {"nested loops": "-", "hash": "--"}
_PANELS = {
    "cpu_seconds": "seconds of processor time",
    "peak_state_bytes": "bytes of states, at most",
    "peak_bytes": "bytes in all, at most",
    "candidates": "candidates looked at",
}


def draw(document: Document, directory: Path) -> list[Path]:
    """Draw every figure that the document has rows for; returns the files."""
    directory.mkdir(parents=True, exist_ok=True)
    files = []
    for part, rows in groupby(document["rows"], key=lambda row: str(row["part"])):
        named = re.match(r"figure (\d+): against (.+), ", part)
        if named:
            label = named[2]
            across = next(parameter for parameter, text in LABELS.items() if text == label)
            files.append(directory / f"figure_{named[1]}.png")
            _figure(part, list(rows), across, label).savefig(files[-1], dpi=150)
    return files


def _figure(part: str, rows: Sequence[Row], across: str, label: str) -> Figure:
    figure = Figure(figsize=(14.0, 4.0), layout="constrained")
    figure.suptitle(part, fontsize=10)
    for place, (up, up_label) in enumerate(_PANELS.items(), start=1):
        axes = figure.add_subplot(1, len(_PANELS), place)
        _lines(axes, rows, across, up)
        axes.set_xlabel(label)
        axes.set_ylabel(up_label)
        axes.set_yscale("log")
        axes.grid(visible=True, alpha=0.3)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8)
    return figure


def _lines(axes: Axes, rows: Sequence[Row], across: str, up: str) -> None:
    """A line per contender."""
    lines: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        lines.setdefault((str(row["production"]), str(row["method"])), []).append(row)
    for (production, method), each in lines.items():
        axes.plot(
            [_number(row, across) for row in each],
            [_number(row, up) for row in each],
            marker="o",
            label=f"{production}, {method}",
            color=_COLOURS[production],
            linestyle=_DASHES[method],
        )


def _number(row: Row, column: str) -> float:
    value = row[column]
    assert isinstance(value, int | float), column  # noqa: S101 - a row of our own
    return float(value)
