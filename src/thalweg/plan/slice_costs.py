"""What two queries cost that share one join, by State-Slice's equations 1 to 4.

The first query has a short window. The second has a long one, and a selection on the first stream. Both streams have
the same rate. Memory is counted in tuples held, work in comparisons per second of nested loops. Three ways to share:

*pull up*
    One join with the long window. Results are told to the queries, and selected, at the end.
*push down*
    The first stream is divided by the selection: a join with the short window for what fails, one with the long window
    for what passes.
*state slice*
    A chain of two slices, with the selection between them.

The module also says what a chain of slices holds for any number of lineages (theorem 4).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TwoQueries:
    """The setting of section 3.

    Attributes:
        rate: tuples per second of each stream (λ).
        short, long: windows in seconds (W1 and W2).
        selected: the share of tuples that the selection lets pass (Sσ).
        joined: the share of pairs that join (S⋈).

    """

    rate: float
    short: float
    long: float
    selected: float
    joined: float

    @property
    def ratio(self) -> float:
        """That of the windows (ρ)."""
        return self.short / self.long


@dataclass(frozen=True, slots=True)
class SharedCost:
    """What a way to share costs. All but the first are comparisons per second.

    Attributes:
        tuples: held in the states of joins.
        probing: comparisons of two tuples.
        purging: of a tuple's time with the end of a window.
        splitting: of a stream by the selection, before it is joined.
        routing: of results with windows.
        selecting: of results by the selection.
        uniting: the results of several joins.

    """

    tuples: float
    probing: float
    purging: float
    splitting: float = 0.0
    routing: float = 0.0
    selecting: float = 0.0
    uniting: float = 0.0

    @property
    def work(self) -> float:
        """All comparisons per second."""
        of_results = self.routing + self.selecting + self.uniting
        return self.probing + self.purging + self.splitting + of_results


def pull_up(two: TwoQueries) -> SharedCost:
    """Equation 1.

    >>> pull_up(TwoQueries(rate=10, short=10, long=60, selected=0.5, joined=0.1)).tuples
    1200
    """
    pairs = 2 * two.rate**2 * two.long
    results = pairs * two.joined
    return SharedCost(
        tuples=2 * two.rate * two.long,
        probing=pairs,
        purging=2 * two.rate,
        routing=results,
        selecting=results,
    )


def push_down(two: TwoQueries) -> SharedCost:
    """Equation 2."""
    short, long = 2 * two.rate**2 * two.short, 2 * two.rate**2 * two.long
    return SharedCost(
        tuples=two.rate * ((2 - two.selected) * two.short + (1 + two.selected) * two.long),
        probing=(1 - two.selected) * short + two.selected * long,
        purging=3 * two.rate,
        splitting=two.rate,
        routing=two.selected * long * two.joined,
        uniting=short * two.joined,
    )


def state_slice(two: TwoQueries) -> SharedCost:
    """Equation 3. Its union costs 2λ: tuples of the last slice say up to when results are complete."""
    short, beyond = 2 * two.rate**2 * two.short, 2 * two.rate**2 * (two.long - two.short)
    return SharedCost(
        tuples=two.rate * (2 * two.short + (1 + two.selected) * (two.long - two.short)),
        probing=short + two.selected * beyond,
        purging=4 * two.rate,
        splitting=two.rate,
        selecting=short * two.joined,
        uniting=2 * two.rate,
    )


@dataclass(frozen=True, slots=True)
class Savings:
    """The shares of memory and work that slices save (equation 4), where rates are so high that λ is nothing beside λ².

    (The paper prints some of its subscripts in the wrong place: the first two are of memory, the others of work.)
    """

    memory_pull_up: float
    memory_push_down: float
    work_pull_up: float
    work_push_down: float


def savings(ratio: float, selected: float, joined: float) -> Savings:
    """Equation 4.

    >>> round(savings(ratio=0.5, selected=0.5, joined=0.1).memory_pull_up, 3)
    0.125
    """
    beyond, failing = 1 - ratio, 1 - selected
    return Savings(
        memory_pull_up=beyond * failing / 2,
        memory_push_down=ratio / (1 + 2 * ratio + beyond * selected),
        work_pull_up=(beyond * failing + (2 - ratio) * joined) / (1 + 2 * joined),
        work_push_down=selected * joined / (ratio * failing + selected + selected * joined + ratio * joined),
    )


def chain_tuples(lineages: Iterable[tuple[float, float]]) -> float:
    """What the memory-optimal chain of a stream holds: each lineage, (tuples per second, seconds of use), by itself.

    No join can hold less (theorem 4).

    >>> chain_tuples([(15.0, 10.0), (5.0, 30.0)])
    300.0
    """
    return sum(rate * seconds for rate, seconds in lineages)
