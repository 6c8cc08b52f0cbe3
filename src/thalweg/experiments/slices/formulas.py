"""Figure 11: what slices save, by the paper's equations and as counted on regular streams.

A *routing* is a comparison of a result's age with the end of a window, or of its mask with a selection. The paper's
chain has none: the slice that a result comes from says whose it is. Here every strategy tells results to queries at the
end. So the parts of the counted work can be compared with the paper's, and its sum cannot.
"""

from __future__ import annotations

from itertools import product

from thalweg.experiments import answers
from thalweg.experiments.experiment import Claim, Report, Row, at_most, below, rounded
from thalweg.experiments.laps import Lap
from thalweg.experiments.slices.driving import Course, Held, Ride, counted_work
from thalweg.experiments.slices.sizes import Formulas
from thalweg.experiments.slices.workloads import Asked, Queries, regular
from thalweg.experiments.workloads import MICROSECONDS
from thalweg.plan.slice_costs import SharedCost, TwoQueries, pull_up, push_down, savings, state_slice
from thalweg.settings import Sharing

FIGURE_11 = "figure 11: two queries, as counted and by equations 1 to 3"
SAVINGS = "figure 11: what the memory-optimal chain saves, as counted and by equation 4"

_EQUATIONS = {"memory": state_slice, "pull_up": pull_up, "push_down": push_down}
_STRATEGIES: tuple[Sharing, ...] = ("memory", "pull_up", "push_down")

Counted = dict[Sharing, tuple[Lap, Held]]


def compare_with_equations(sizes: Formulas, report: Report) -> tuple[list[Row], list[Claim]]:
    """Drive all settings; nothing is timed."""
    rows: list[Row] = []
    saved: list[Row] = []
    errors, pulled, pushed = [], [], []
    for short, selected, keys in product(sizes.shorts, sizes.selected, sizes.keys):
        two = TwoQueries(sizes.rate, short, sizes.long, selected, 1 / keys)
        report(f"figure 11: windows of {short} and {sizes.long} s, {selected:g} selected, {keys} keys")
        counted = _count(two, keys, sizes)
        for strategy, (lap, held) in counted.items():
            rows.append(_row(two, strategy, lap, held, sizes.seconds))
        saved.append(_savings(two, counted))
        work = {strategy: counted_work(lap.work) for strategy, (lap, _) in counted.items()}
        errors.append(abs(counted["memory"][1].tuples / state_slice(two).tuples - 1))
        pulled.append(work["memory"] / work["pull_up"])
        pushed.append(work["memory"] / work["push_down"])
    where = "figure 11, every setting"
    return rows + saved, [
        at_most(f"{where}: tuples held by the memory-optimal chain, off equation 3 by", max(errors), 0.02),
        below(f"{where}: counted work, memory / pull_up", max(pulled), 1),
        below(f"{where}: counted work, memory / push_down", max(pushed), 1),
    ]


def _count(two: TwoQueries, keys: int, sizes: Formulas) -> Counted:
    """What each strategy does and holds once the long window is full."""
    queries = Queries((Asked(two.short), Asked(two.long, two.selected)), keys)
    seconds = sizes.long + sizes.seconds
    course = Course(queries, regular(sizes.rate, seconds, keys), sizes.rate, seconds)
    counted: Counted = {}
    for strategy in _STRATEGIES:
        ride = Ride(course, strategy, "nested loops", checked=True)
        ride.to(sizes.long * MICROSECONDS)
        lap, held = ride.to_end_looking(sizes.long)
        counted[strategy] = lap, held
        answers.check_fingerprints(counted["memory"][0].found, lap.found, ("memory", strategy))
    return counted


def _row(two: TwoQueries, strategy: Sharing, lap: Lap, held: Held, seconds: int) -> Row:
    expected: SharedCost = _EQUATIONS[strategy](two)
    return {
        "part": FIGURE_11,
        "window_ratio": rounded(two.ratio),
        "selected": two.selected,
        "joined": two.joined,
        "strategy": strategy,
        "tuples_held": rounded(held.tuples),
        "tuples_by_equation": rounded(expected.tuples),
        "candidates_per_s": round(lap.work["candidates"] / seconds),
        "probing_by_equation": round(expected.probing),
        "purges_per_s": round(lap.work["purges"] / seconds),
        "purging_by_equation": round(expected.purging),
        "routings_per_s": round(lap.work["routings"] / seconds),
        "unions_per_s": round(lap.work["unions"] / seconds),
        "of_results_by_equation": round(expected.routing + expected.selecting + expected.uniting),
        "results": lap.found.rows,
    }


def _savings(two: TwoQueries, counted: Counted) -> Row:
    expected = savings(two.ratio, two.selected, two.joined)
    held = {strategy: held.tuples for strategy, (_, held) in counted.items()}
    work = {strategy: counted_work(lap.work) for strategy, (lap, _) in counted.items()}
    return {
        "part": SAVINGS,
        "window_ratio": rounded(two.ratio),
        "selected": two.selected,
        "joined": two.joined,
        "memory_pull_up": rounded(1 - held["memory"] / held["pull_up"]),
        "by_equation_a": rounded(expected.memory_pull_up),
        "memory_push_down": rounded(1 - held["memory"] / held["push_down"]),
        "by_equation_b": rounded(expected.memory_push_down),
        "work_pull_up": rounded(1 - work["memory"] / work["pull_up"]),
        "by_equation_c": rounded(expected.work_pull_up),
        "work_push_down": rounded(1 - work["memory"] / work["push_down"]),
        "by_equation_d": rounded(expected.work_push_down),
    }
