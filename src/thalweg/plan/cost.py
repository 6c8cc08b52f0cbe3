"""The unit-time cost model: nanoseconds of work per second of stream.

Kang et al. (restated in JAQPOT's appendix A) charge a join, per unit of time, what its
two half-way joins do: every arriving tuple *probes* the partner's state, is *inserted*
into its own and *purges* what it displaces. :func:`half_way` and :func:`join_cost` are
that model as printed; :mod:`thalweg.plan.plan_cost` applies it to what really runs.

The balance of the constants is the reverse of the paper's: in compiled code a probe is
cheap and a stored entry is not (:class:`Costs`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Method = Literal["hash", "nested loop"]


@dataclass(frozen=True, slots=True)
class Costs:
    """Nanoseconds of each elementary piece of work.

    The ratios were fitted to the compiled kernels over some thirty joins (one key and several,
    narrow and wide, states kept and not), and scaled so that a bare 4-way M-Join with about one
    partner per probe takes the 110 ns per tuple that were measured for it. A pipeline that stores
    every intermediate result takes two to three times that. Only ratios matter to the choice
    of a plan; recalibrate by passing other values.

    Attributes:
        base_insert: take a tuple in and append it to its base window.
        base_purge: drop it from there when it expires.
        probe: find the chain of a key: a trip to memory.
        probe_again: find the chain of the same key in a further base window: they are neighbours.
        probe_slice: find it in a further slice of the same window: 10 of twelve slices, 22 of 36 were measured.
        candidate: follow a chain to one entry; compare its key and lifetime.
        scan: one entry of a nested loop.
        theta: evaluate one further predicate on a candidate.
        state_insert: append an entry to a kept state and link it to its chain.
        state_purge: unlink it when it expires.
        result: hand one result out.

    """

    base_insert: float = 5.0
    base_purge: float = 3.0
    probe: float = 56.0
    probe_again: float = 2.0
    probe_slice: float = 15.0
    candidate: float = 13.0
    scan: float = 7.0
    theta: float = 2.0
    state_insert: float = 90.0
    state_purge: float = 40.0
    result: float = 4.0

    @property
    def base(self) -> float:
        """A base tuple's way in and out."""
        return self.base_insert + self.base_purge

    @property
    def store(self) -> float:
        """A state entry's way in and out."""
        return self.state_insert + self.state_purge

    def search(self, candidates: float, comparisons: int, method: Method, *, again: bool = False) -> float:
        """One probe that visits ``candidates`` entries and compares each on so many further predicates."""
        if method == "hash":
            lookup = self.probe_again if again else self.probe
            return lookup + candidates * (self.candidate + comparisons * self.theta)
        return candidates * (self.scan + comparisons * self.theta)


DEFAULT_COSTS = Costs()


@dataclass(frozen=True, slots=True)
class HalfWay:
    """One direction of a join: tuples of one side looking for partners in the other's state (JAQPOT, equation 14).

    Attributes:
        probe, insert, purge: work per second.
        output: tuples produced per second.

    """

    probe: float
    insert: float
    purge: float
    output: float

    @property
    def total(self) -> float:
        return self.probe + self.insert + self.purge


def productivity(selectivity: float, partner_size: float) -> float:
    """Joined tuples per probing tuple (JAQPOT, equation 3).

    >>> productivity(0.005, 500)
    2.5
    """
    return selectivity * partner_size


def half_way(
    rate: float, partner_size: float, selectivity: float, method: Method, costs: Costs = DEFAULT_COSTS
) -> HalfWay:
    """The cost of ``a ⋉ S_B``: ``rate`` tuples of A per second against ``partner_size`` tuples of B.

    A nested loop searches the whole state, a hash join only the bucket of the key, that is,
    about the tuples that join. Insert and purge take constant time per tuple.
    """
    found = productivity(selectivity, partner_size)
    searched = found if method == "hash" else partner_size
    comparisons = 0 if method == "hash" else 1
    return HalfWay(
        probe=rate * costs.search(searched, comparisons, method),
        insert=rate * costs.base_insert,
        purge=rate * costs.base_purge,
        output=rate * found,
    )


def join_cost(
    rates: tuple[float, float],
    sizes: tuple[float, float],
    selectivity: float,
    method: Method,
    costs: Costs = DEFAULT_COSTS,
) -> float:
    """The cost of ``A ⋈ B``: both directions (JAQPOT, equation 13)."""
    directions = (half_way(rates[i], sizes[1 - i], selectivity, method, costs) for i in (0, 1))
    return sum(direction.total for direction in directions)


def growth_per_work(growth: float, work: float) -> float:
    """The rank of a step."""
    return rounded((growth - 1) / max(work, 1e-9))


def rounded(rank: float) -> float:
    """Equally good steps are ordered by stream, not by the noise of floats."""
    return float(f"{rank:.9g}")


def comparisons(key: tuple[int, ...], shared: tuple[int, ...]) -> int:
    """The attribute classes compared on every candidate: those that the lookup did not already decide.

    A key of one class is decided by the lookup; several classes only share a hash.
    """
    return sum(cls not in key or len(key) > 1 for cls in shared)
