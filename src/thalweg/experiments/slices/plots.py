"""The figures of a document, drawn as the paper has them. matplotlib loads here alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from thalweg.experiments.experiment import Document, Row
from thalweg.experiments.slices import chains, formulas, many, strategies
from thalweg.experiments.slices.sizes import ON_SPARK

_COLOURS = {
    "memory": "#0b6e99",
    "auto": "#17a589",
    "pull_up": "#c0392b",
    "push_down": "#d68910",
    "none": "#566573",
}
_OTHER = "#aab7b8"
_SAVED = {
    "memory_pull_up": ("by_equation_a", "memory, against pull_up"),
    "memory_push_down": ("by_equation_b", "memory, against push_down"),
    "work_pull_up": ("by_equation_c", "counted work, against pull_up"),
    "work_push_down": ("by_equation_d", "counted work, against push_down"),
}


def draw(document: Document, directory: Path) -> list[Path]:
    """Draw every figure that the document has rows for; returns the files."""
    directory.mkdir(parents=True, exist_ok=True)
    files = []
    for name, parts, paint in _figures():
        rows = [row for row in document["rows"] if row["part"] in parts]
        if rows:
            figure = paint(parts[0], rows)
            files.append(directory / f"{name}.png")
            figure.savefig(files[-1], dpi=150)
    return files


def _figures() -> Iterator[tuple[str, tuple[str, ...], Callable[[str, Sequence[Row]], Figure]]]:
    """File name, the parts that it shows, and how."""
    yield "figure_11", (formulas.SAVINGS,), _savings
    for number, up, label in (
        ("17", "tuples_held", "tuples held"),
        ("18", "results_per_s", "results per second of processor time"),
    ):
        for method in strategies.METHODS:
            name = f"figure_{number}_{method.replace(' ', '_')}"
            yield name, (strategies.part(method),), _against_rate(("windows", "selected", "joined"), up, label)
    yield (
        "figure_19",
        (chains.FIGURE_19,),
        _against_rate(
            ("method", "windows", "queries", "selections"), "results_per_s", "results per second of processor time"
        ),
    )
    yield "many_queries", (many.MANY, many.PLANS), _against_queries("ns_per_tuple", "nanoseconds per tuple")
    yield "many_queries_on_spark", (ON_SPARK,), _against_queries("trigger_seconds", "seconds per trigger")


def _savings(part: str, rows: Sequence[Row]) -> Figure:
    """Counted savings as points beside those of the equation, as lines, against the ratio of windows."""
    figure = Figure(figsize=(14.0, 4.0), layout="constrained")
    figure.suptitle(part, fontsize=10)
    for place, (counted, (expected, label)) in enumerate(_SAVED.items(), start=1):
        axes = figure.add_subplot(1, len(_SAVED), place)
        for (selected, joined), each in _by(rows, ("selected", "joined")):
            across = [_number(row, "window_ratio") for row in each]
            (line,) = axes.plot(across, [_number(row, expected) for row in each], linewidth=1)
            name = f"{selected} selected, {joined} joined"
            points = [_number(row, counted) for row in each]
            axes.plot(across, points, "o", color=line.get_color(), label=name)
        axes.set_xlabel("short window / long window")
        axes.set_ylabel(f"saved: {label}")
        axes.grid(visible=True, alpha=0.3)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=8)
    return figure


def _against_rate(panels: Sequence[str], up: str, label: str) -> Callable[[str, Sequence[Row]], Figure]:
    """A panel per setting, a line per strategy."""

    def paint(part: str, rows: Sequence[Row]) -> Figure:
        settings = list(_by(rows, panels))
        columns = min(6, len(settings))
        lines = -(-len(settings) // columns)
        figure = Figure(figsize=(2.8 * columns, 2.4 * lines), layout="constrained")
        figure.suptitle(f"{part}: {label}", fontsize=10)
        for place, (setting, each) in enumerate(settings, start=1):
            axes = figure.add_subplot(lines, columns, place)
            axes.set_title(", ".join(setting), fontsize=7)
            _lines(axes, each, up)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=8)
        return figure

    return paint


def _lines(axes: Axes, rows: Sequence[Row], up: str) -> None:
    for (strategy,), each in _by(rows, ("strategy",)):
        points = [(_number(row, "rate"), _number(row, up)) for row in each]
        axes.plot(*zip(*points, strict=True), marker="o", label=strategy, color=_COLOURS.get(strategy, _OTHER))
    axes.set_xlabel("tuples per second and stream", fontsize=7)
    axes.tick_params(labelsize=7)
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, alpha=0.3)


def _against_queries(up: str, label: str) -> Callable[[str, Sequence[Row]], Figure]:
    """What 1 to 1,000 queries cost: a flat line is what sharing is for."""

    def paint(part: str, rows: Sequence[Row]) -> Figure:
        figure = Figure(figsize=(6.4, 4.0), layout="constrained")
        axes = figure.add_subplot()
        axes.set_title(part, fontsize=10)
        for (streams, measured), each in _by([{"measured": "", **row} for row in rows], ("streams", "measured")):
            points = [(_number(row, "queries"), _number(row, up)) for row in each]
            name = f"{streams} streams, {measured}".removesuffix(", ")
            axes.plot(*zip(*points, strict=True), marker="o", label=name)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("queries")
        axes.set_ylabel(label)
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize=8)
        return figure

    return paint


def _by(rows: Sequence[Row], columns: Sequence[str]) -> Iterator[tuple[tuple[str, ...], list[Row]]]:
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(str(row[column]) for column in columns), []).append(row)
    yield from groups.items()


def _number(row: Row, column: str) -> float:
    value = row[column]
    assert isinstance(value, int | float), column  # noqa: S101 - a row of our own
    return float(value)
