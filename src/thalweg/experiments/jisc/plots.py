"""The figures of a document, drawn as the paper has them. matplotlib loads here alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from thalweg.experiments.experiment import Document, Row
from thalweg.experiments.jisc import adaptivity, no_stall
from thalweg.experiments.jisc.figures import FIGURE_7, FIGURE_8, FIGURE_9, FIGURE_11, FIGURE_12
from thalweg.experiments.jisc.first_output import FIGURE_10

_COLOURS = {
    "jisc": "#0b6e99",
    "moving_state": "#c0392b",
    "parallel_track": "#d68910",
    "parallel_track_printed": "#7d6608",
    "cacq": "#7d3c98",
    "stairs_jisc": "#1e8449",
    "plain pipeline": "#566573",
    "auto": "#17a589",
    "adaptive": "#0b6e99",
}
_OTHER = "#aab7b8"


def draw(document: Document, directory: Path) -> list[Path]:
    """Draw every figure that the document has rows for; returns the files."""
    directory.mkdir(parents=True, exist_ok=True)
    files = []
    for name, (part, paint) in _FIGURES.items():
        rows = [row for row in document["rows"] if row["part"] == part]
        if rows:
            figure = Figure(figsize=(6.4, 4.0), layout="constrained")
            axes = figure.add_subplot()
            axes.set_title(part, fontsize=10)
            paint(axes, rows)
            files.append(directory / f"{name}.png")
            figure.savefig(files[-1], dpi=150)
    return files


def _lines(
    across: str, label: str, up: str, up_label: str, *, log: bool = False
) -> Callable[[Axes, Sequence[Row]], None]:
    """A line per policy."""

    def paint(axes: Axes, rows: Sequence[Row]) -> None:
        for policy, each in _by(rows, "policy").items():
            points = [(_number(row, across), _number(row, up)) for row in each]
            axes.plot(*zip(*points, strict=True), marker="o", label=policy, color=_COLOURS.get(policy, _OTHER))
        axes.set_xlabel(label)
        axes.set_ylabel(up_label)
        if log:
            axes.set_xscale("log")
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize=8)

    return paint


def _bars(group: str, name: str, up: str, up_label: str) -> Callable[[Axes, Sequence[Row]], None]:
    """A group of bars for each value of ``group``."""

    def paint(axes: Axes, rows: Sequence[Row]) -> None:
        ticks = []
        place = 0
        for value, each in _by(rows, group).items():
            for row in each:
                policy = str(row[name])
                axes.bar(place, _number(row, up), color=_COLOURS.get(policy, _OTHER))
                ticks.append((place, f"{policy}\n{value}"))
                place += 1
            place += 1
        axes.set_xticks([at for at, _ in ticks], [text for _, text in ticks], fontsize=6, rotation=60, ha="right")
        axes.set_ylabel(up_label)
        axes.grid(visible=True, axis="y", alpha=0.3)

    return paint


def _latencies(axes: Axes, rows: Sequence[Row]) -> None:
    for shift, measure in enumerate(("p50_ms", "p99_ms", "max_ms")):
        places = [4 * i + shift for i in range(len(rows))]
        axes.bar(places, [_number(row, measure) for row in rows], label=measure.removesuffix("_ms"))
    axes.set_xticks([4 * i + 1 for i in range(len(rows))], [str(row["policy"]) for row in rows], fontsize=8)
    axes.set_yscale("log")
    axes.set_ylabel("milliseconds")
    axes.legend(fontsize=8)


def _by(rows: Sequence[Row], column: str) -> Mapping[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(str(row[column]), []).append(row)
    return groups


def _number(row: Row, column: str) -> float:
    value = row[column]
    assert isinstance(value, int | float), column  # noqa: S101 - a row of our own
    return float(value)


_SPEED = "tuples per second of processor time"
_STAGE = _lines("joins", "joins", "tuples_per_s", _SPEED)
_PERIOD = _lines("period", "tuples between two changes", "tuples_per_s", _SPEED)
_WAIT = _lines("window", "tuples in a window", "cpu_seconds", "seconds to the first result", log=True)

_FIGURES: dict[str, tuple[str, Callable[[Axes, Sequence[Row]], None]]] = {
    "figure_07": (FIGURE_7, _STAGE),
    "figure_08": (FIGURE_8, _STAGE),
    "figure_09": (FIGURE_9, _bars("method", "policy", "tuples_per_s", _SPEED)),
    "figure_10a": (FIGURE_10["hash"], _WAIT),
    "figure_10b": (FIGURE_10["nested loops"], _WAIT),
    "figure_11": (FIGURE_11, _PERIOD),
    "figure_12": (FIGURE_12, _PERIOD),
    "no_stall": (no_stall.PART, _latencies),
    "drifting": (adaptivity.DRIFTING, _bars("streams", "contender", "tuples_per_s", _SPEED)),
    "stationary": (adaptivity.STEADY, _bars("streams", "contender", "tuples_per_s", _SPEED)),
}
"""File name -> the part that it shows, and how."""
