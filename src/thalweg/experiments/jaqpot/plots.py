"""The figures of a document, drawn as the paper has them. matplotlib loads here alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from thalweg.experiments.experiment import Document, Row
from thalweg.experiments.jaqpot import analysis, correlated, sensors, staleness, throughput
from thalweg.experiments.jaqpot.driving import ALL
from thalweg.experiments.jaqpot.sizes import TRIGGERS

_COLOURS = dict(
    zip(
        [*ALL, throughput.OPTIMUM],
        ("#0b6e99", "#17a589", "#7d3c98", "#c0392b", "#d68910", "#f1948a", "#566573", "#1b2631", "#52be80", "#aab7b8"),
        strict=True,
    )
)


def draw(document: Document, directory: Path) -> list[Path]:
    """Draw every figure that the document has rows for; returns the files."""
    directory.mkdir(parents=True, exist_ok=True)
    files = []
    for name, part, paint in _figures():
        rows = [row for row in document["rows"] if row["part"] == part]
        if rows:
            figure = paint(part, rows)
            files.append(directory / f"{name}.png")
            figure.savefig(files[-1], dpi=150)
    return files


def _figures() -> Iterator[tuple[str, str, Callable[[str, Sequence[Row]], Figure]]]:
    """File name, the part that it shows, and how."""
    yield "figure_6", throughput.FIGURE_6, _by_minute("plan", "minute")
    yield "figure_7", throughput.FIGURE_7, _by_budget
    yield "figure_7_kept", throughput.KEPT, _by_budget
    yield "figure_7_model", staleness.FIGURE_7, _by_budget
    yield "figure_8", sensors.FIGURE_8, _by_minute("budget", "minute")
    yield "figure_9", staleness.FIGURE_9, _stale
    yield "figure_9d", staleness.FIGURE_9D, _spent
    yield "analysis", analysis.OVERHEAD, _analysis
    yield "correlated", correlated.CORRELATED, _correlated
    yield "overload", TRIGGERS, _overload


def _by_minute(panel: str, across: str) -> Callable[[str, Sequence[Row]], Figure]:
    """Cumulative results: a panel for each value of a column, a line for each policy."""

    def paint(part: str, rows: Sequence[Row]) -> Figure:
        panels = list(_by(rows, panel))
        figure = _figure(part, len(panels))
        for place, (value, mine) in enumerate(panels, start=1):
            axes = figure.add_subplot(1, len(panels), place)
            axes.set_title(f"{panel} {value}", fontsize=9)
            for policy, each in _by(mine, "policy"):
                points = [(_number(row, across), _number(row, "results")) for row in each]
                _line(axes, policy, points)
            axes.set_xlabel("minute")
            axes.set_ylabel("results so far")
        return _finished(figure)

    return paint


def _by_budget(part: str, rows: Sequence[Row]) -> Figure:
    """The share of the full answer, by budget: a panel for each plan."""
    panels = list(_by(rows, "plan"))
    figure = _figure(part, len(panels))
    for place, (plan, mine) in enumerate(panels, start=1):
        axes = figure.add_subplot(1, len(panels), place)
        axes.set_title(plan, fontsize=9)
        for policy, (row,) in _by(mine, "policy"):
            budgets = [name for name in row if name.startswith("at_")]
            points = [(float(name[3:-1]), 100 * _number(row, name)) for name in budgets]
            _line(axes, policy, points)
        axes.set_xlabel("probes, % of saturation")
        axes.set_ylabel("results, % of all")
    return _finished(figure)


def _stale(part: str, rows: Sequence[Row]) -> Figure:
    """Bars of stale results: a panel for each plan, a group for each freshness."""
    panels = list(_by(rows, "plan"))
    figure = _figure(part, len(panels))
    for place, (plan, mine) in enumerate(panels, start=1):
        axes = figure.add_subplot(1, len(panels), place)
        axes.set_title(plan, fontsize=9)
        width = 0.8 / len(staleness.POLICIES)
        for i, policy in enumerate(staleness.POLICIES):
            heights = [100 * _number(row, policy) for row in mine]
            across = [group + i * width for group in range(len(mine))]
            axes.bar(across, heights, width, label=policy, color=_COLOURS[policy])
        axes.set_xticks([group + 0.4 for group in range(len(mine))], [str(row["freshness"]) for row in mine])
        axes.set_xlabel("freshness, in windows")
        axes.set_ylabel("stale results, %")
    return _finished(figure)


def _spent(part: str, rows: Sequence[Row]) -> Figure:
    figure = _figure(part, 1)
    axes = figure.add_subplot()
    plans = list(_by(rows, "plan"))
    width = 0.8 / len(plans)
    for i, (plan, mine) in enumerate(plans):
        heights = [100 * _number(row, "spent_by_the_cheapest_cover") for row in mine]
        axes.bar([group + i * width for group in range(len(mine))], heights, width, label=plan)
    axes.set_xticks([group + 0.4 for group in range(len(mine))], [str(row["freshness"]) for row in mine])
    axes.set_xlabel("freshness, in windows")
    axes.set_ylabel("spent on freshness, % of the budget")
    return _finished(figure)


def _analysis(part: str, rows: Sequence[Row]) -> Figure:
    figure = _figure(part, 1)
    axes = figure.add_subplot()
    for name in (name for name in rows[0] if name.startswith("ms_")):
        axes.plot(
            [_number(row, "streams") for row in rows],
            [_number(row, name) for row in rows],
            marker="o",
            label=name.removeprefix("ms_").replace("_", " "),
        )
    axes.set_xlabel("streams")
    axes.set_ylabel("milliseconds")
    return _finished(figure)


def _correlated(part: str, rows: Sequence[Row]) -> Figure:
    figure = _figure(part, 1)
    axes = figure.add_subplot()
    for policy, mine in _by(rows, "policy"):
        _line(axes, policy, [(_number(row, "budget_%"), 100 * _number(row, "share_of_full")) for row in mine])
    axes.set_xlabel("probes, % of saturation")
    axes.set_ylabel("results, % of all")
    return _finished(figure)


def _overload(part: str, rows: Sequence[Row]) -> Figure:
    """What came in, how long triggers took, and how much of the answer they found, over time."""
    figure = Figure(figsize=(8.0, 6.4), layout="constrained")
    figure.suptitle(part, fontsize=10)
    busy = [row for row in rows if row["rows"]]
    begun = [_number(row, "begun") - _number(busy[0], "begun") for row in busy]
    came, took, found = figure.subplots(3, 1, sharex=True)
    rates = [_number(row, "rows") / _number(row, "seconds") for row in busy]
    came.step(begun, rates, where="post", color=_COLOURS["jaqpot"])
    came.set_ylabel("rows joined per second")
    took.plot(begun, [_number(row, "seconds") for row in busy], ".", color=_COLOURS["jaqpot"], label="a trigger")
    took.plot(begun, [_number(row, "target") for row in busy], color="#c0392b", label="its target")
    took.set_ylabel("seconds")
    took.legend(fontsize=8)
    known = [(when, 100 * _number(row, "share")) for when, row in zip(begun, busy, strict=True) if row["share"]]
    found.plot(*zip(*known, strict=True), ".", color=_COLOURS["jaqpot"])
    found.set_ylabel("of the full answer, %")
    found.set_xlabel("seconds")
    for axes in (came, took, found):
        axes.set_ylim(bottom=0)
        axes.grid(visible=True, alpha=0.3)
    return figure


def _figure(part: str, panels: int) -> Figure:
    figure = Figure(figsize=(1.0 + 4.4 * panels, 4.4), layout="constrained")
    figure.suptitle(part, fontsize=10)
    return figure


def _line(axes: Axes, policy: str, points: Sequence[tuple[float, float]]) -> None:
    axes.plot(*zip(*points, strict=True), marker=".", label=policy, color=_COLOURS[policy])


def _finished(figure: Figure) -> Figure:
    for axes in figure.axes:
        axes.set_ylim(bottom=0)
        axes.grid(visible=True, alpha=0.3)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=8)
    return figure


def _by(rows: Sequence[Row], column: str) -> Iterator[tuple[str, list[Row]]]:
    """Rows by what a column says, in the order in which that comes."""
    for value in dict.fromkeys(row[column] for row in rows):
        yield str(value), [row for row in rows if row[column] == value]


def _number(row: Row, column: str) -> float:
    value = row[column]
    return float(value) if isinstance(value, int | float) else 0.0
