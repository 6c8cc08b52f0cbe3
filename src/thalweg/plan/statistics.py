"""What is known, or assumed, about the streams of a query.

Rates and window sizes per stream; per attribute class, how many distinct values each
stream brings and how many two streams have in common; a selectivity per theta predicate.
From these follow all estimates of the planner:

- A set of streams agrees on a class with probability ``common / product of distinct``.
  For two streams whose values contain one another that is the textbook's
  ``1 / max(distinct)``, and a third stream on the same class adds *one* factor, whatever
  the order in which they are joined: an estimate belongs to a set, not to a path.
- A combination is alive exactly while all of its components are. So at any instant the
  state over a set of streams holds ``product of windows x selectivities`` entries, with
  no correction for how lifetimes overlap, and a probe meets as many partners as are alive.
  (Rough: streams are taken as independent, and time constraints between the streams
  other than windows enter as selectivities of theta predicates.)
- By Little's law a tuple of a stream stays ``window / rate`` seconds, for every kind of window.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import pyarrow as pa

from thalweg.cql.query import Query, RangeWindow, StreamRef
from thalweg.errors import PlanError
from thalweg.plan import sampling, selectivity
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.sampling import Contents, Floats, StreamSample
from thalweg.plan.tree import Node

DEFAULT_RATE = 1_000.0
"""Tuples per second of a stream about which nothing is known; only the ratios of rates matter to a plan."""

DEFAULT_SELECTION = 1 / 3
"""Share of the tuples that pass a selection about which nothing is known."""

DEFAULT_PARTITIONS = 100
"""Partitions of a ``PARTITION BY`` window about which nothing is known."""

UNBOUNDED_TUPLES = 1_000_000.0
"""Stand-in for the size of an UNBOUNDED window: as many tuples as a stream may have brought when the plan matters."""

STATIC_RATE = 1e-6
"""Stand-in for the rate of a static relation, which has none: so low that what it would cost never decides a plan."""

STATIC_TUPLES = 10_000.0
"""Rows of a static relation about which nothing is known: relations to look things up in are small beside streams."""

LEAST_WINDOW, MOST_WINDOW = 1e-3, 1e9
"""Bounds of the size that is assumed for a window: [NOW] holds hardly anything, and nothing holds more than memory."""


ASSUMED = "assumed: rates, window sizes, and how often values agree. No row was looked at."
"""What is to be said of the numbers of :meth:`Statistics.default`."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Rates, window sizes and selectivities.

    Attributes:
        rates: per stream, tuples per second that can be in a result (they pass the selection).
        windows: per stream, how many such tuples its window holds.
        distinct: per attribute class and member stream, the number of distinct values that tuples
            of its window carry. Skewed values count as the number of equally frequent ones that
            would agree as often; so few hot keys are few values.
        thetas: per theta predicate, the share of the pairs for which it holds.
        common: per attribute class, for pairs of its members, how many of these values both have.
            A pair that is not given: those of the stream that has fewer.

    >>> known = Statistics((1000.0, 1000.0, 10.0), (10_000.0, 5_000.0, 20.0), ({0: 1000.0, 1: 500.0, 2: 20.0},))
    >>> graph = JoinGraph(3, classes=(frozenset({0, 1, 2}),))
    >>> round(known.matches(graph, frozenset({0}), frozenset({1})), 6)
    5.0
    >>> round(known.matches(graph, frozenset({1}), frozenset({0})), 6)
    10.0

    """

    rates: tuple[float, ...]
    windows: tuple[float, ...]
    distinct: tuple[Mapping[int, float], ...] = ()
    thetas: tuple[float, ...] = ()
    common: tuple[Mapping[Node, float], ...] = ()

    def __post_init__(self) -> None:
        if len(self.rates) != len(self.windows):
            raise PlanError(f"statistics give {len(self.rates)} rates but {len(self.windows)} window sizes")
        _positive("rate", self.rates)
        _positive("window size", self.windows)
        _positive("selectivity of a theta predicate", self.thetas)
        for counts in self.distinct:
            _positive("number of distinct values", counts.values())
        for shared in self.common:
            _positive("number of common values", shared.values())

    @property
    def lifetimes(self) -> tuple[float, ...]:
        """Per stream, the seconds that a tuple stays in its window."""
        return tuple(window / rate for window, rate in zip(self.windows, self.rates, strict=True))

    def agreement(self, cls: int, streams: Node) -> float:
        """The probability that tuples of these streams, one of each, agree on an attribute class."""
        return math.exp(self._log_agreement(cls, streams))

    def in_common(self, cls: int, one: int, other: int) -> float:
        """How many values of an attribute class two of its members have in common."""
        fewer = min(self.distinct[cls][one], self.distinct[cls][other])
        return self.common[cls].get(frozenset((one, other)), fewer) if self.common else fewer

    def size(self, graph: JoinGraph, node: Node) -> float:
        """How many combinations of these streams are alive at an instant: the entries of their state."""
        return exponential(self._log_size(graph, node))

    def arrivals(self, graph: JoinGraph, node: Node) -> float:
        """How many combinations of these streams come about per second."""
        return self.size(graph, node) * sum(self.rates[s] / self.windows[s] for s in node)

    def candidates(self, graph: JoinGraph, bound: Node, target: Node, key: Iterable[int]) -> float:
        """How many entries of ``target`` a lookup by ``key`` visits; without a key, all."""
        return exponential(self._log_candidates(graph, bound, target, key))

    def matches(self, graph: JoinGraph, bound: Node, target: Node) -> float:
        """How many entries of ``target`` a combination over ``bound`` finds: its growth by this join."""
        logarithm = self._log_candidates(graph, bound, target, range(len(graph.classes)))
        thetas = graph.thetas_completed(bound, target)
        return exponential(logarithm + sum(math.log(self.thetas[theta]) for theta in thetas))

    def selectivity(self, graph: JoinGraph, left: Node, right: Node) -> float:
        """The share of the pairs across two sets of streams that join."""
        return self.matches(graph, left, right) / self.size(graph, right)

    # In logarithms, so that products over many streams neither vanish nor overflow.

    def _log_agreement(self, cls: int, streams: Node) -> float:
        counts = {s: count for s, count in self.distinct[cls].items() if s in streams}
        if len(counts) < 2:
            return 0.0
        shared = min(self.in_common(cls, a, b) for a, b in combinations(counts, 2))
        return math.log(shared) - sum(map(math.log, counts.values()))

    def _log_size(self, graph: JoinGraph, node: Node) -> float:
        factors = [self.windows[s] for s in node]
        factors += [share for ends, share in zip(graph.thetas, self.thetas, strict=True) if ends <= node]
        agreements = (self._log_agreement(cls, node) for cls in range(len(graph.classes)))
        return sum(map(math.log, factors)) + sum(agreements)

    def _log_candidates(self, graph: JoinGraph, bound: Node, target: Node, key: Iterable[int]) -> float:
        logarithm = self._log_size(graph, target)
        for cls in key:
            logarithm += self._log_agreement(cls, bound | target)
            logarithm -= self._log_agreement(cls, bound) + self._log_agreement(cls, target)
        return logarithm

    @staticmethod
    def default(query: Query) -> Statistics:
        """What to assume of a query before any tuple was seen.

        Every stream has the same rate, and keys are such that a probe finds about one partner
        (over all the classes that two streams share, as in a composite key).
        """
        passing = [DEFAULT_SELECTION if stream.selection is not None else 1.0 for stream in query.streams]
        rates = tuple(
            STATIC_RATE if stream.is_static else DEFAULT_RATE * share
            for stream, share in zip(query.streams, passing, strict=True)
        )
        windows = tuple(_assumed_window(s, share) for s, share in zip(query.streams, passing, strict=True))
        lifetimes = [1e6 * window / rate for window, rate in zip(windows, rates, strict=True)]
        distinct = tuple(_assumed_distinct(query, cls, windows) for cls in range(len(query.classes)))
        thetas = tuple(
            selectivity.between_times(query, theta, lifetimes) or selectivity.guessed(theta) for theta in query.thetas
        )
        return Statistics(rates, windows, distinct, thetas)

    @staticmethod
    def measure(query: Query, samples: Sequence[StreamSample]) -> Statistics:
        """What a bounded look at the rows says; what they leave open is as in :meth:`default`."""
        if len(samples) != len(query.streams):
            raise PlanError(f"query '{query.name}' joins {len(query.streams)} streams, not the {len(samples)} sampled")
        moving = [s for s, stream in enumerate(query.streams) if not stream.is_static]
        moments = sampling.instants([samples[s] for s in moving])
        if not moments:
            return Statistics.default(query)
        looks = [[sampling.contents(*pair, at) for pair in zip(samples, query.streams, strict=True)] for at in moments]
        measured = dict(zip(moving, sampling.rates([samples[s] for s in moving]), strict=True))
        rates = tuple(measured.get(s, STATIC_RATE) for s in range(len(samples)))
        seen = [sum(look[s].size for look in looks) / len(looks) for s in range(len(samples))]
        windows = tuple(map(sampling.window_size, samples, query.streams, rates, seen))
        return Statistics.of_shares(
            query,
            rates,
            windows,
            [
                {
                    pair: tally.share()
                    for pair, tally in sampling.agreement(attribute.members, cls, samples, looks).items()
                }
                for cls, attribute in enumerate(query.classes)
            ],
            [_measured_theta(query, theta, samples, looks, moments) for theta in range(len(query.thetas))],
        )

    @staticmethod
    def of_shares(
        query: Query,
        rates: Sequence[float],
        windows: Sequence[float],
        agreements: Sequence[Mapping[tuple[int, int], float | None]],
        thetas: Sequence[float | None],
    ) -> Statistics:
        """What follows from shares of pairs that were seen in the windows; None: no pair was seen.

        Args:
            query: whose streams these are.
            rates: tuples per second of each stream.
            windows: how many tuples the window of each holds.
            agreements: per attribute class, how often tuples of two of its members (or two of the same) agree.
            thetas: per theta predicate, how often it holds.

        """
        sizes = tuple(min(max(size, LEAST_WINDOW), MOST_WINDOW) for size in windows)
        keys = [
            _class_of_shares(attribute.members, each, sizes)
            for attribute, each in zip(query.classes, agreements, strict=True)
        ]
        held = tuple(
            selectivity.guessed(predicate) if share is None else share
            for predicate, share in zip(query.thetas, thetas, strict=True)
        )
        return Statistics(tuple(rates), sizes, tuple(d for d, _ in keys), held, tuple(c for _, c in keys))


def exponential(logarithm: float) -> float:
    """The number of a logarithm; what no float can hold is as good as the largest."""
    return math.exp(min(logarithm, 700.0))


def _positive(what: str, values: Iterable[float]) -> None:
    for value in values:
        if not value > 0 or math.isinf(value):
            raise PlanError(f"statistics: a {what} is a positive number, not {value!r}")


def _assumed_window(stream: StreamRef, share: float) -> float:
    """The size of a window from its definition and the assumed rate."""
    window = stream.window
    if stream.is_static:
        size = STATIC_TUPLES
    elif isinstance(window, RangeWindow):
        widths = [w for w in (window.width_us, stream.retention_us) if w is not None]
        size = DEFAULT_RATE * min(widths) / 1e6 if widths else UNBOUNDED_TUPLES
    else:
        size = float(window.rows * (DEFAULT_PARTITIONS if window.partition_by else 1))
        if stream.retention_us is not None:
            size = min(size, DEFAULT_RATE * stream.retention_us / 1e6)
    return min(max(size * share, LEAST_WINDOW), MOST_WINDOW)


def _assumed_distinct(query: Query, cls: int, windows: Sequence[float]) -> dict[int, float]:
    """As many values as tuples; where classes only occur together, as a composite key, that many together."""
    members = query.classes[cls].members
    pairs = list(combinations(members, 2))
    together = min((sum(a in c.members and b in c.members for c in query.classes) for a, b in pairs), default=1)
    most = 2.0 if pa.types.is_boolean(query.classes[cls].type) else MOST_WINDOW
    return {s: min(max(windows[s] ** (1 / together), 1.0), most) for s in members}


def _class_of_shares(
    members: Iterable[int], agreements: Mapping[tuple[int, int], float | None], windows: Sequence[float]
) -> tuple[dict[int, float], dict[Node, float]]:
    """Distinct and common values of a class, from how often two tuples of its windows agree.

    A stream has as many distinct values as make two of its tuples agree as often as seen, but no more
    than make it agree with another stream as often as seen: keys that are unique within their own
    window, such as order numbers, agree with nothing there and still with one tuple of each partner.
    """
    assumed = {s: max(windows[s], 1.0) for s in members}
    shares = {pair: share for pair, share in agreements.items() if share is not None}
    distinct = {
        s: 1 / max([share for pair, share in shares.items() if s in pair] or [1 / count])
        for s, count in assumed.items()
    }
    common = {frozenset((a, b)): share * distinct[a] * distinct[b] for (a, b), share in shares.items() if a != b}
    return distinct, common


def _measured_theta(
    query: Query,
    theta: int,
    samples: Sequence[StreamSample],
    looks: Sequence[Sequence[Contents]],
    moments: Sequence[int],
) -> float | None:
    predicate = query.thetas[theta]
    sides: list[list[Floats]] = []
    for operand in (predicate.left, predicate.right):
        sample, taken = samples[operand.stream], [look[operand.stream].taken for look in looks]
        if theta in sample.operands:
            sides.append([sample.operands[theta][rows] for rows in taken])
        elif selectivity.is_time(query, operand):  # counted from the instant, so that no precision is lost
            sides.append([(sample.times[r] - at).astype(float) for r, at in zip(taken, moments, strict=True)])
    return sampling.satisfaction(predicate, *sides).share() if len(sides) == 2 else None
