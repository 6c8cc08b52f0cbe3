"""What each query of a family emits, computed in the most obvious way: alone, but for what entries take from it.

A query that is there from the beginning to the end emits what :func:`tests.oracle.expected` says. One that comes at a
position has the results whose newest tuple comes there or later. Of the tuples from before, it sees those that a query
that was there just before could still use. Changes at one position happen together, between two tuples; those at the
end of the input, after the last tuple, change nothing. A query that goes at a position has emitted all that was to be
said of instants before the tuple that comes there, and says nothing more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tests.cases import Case, Rows
from tests.evaluation import holds, identity
from tests.expressions import aliases_of
from tests.families import Family, lasting
from tests.lifetimes import NEVER, Tuple, time_bounds, tuples, windows, written_windows
from tests.oracle import OutputRow, Result, changes, changes_by, emitted, reader, results

Seen = list[set[int]]
"""For each place, rows."""


@dataclass
class Stay:
    """A query that is there from one position on, up to another.

    ``old``: the rows from before that it sees.
    """

    query: int
    start: int
    old: Seen
    end: int


def expected(family: Family) -> list[Counter[OutputRow]]:
    """The rows that each query emits."""
    answers: list[Counter[OutputRow]] = [Counter() for _ in family.cases]
    for group in family.groups:
        course = Course(family, group)
        for stay in course.stays:
            answers[stay.query] += course.answer(stay)
    return answers


class Course:
    """How the queries of a group come and go.

    Attributes:
        stays: when each of them is there, and what it sees from before.

    """

    def __init__(self, family: Family, group: list[int]) -> None:
        self._family, self._first = family, group[0]
        self._moments = family.moments(group[0])
        self._places = range(len(family.cases[group[0]].items))
        self._positions = {query: self._positions_of(query) for query in group}
        entries = sorted((entry for entry in family.entries if entry[1] in group), key=lambda entry: entry[0])
        comes_later = {query: change == "enter" for _, query, change in reversed(entries)}
        nothing: Seen = [set() for _ in self._places]
        end = len(self._moments)
        self._there = [Stay(query, 0, nothing, end) for query in group if not comes_later.get(query)]
        self.stays = list(self._there)
        for position in sorted({entry[0] for entry in entries if entry[0] < end}):
            self._change(position, [(query, change) for at, query, change in entries if at == position])

    def answer(self, stay: Stay) -> Counter[OutputRow]:
        """What a query emits while it is there."""
        case = self._family.cases[stay.query]
        if case.minus:
            return emitted(case, changes(case), NEVER)
        found = [result for result in results(case) if self._is_found(stay, result)]
        goes = stay.end < len(self._moments) and lasting(case)
        return emitted(case, changes_by(case, found), self._moments[stay.end] if goes else NEVER)

    def _is_found(self, stay: Stay, result: Result) -> bool:
        """Whether a result comes while the query is there, and is made of tuples that it sees."""
        newest = -1
        for item, row in enumerate(result.rows):
            position = self._positions[stay.query][item].get(row)
            if position is None:
                continue  # of a static relation
            newest = max(newest, position)
            if position < stay.start and row not in stay.old[self._place(stay.query, item)]:
                return False
        return stay.start <= newest < stay.end

    def _place(self, query: int, item: int) -> int:
        """The item of the group's first query that an item of another one is."""
        return self._family.places[self._first].index(self._family.places[query][item])

    def _positions_of(self, query: int) -> list[dict[int, int]]:
        """For each item of a query, the positions of its rows, as the group counts."""
        mine = _moving(self._family.cases[self._first])
        order = sorted((t.time, place, t.row) for place, rows in enumerate(mine) for t in rows)
        of_place: list[dict[int, int]] = [{} for _ in mine]
        for position, (_, place, row) in enumerate(order):
            of_place[place][row] = position
        return [of_place[self._place(query, item)] for item in self._places]

    def _change(self, position: int, entries: list[tuple[int, str]]) -> None:
        seen = [self._usable(place, position) for place in self._places]
        there = {stay.query for stay in self._there}
        for query, change in entries:
            (there.add if change == "enter" else there.discard)(query)
        touched = {query for query, _ in entries}
        for stay in self._there:
            if stay.query in touched:
                stay.end = position
        new = [Stay(query, position, seen, len(self._moments)) for query in sorted(there & touched)]
        self._there = [stay for stay in self._there if stay.query not in touched] + new
        self.stays += new

    def _usable(self, place: int, position: int) -> set[int]:
        """The rows from before that a query which is there could still use."""
        rows: set[int] = set()
        for stay in self._there:
            rows |= self._usable_to(stay, place, position)
        return rows

    def _usable_to(self, stay: Stay, place: int, position: int) -> set[int]:
        case = self._family.cases[stay.query]
        item = next(i for i in self._places if self._place(stay.query, i) == place)
        positions = self._positions[stay.query][item]
        visible = {row for row, at in positions.items() if stay.start <= at < position} | stay.old[place]
        window = windows(case)[item]
        if isinstance(window, Rows):
            return visible & _last(case, item, window, positions, position)
        now, reach = self._moments[position - 1] if position else -NEVER, _reach(case, item)
        return {
            t.row
            for t in _moving(case)[item]
            if t.row in visible and t.time + reach > now and _passes(case, item, t.row)
        }


def _moving(case: Case) -> list[list[Tuple]]:
    """The tuples of each item; none of static relations."""
    return [[] if case.source(item).static else mine for item, mine in zip(case.items, tuples(case), strict=True)]


def _last(case: Case, item: int, window: Rows, positions: dict[int, int], position: int) -> set[int]:
    """The last n rows of each partition before a position."""
    source = case.source(case.items[item])
    partitions: dict[object, list[int]] = {}
    for row in sorted((row for row, at in positions.items() if at < position), key=lambda row: positions[row]):
        key = tuple(identity(source.rows[row][source.position(name)]) for name in window.partition_by)
        partitions.setdefault(key, []).append(row)
    return {row for rows in partitions.values() for row in rows[-window.count :]}


def _reach(case: Case, item: int) -> int:
    """For how long a tuple of a RANGE window is of use."""
    if lasting(case):
        width = windows(case)[item]
        assert not isinstance(width, Rows)
        return NEVER if width is None else width
    bound = time_bounds(case, written_windows(case))
    latest = max(bound[case.items[item].alias, other.alias] for other in case.items)
    return NEVER if latest >= NEVER else max(0, latest) + 1


def _passes(case: Case, item: int, row: int) -> bool:
    alias = case.items[item].alias
    env = reader(case, [case.items[item]])([row])
    return all(holds(pred, env) for pred in case.where if aliases_of(pred) <= {alias})
