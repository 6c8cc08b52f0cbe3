"""How the windows of a group of readers are divided, so that one join serves all of them (State-Slice 4 to 6).

Readers of one join differ in their windows and in their selections. A tuple is of use for as long as the longest
window among the readers whose selections it passes: its *lineage*. The window of a stream is a chain of *slices*, one
ring of tuples for each length of time that tuples are of use. A tuple is put into the slice that ends where its lineage
does, or into the next longer one, and stays there until it is over. So no tuple ever moves, none stays longer than its
slice says, and all slices together hold no more than one join with the longest windows would hold.

(In the paper a tuple moves down the chain as it grows older, so that each slice holds tuples of some ages. Here it
holds those of one lineage. Both hold the same tuples, and compare a new tuple with the same ones. But a tuple that
moves costs a purge and an insertion per slice, and loses its place in hash chains and in the entries of states.)

A probe looks into each slice of a window. If keys look partners up, that is one look per slice. So it can pay to merge
neighbours: then the tuples of the shorter one stay as long as those of the longer one. The chain that costs least is a
shortest path (State-Slice 5.2): a node per end, an edge per merged slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import exp

from thalweg.cql.group import Group
from thalweg.cql.query import Reader, RowsWindow, View
from thalweg.plan.cost import DEFAULT_COSTS, Costs
from thalweg.settings import Sharing

Span = int | None
"""A length of time in microseconds; None: for ever."""

MOST_SELECTIONS = 62
"""How many selections the bits of a mask tell apart; one more bit is for a strategy that tells none apart."""


@dataclass(frozen=True, slots=True)
class Slicing:
    """What a join has to know of its readers.

    Attributes:
        selections: how many bits the masks of tuples have.
        ends: for each stream the ends of its slices, rising: for how long a tuple of a slice is kept (None, of the last
            one: for ever). ROWS windows are one slice.
        reach: for each stream and bit, for how long a tuple that passes is of use to those who ask for that selection.
        is_aged: whether results carry their masks and the ages of their components.

    """

    selections: int
    ends: tuple[tuple[Span, ...], ...]
    reach: tuple[tuple[Span, ...], ...]
    is_aged: bool


@dataclass(frozen=True, slots=True)
class Signature:
    """The readers that select alike.

    Attributes:
        selections: for each stream, what they select by; None: they take all.
        reach: for each stream, the longest of their windows.
        readers: their places in the group.

    """

    selections: tuple[exp.Expression | None, ...]
    reach: tuple[Span, ...]
    readers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shared:
    """How a group shares one join.

    Attributes:
        slicing: what the join has to know of it.
        signatures: the readers that select alike, those with the longest windows first.
        bits: for each signature, its bit in the masks of tuples. Beyond as many as masks have, several share one.
        is_pulled_up: whether selections decide nothing before the end. Then all tuples have one more bit, the last.

    """

    slicing: Slicing
    signatures: tuple[Signature, ...]
    bits: tuple[int, ...]
    is_pulled_up: bool = False

    def is_exact(self, signature: int) -> bool:
        """Whether the bit of a signature is its own, so that the mask of a result says whether it passes."""
        return self.bits.count(self.bits[signature]) == 1

    def selections(self, stream: int) -> list[tuple[exp.Expression | None, int]]:
        """The different selections of a stream, each with the bits of a tuple that passes it."""
        bits: dict[exp.Expression | None, int] = {}
        if self.is_pulled_up:
            bits[None] = 1 << (self.slicing.selections - 1)
        for signature, bit in zip(self.signatures, self.bits, strict=True):
            selection = signature.selections[stream]
            bits[selection] = bits.get(selection, 0) | 1 << bit
        return list(bits.items())

    def lineages(self, stream: int) -> tuple[Span, ...]:
        """The different lengths of time for which tuples of a stream can be of use, rising."""
        reach = self.slicing.reach[stream]
        pairs = zip(self.signatures, self.bits, strict=True)
        return lineages([(signature.selections[stream], reach[bit]) for signature, bit in pairs])

    def slice_masks(self, stream: int) -> list[int]:
        """For each slice of a stream, the bits that keep a tuple until its end."""
        ends, reach = self.slicing.ends[stream], self.slicing.reach[stream]
        masks = [0] * len(ends)
        for bit, span in enumerate(reach):
            masks[_slice_of(span, ends)] |= 1 << bit
        return masks


def signatures(group: Group) -> tuple[Signature, ...]:
    """The different selections of a group's readers, those with the longest windows first."""
    alike: dict[tuple[exp.Expression | None, ...], list[int]] = {}
    for place, reader in enumerate(group.readers):
        alike.setdefault(tuple(view.selection for view in reader.views), []).append(place)
    found = []
    for selections, places in alike.items():
        reach = tuple(
            longest([kept(group.readers[place].views[stream]) for place in places])
            for stream in range(len(group.join.streams))
        )
        found.append(Signature(selections, reach, tuple(places)))
    return tuple(sorted(found, key=lambda each: [-_length(span) for span in each.reach]))


