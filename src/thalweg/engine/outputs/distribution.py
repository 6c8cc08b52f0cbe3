"""The results of a join on their way to its readers.

What the readers have in common is done once: the verdict, which decides the keys that kernels know by a hash alone.
Then each result goes to the readers that it belongs to, and each of them has an end of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from thalweg.cql.group import Group
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.outputs.ages import Ages, Times
from thalweg.engine.outputs.asked_again import AskedAgain
from thalweg.engine.outputs.estimates import AnswerEstimate, added
from thalweg.engine.outputs.readers import Emitted, Part, ReaderEnd, Routing
from thalweg.engine.outputs.results import Verdict, true_keys
from thalweg.engine.rows.expressions import Expressions
from thalweg.engine.rows.payload import Rows
from thalweg.errors import ReaderError
from thalweg.plan.slices import Shared


class Distribution:
    """Gives the readers of one group their results.

    Args:
        group: the join and its readers.
        shared: how these share the windows.
        expressions: computes predicates and columns.
        payloads: the columns of each stream.
        is_scored: whether there is a budget, and results have scores.
        former: what gave the readers before theirs, if there were any. Who stays goes on where it was.
        anew: readers that begin without results, although there was one of that name before.

    """

    __image__: ClassVar = ("_ends", "_former", "_earlier")

    def __init__(
        self,
        group: Group,
        shared: Shared,
        expressions: Expressions,
        payloads: Sequence[Rows],
        *,
        is_scored: bool = False,
        former: Distribution | None = None,
        anew: Collection[str] = (),
    ) -> None:
        whole = group.whole
        self._shared, self._payloads, self._is_scored = shared, payloads, is_scored
        self._streams = len(whole.streams)
        self._verdict = Verdict(whole, expressions, true_keys(whole))
        asks_again = {
            reader
            for place, signature in enumerate(shared.signatures)
            if not shared.is_exact(place)
            for reader in signature.readers
        }
        self._again = AskedAgain(group, asks_again, expressions, payloads)
        self._routing = Routing(group, shared)
        self._ages = Ages(group, payloads)
        self._lasting = {place for place, reader in enumerate(group.readers) if reader.is_lasting}
        ends: list[ReaderEnd] = [] if former is None else former._ends
        known = {end.name: end for end in ends if end.name not in anew}
        self._ends: list[ReaderEnd] = [
            known.get(query.name) or ReaderEnd(query, expressions, payloads, is_scored=is_scored)
            for query in group.queries
        ]
        staying = {end.name for end in self._ends if end in ends}
        leaving = {end.name: end.estimate for end in ends if end.name not in staying}
        self._former: dict[str, AnswerEstimate] = {} if former is None else added(former._former, leaving)
        self._earlier = 0 if former is None else former.comparisons

    def route(self, block: Int64s) -> Iterator[Part]:
        """Whose the results of a block are, each part to be given before the next one."""
        kept = self._verdict.keep(self._payloads, block)
        self._again.begin(kept[:, 2 : 2 + self._streams])
        yield from self._routing.route(kept)

    def give(self, part: Part) -> Iterator[Emitted]:
        """What its readers emit at once."""
        results = part.results()
        if self._is_scored:
            results = np.concatenate([results, part.scores()], axis=1)
        for place in part.readers:
            if self._ends[place].is_muted:
                continue
            is_lasting = place in self._lasting and self._shared.slicing.is_aged
            mine = part.lasting(results, self._routing.ranged) if is_lasting else results
            if place in self._again.readers:
                mine = mine[self._again.passes(place, part.places())]
            self._ages.note(place, mine)
            yield from self._ends[place].add(mine)

    def settle(self, watermark: int, deaths: Int64s) -> Iterator[Emitted]:
        """Time has passed ``watermark``, and these tuples left ROWS windows; yields what follows.

        If something cannot be computed for results of some readers, all others have what is theirs before that is
        raised.
        """
        for end in self._ends:
            yield from end.settle(watermark, deaths)
        if reasons := {end.name: end.failure for end in self._ends if end.failure is not None}:
            raise ReaderError(reasons)

    def only(self, wanted: Mapping[str, Int64s] | None) -> None:
        """Rows come again: these readers get results, each those that have a row of at least such a number.

        Numbers are by stream. None: all get all of their results again.
        """
        for end in self._ends:
            end.is_muted = wanted is not None and end.name not in wanted
            end.first = None if wanted is None else wanted.get(end.name)

    # -- What it tells ------------------------------------------------------------------

    def rows(self, stream: int) -> list[Int64s]:
        """The numbers of the rows of a stream that some reader still needs."""
        return [end.rows(stream) for end in self._ends]

    def take_ages(self) -> Times:
        """Event times of what the results since this was last asked are made of, by reader and stream."""
        return self._ages.take()

    @property
    def results(self) -> dict[str, int]:
        """How many rows each reader has got."""
        return {end.name: end.results for end in self._ends}

    @property
    def estimates(self) -> dict[str, AnswerEstimate]:
        """Under a budget, how much of its answer each reader has got, also of those that have left."""
        return added(self._former, {end.name: end.estimate for end in self._ends})

    def estimate_anew(self) -> None:
        """Forget these."""
        self._former = {}
        for end in self._ends:
            end.estimate = None if end.estimate is None else AnswerEstimate()

    @property
    def comparisons(self) -> int:
        """How many ages and selections were compared to tell results to readers, also to those before."""
        return self._earlier + self._routing.comparisons
