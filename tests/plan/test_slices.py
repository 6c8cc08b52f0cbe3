"""How a group's windows are divided: who selects alike, the bits of masks, chains of slices (State-Slice 4 to 6)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest

from thalweg.cql import Source, bind
from thalweg.cql.group import Group, grouped
from thalweg.plan.cost import DEFAULT_COSTS, Costs
from thalweg.plan.slices import FOUND, Span, cheapest_chain, longest, share, signatures
from thalweg.settings import Sharing

SECOND = 1_000_000
SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64()), ("v", pa.int64())])
JOIN = "SELECT A.v FROM A [RANGE {}], B [RANGE {} SECONDS] WHERE A.k = B.k"
CATALOG = {name: Source(SCHEMA, "ts") for name in "AB"}


def group(*members: tuple[float | None, float, str]) -> Group:
    """Queries over A and B with these windows in seconds, and selections."""
    texts = []
    for n, (a, b, selection) in enumerate(members):
        wide = "UNBOUNDED" if a is None else f"{a} SECONDS"
        texts.append(f"CREATE QUERY q{n} AS {JOIN.format(wide, b)} {selection}")
    (found,) = grouped(bind(";".join(texts), CATALOG))
    return found


class TestSignatures:
    def test_those_with_the_longest_windows_come_first(self) -> None:
        found = signatures(group((1, 1, "AND A.v = 1"), (9, 9, ""), (2, 3, "AND A.v = 1"), (3, 1, "AND B.v = 1")))
        assert [each.readers for each in found] == [(1,), (3,), (0, 2)]
        assert [each.reach for each in found] == [
            (9 * SECOND, 9 * SECOND),
            (3 * SECOND, SECOND),
            (2 * SECOND, 3 * SECOND),
        ]

    def test_a_condition_that_never_holds_selects_on_every_stream(self) -> None:
        never, always = signatures(group((5, 5, "AND 1 = 0"), (1, 1, "")))
        assert None not in never.selections
        assert always.selections == (None, None)

    def test_readers_with_the_same_everything_are_one(self) -> None:
        shared = share(group((5, 5, "AND A.v > 1"), (5, 5, "AND A.v > 1"), (5, 5, "AND A.v > 1")))
        assert [each.readers for each in shared.signatures] == [(0, 1, 2)]
        assert shared.slicing.selections == 1
        assert not shared.slicing.is_aged
        assert share(group((5, 5, "AND A.v > 1"), (6, 5, "AND A.v > 1"))).slicing.is_aged


class TestBits:
    MEMBERS = tuple((9 - n, 1, f"AND A.v = {n}") for n in range(6))

    def test_each_selection_has_one(self) -> None:
        shared = share(group(*self.MEMBERS))
        assert shared.bits == (0, 1, 2, 3, 4, 5)
        assert all(shared.is_exact(place) for place in range(6))

    @pytest.mark.parametrize(
        ("most", "bits"), [(1, (0,) * 6), (2, (0, 0, 0, 1, 1, 1)), (4, (0, 0, 1, 2, 2, 3)), (6, tuple(range(6)))]
    )
    def test_too_many_share_them(self, monkeypatch: pytest.MonkeyPatch, most: int, bits: tuple[int, ...]) -> None:
        monkeypatch.setattr("thalweg.plan.slices.MOST_SELECTIONS", most)
        shared = share(group(*self.MEMBERS))
        assert shared.bits == bits
        assert [shared.is_exact(place) for place in range(6)] == [bits.count(bit) == 1 for bit in bits]
        assert shared.slicing.selections == len(set(bits))
        # A bit keeps a tuple as long as the longest of those that share it.
        longest = [max(9 - n for n in range(6) if bits[n] == bit) * SECOND for bit in sorted(set(bits))]
        assert list(shared.slicing.reach[0]) == longest

    def test_a_tuple_has_the_bits_of_what_it_passes(self) -> None:
        shared = share(group((1, 1, "AND A.v = 1"), (2, 1, "AND A.v = 1 AND B.v = 1"), (3, 1, "")))
        a = {None if selection is None else selection.sql(): bits for selection, bits in shared.selections(0)}
        assert sorted(a.values()) == [0b001, 0b110]
        assert a[None] == 0b001
        b = dict(shared.selections(1))
        assert b[None] == 0b101

    def test_with_selections_pulled_up_all_tuples_have_the_last(self) -> None:
        shared = share(group(*self.MEMBERS), "pull_up")
        assert shared.is_pulled_up
        assert shared.slicing.selections == 7
        assert dict(shared.selections(0))[None] == 1 << 6
        assert shared.slicing.reach[0][-1] == 9 * SECOND
        assert shared.slicing.ends[0] == (9 * SECOND,)
        assert not share(group((1, 1, ""), (2, 2, "")), "pull_up").is_pulled_up


class TestChains:
    MEMBERS = ((1, 4, "AND A.v = 1"), (5, 4, "AND A.v = 2"), (None, 4, "AND A.v = 3"), (2, 4, "AND A.v = 1"))

    def test_for_memory_there_is_a_slice_per_lineage(self) -> None:
        slicing = share(group(*self.MEMBERS), "memory").slicing
        assert slicing.ends == ((2 * SECOND, 5 * SECOND, None), (4 * SECOND,))

    @pytest.mark.parametrize("sharing", ["auto", "memory", "cpu", "pull_up"])
    def test_a_tuple_is_kept_as_long_as_its_lineage(self, sharing: Sharing) -> None:
        shared = share(group(*self.MEMBERS), sharing)
        for stream in range(2):
            ends, masks = shared.slicing.ends[stream], shared.slice_masks(stream)
            assert ends[-1] == longest(shared.slicing.reach[stream])
            for bit, reach in enumerate(shared.slicing.reach[stream]):
                (place,) = [n for n, mask in enumerate(masks) if mask >> bit & 1]
                assert length(ends[place]) >= length(reach)
                assert all(length(end) < length(reach) for end in ends[:place])

    @pytest.mark.parametrize("seed", range(60))
    def test_the_cheapest_is_that_of_all(self, seed: int) -> None:
        rng = random.Random(seed)
        count, is_keyed = rng.randint(1, 7), rng.random() < 0.5
        spans: list[Span] = sorted(rng.sample(range(1, 200), count))
        if rng.random() < 0.2:
            spans[-1] = None
        weights = [rng.random() ** 3 for _ in spans]
        shares = [weight / sum(weights) for weight in weights]
        costs = Costs(probe_slice=rng.choice([1, 5, 20]), candidate=rng.choice([1, 10, 40]), scan=rng.choice([0.1, 1]))
        chosen = cheapest_chain(spans, shares, is_keyed=is_keyed, costs=costs)
        prices = {chain: price(chain, spans, shares, costs, is_keyed=is_keyed) for chain in merges(spans)}
        assert chosen in prices
        assert prices[chosen] == pytest.approx(min(prices.values()))

    def test_what_looks_cost_decides(self) -> None:
        spans, shares = [10, 20, 1000], [1 / 3] * 3
        assert cheapest_chain(spans, shares, is_keyed=True, costs=Costs(probe_slice=0)) == (10, 20, 1000)
        assert cheapest_chain(spans, shares, is_keyed=True, costs=Costs(probe_slice=1e6)) == (1000,)
        assert cheapest_chain(spans, shares, is_keyed=True, costs=DEFAULT_COSTS) == (20, 1000)


def length(span: Span) -> float:
    return 2.0**62 if span is None else span


def merges(spans: Sequence[Span]) -> Iterator[tuple[Span, ...]]:
    """All chains: any of the ends but the last may be left out."""
    for kept in range(1 << (len(spans) - 1)):
        yield (*(span for n, span in enumerate(spans[:-1]) if kept >> n & 1), spans[-1])


def price(
    chain: Sequence[Span], spans: Sequence[Span], shares: Sequence[float], costs: Costs, *, is_keyed: bool
) -> float:
    """What a probe of it costs: a look per slice, and the candidates that are there in vain."""
    useful = sum(part * length(span) for part, span in zip(shares, spans, strict=True))
    useless = 0.0
    for part, span in zip(shares, spans, strict=True):
        end = next(end for end in chain if length(end) >= length(span))
        useless += part * (length(end) - length(span))
    look = costs.probe_slice if is_keyed else costs.probe / 1000
    compare = FOUND * costs.candidate if is_keyed else costs.scan * 1000
    return len(chain) * look + compare * useless / useful