def kept(view: View) -> Span:
    """For how long a tuple that a reader selects is of use to it; what counts rows is kept by another measure."""
    return None if isinstance(view.window, RowsWindow) else view.retention_us


def limits(reader: Reader) -> tuple[Span, ...]:
    """Per stream, the age at which a tuple has left the reader's window: in microseconds, or rows if that counts."""
    return tuple(
        view.window.rows if isinstance(view.window, RowsWindow) else view.retention_us for view in reader.views
    )


def share(
    group: Group,
    strategy: Sharing = "auto",
    held: Sequence[Sequence[float]] | None = None,
    is_keyed: bool = True,
    costs: Costs = DEFAULT_COSTS,
) -> Shared:
    """How the readers of a group share their join.

    Args:
        group: the join and its readers.
        strategy: how the chain of slices is built; see :class:`thalweg.Options`.
        held: for each stream, which share of its new tuples has each of its :func:`lineages`; None: each has as many.
        is_keyed: whether probes look partners up by a key; else they compare with all.
        costs: of looks and candidates.

    """
    alike = signatures(group)
    bits = tuple(min(place * MOST_SELECTIONS // max(MOST_SELECTIONS, len(alike)), place) for place in range(len(alike)))
    count = bits[-1] + 1
    streams = range(len(group.join.streams))
    reach = tuple(
        tuple(longest([each.reach[s] for each, b in zip(alike, bits, strict=True) if b == bit]) for bit in range(count))
        for s in streams
    )
    ends = []
    for stream in streams:
        spans = lineages([(e.selections[stream], reach[stream][bit]) for e, bit in zip(alike, bits, strict=True)])
        if strategy in ("pull_up", "push_down") or len(spans) == 1:
            chosen: tuple[Span, ...] = spans[-1:]
        elif strategy == "memory":
            chosen = spans
        else:
            shares = held[stream] if held is not None else [1 / len(spans)] * len(spans)
            chosen = cheapest_chain(spans, shares, is_keyed=is_keyed, costs=costs)
        ends.append(chosen)
    differ = len({(place, limits(group.readers[r])) for place, each in enumerate(alike) for r in each.readers}) > 1
    is_pulled_up = strategy == "pull_up" and len(alike) > 1
    if is_pulled_up:
        reach = tuple((*each, longest(each)) for each in reach)  # of the bit that all tuples have
    return Shared(Slicing(count + is_pulled_up, tuple(ends), reach, differ), alike, bits, is_pulled_up)


def lineages(wanted: Sequence[tuple[exp.Expression | None, Span]]) -> tuple[Span, ...]:
    """The different lengths of time for which tuples of a stream can be of use, rising.

    ``wanted``: what is selected (None: all), and for how long that is of use. A selection may stand there several
    times: what passes is of use for the longest. No tuple is of use for less than all of them are.

    >>> lineages([(None, 5), (None, 60)]), lineages([(None, 5), (exp.column("x"), 60), (exp.column("y"), 1)])
    ((60,), (5, 60))
    """
    by_selection: dict[exp.Expression | None, list[Span]] = {}
    for selection, span in wanted:
        by_selection.setdefault(selection, []).append(span)
    spans = {selection: longest(each) for selection, each in by_selection.items()}
    least = _length(spans[None]) if None in spans else 0.0
    return tuple(sorted({span for span in spans.values() if _length(span) >= least}, key=_length))


def cheapest_chain(
    spans: Sequence[Span], shares: Sequence[float], *, is_keyed: bool, costs: Costs = DEFAULT_COSTS
) -> tuple[Span, ...]:
    """The ends of the slices that cost a probe least (State-Slice 5.2 and 6.2).

    A slice costs a look. A merged one holds the tuples of its shorter lineages longer than they are of use, and some of
    them are compared in vain: all, or of those that keys look up, the share that a look finds.

    >>> cheapest_chain([1_000_000, 60_000_000], [0.5, 0.5], is_keyed=False)
    (1000000, 60000000)
    >>> cheapest_chain([59_000_000, 60_000_000], [0.5, 0.5], is_keyed=True)
    (60000000,)
    """
    best, before = [0.0], [0]
    for end in range(1, len(spans) + 1):
        ways = ((best[start] + _edge(start, end, spans, shares, is_keyed, costs), start) for start in range(end))
        cost, start = min(ways)
        best.append(cost)
        before.append(start)
    ends = [len(spans)]
    while ends[-1]:
        ends.append(before[ends[-1]])
    return tuple(spans[end - 1] for end in reversed(ends[:-1]))


def chain_cost(
    ends: Sequence[Span],
    spans: Sequence[Span],
    shares: Sequence[float],
    *,
    is_keyed: bool,
    costs: Costs = DEFAULT_COSTS,
) -> float:
    """What a probe costs that goes through these slices, if tuples have these lineages.

    >>> spans, shares = [1_000_000, 60_000_000], [0.5, 0.5]
    >>> merged, apart = (chain_cost(ends, spans, shares, is_keyed=False) for ends in (spans[1:], spans))
    >>> merged > apart
    True
    """
    places = [0, *(spans.index(end) + 1 for end in ends)]
    looks = sum(_edge(*pair, spans, shares, is_keyed, costs) for pair in pairwise(places))
    return looks + (costs.candidate * FOUND if is_keyed else costs.scan * _SCANNED)


def _edge(start: int, end: int, spans: Sequence[Span], shares: Sequence[float], is_keyed: bool, costs: Costs) -> float:
    """What a merged slice costs a probe: a look, and the candidates that are there longer than they are of use."""
    whole = sum(part * _length(span) for part, span in zip(shares, spans, strict=True))
    longer = sum(shares[i] * (_length(spans[end - 1]) - _length(spans[i])) for i in range(start, end))
    look = costs.probe_slice if is_keyed else costs.probe / _SCANNED
    compare = costs.candidate * FOUND if is_keyed else costs.scan * _SCANNED
    return look + compare * longer / max(whole, 1e-9)


_FOREVER = 2.0**62
"""Microseconds that stand for an unbounded window where lengths are compared."""
FOUND = 8
"""Candidates that a probe finds by a key, about: nothing is known of the streams when slices are cut. If there are
fewer, slices cost some per cent too much. If there are many more, merging too much would cost as much as the join."""
_SCANNED = 1_000
"""Tuples that a nested loop goes through, about, against which the look into one more slice is nothing."""


def longest(spans: Sequence[Span]) -> Span:
    """The greatest of some lengths of time."""
    return None if None in spans else max(span for span in spans if span is not None)


def _length(span: Span) -> float:
    return _FOREVER if span is None else float(span)


def _slice_of(span: Span, ends: Sequence[Span]) -> int:
    """The first slice that ends no sooner."""
    return next(place for place, end in enumerate(ends) if _length(end) >= _length(span))


def chain_text(ends: Sequence[Span]) -> str:
    """A chain for people.

    >>> chain_text([1, 1_000_000, 60_000_000, None])
    'now | 1 s | 60 s | for ever'
    """
    return " | ".join("for ever" if end is None else "now" if end == 1 else f"{end / 1e6:g} s" for end in ends)


def cost_shares(group: Group) -> dict[str, float]:
    """Which part of the cost of a shared join each reader causes, by its windows.

    Tuples up to the shortest window serve everybody, those beyond it all but one, and so on. What serves several is
    divided evenly among them: so a reader never pays more than it would alone.

    >>> from thalweg.cql import Source, bind
    >>> from thalweg.cql.group import grouped
    >>> import pyarrow as pa
    >>> schema = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64())])
    >>> text = "CREATE QUERY {} AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW RANGE {} SECONDS"
    >>> texts = [text.format("short", 1), text.format("long", 4)]
    >>> cost_shares(grouped(bind("; ".join(texts), dict.fromkeys("AB", Source(schema, "ts"))))[0])
    {'short': 0.125, 'long': 0.875}
    """
    shares = dict.fromkeys((reader.name for reader in group.readers), 0.0)
    for stream in range(len(group.join.streams)):
        lengths = {reader.name: _length(limits(reader)[stream]) for reader in group.readers}
        longest_one, start = max(lengths.values()), 0.0
        for end in sorted(set(lengths.values())):
            served = [name for name, length in lengths.items() if length >= end]
            for name in served:
                shares[name] += (end - start) / longest_one / len(served) / len(group.join.streams)
            start = end
    return shares
