"""What each query of a family emits, computed in the most obvious way: alone, but for what entries take from it.

A query that is there from the beginning to the end emits what :func:`tests.oracle.expected` says. One that comes at a
position has the results whose newest tuple comes there or later. Of the tuples from before, it sees those that a query
that was there just before could still use. Changes at one position happen together, between two tuples; those at the
end of the input, after the last tuple, change nothing. A query that goes at a position has emitted all that was to be
said of instants before the tuple that comes there, and says nothing more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.cases import Case, Rows
from tests.evaluation import holds, identity
from tests.expressions import aliases_of
from tests.families import Change, Entry, Family, lasting
from tests.lifetimes import NEVER, Tuple, time_bounds, tuples, windows, written_windows
from tests.oracle import OutputRow, Result, changes, changes_by, emitted, reader, results

Seen = list[set[int]]
"""For each place, rows."""


@dataclass(frozen=True)
class Progress:
    """In what order a group goes through its tuples, and what is known of time on the way.

    Attributes:
        steps: for each item of the group's first query, the step at which a row comes; none of static relations.
        end: the step behind the last.
        before: what time it is just before a step.
        over: all instants before this time are over just before a step.

    """

    steps: Sequence[dict[int, int]]
    end: int
    before: Callable[[int], int]
    over: Callable[[int], int]

    @staticmethod
    def in_order(case: Case) -> Progress:
        """Tuple by tuple in total order: steps are positions."""
        mine = moving(case)
        order = sorted((t.time, place, t.row) for place, rows in enumerate(mine) for t in rows)
        steps: list[dict[int, int]] = [{} for _ in mine]
        for position, (_, place, row) in enumerate(order):
            steps[place][row] = position
        times = [time for time, _, _ in order]
        return Progress(steps, len(order), lambda at: times[at - 1] if at else -NEVER, lambda at: times[at])


@dataclass
class Stay:
    """A query that is there from one step on, up to another.

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
        progress = Progress.in_order(family.cases[group[0]])
        entries = [entry for entry in family.entries if entry[1] in group]
        coming = {query for query in group if _first_change(entries, query) == "enter"}
        course = Course(family, group, progress, [query for query in group if query not in coming])
        for position in sorted({entry[0] for entry in entries if entry[0] < progress.end}):
            course.change(position, [(query, change) for at, query, change in entries if at == position])
        for stay in course.stays:
            answers[stay.query] += course.answer(stay)
    return answers


def _first_change(entries: Sequence[Entry], query: int) -> Change | None:
    mine = sorted((entry for entry in entries if entry[1] == query), key=lambda entry: entry[0])
    return mine[0][2] if mine else None


class Course:
    """How the queries of a group come and go.

    Attributes:
        stays: when each of them is there, and what it sees from before.

    """

    def __init__(self, family: Family, group: list[int], progress: Progress, first: Sequence[int]) -> None:
        self._family, self._first, self._progress = family, group[0], progress
        self._places = range(len(family.cases[group[0]].items))
        self._steps = {query: [progress.steps[self._place(query, item)] for item in self._places] for query in group}
        nothing: Seen = [set() for _ in self._places]
        self._there = [Stay(query, 0, nothing, progress.end) for query in first]
        self.stays = list(self._there)

    @property
    def there(self) -> set[int]:
        """The queries that are there now."""
        return {stay.query for stay in self._there}

    def change(self, step: int, changes: Sequence[tuple[int, str]]) -> None:
        """Queries enter and leave just before a step, all together."""
        seen = [self._usable(place, step) for place in self._places]
        there = self.there
        for query, change in changes:
            (there.add if change == "enter" else there.discard)(query)
        touched = {query for query, _ in changes}
        for stay in self._there:
            if stay.query in touched:
                stay.end = step
        new = [Stay(query, step, seen, self._progress.end) for query in sorted(there & touched)]
        self._there = [stay for stay in self._there if stay.query not in touched] + new
        self.stays += new

    def answer(self, stay: Stay) -> Counter[OutputRow]:
        """What a query emits while it is there."""
        case = self._family.cases[stay.query]
        if case.minus:
            return emitted(case, changes(case), NEVER)
        found = [result for result in results(case) if self._is_found(stay, result)]
        goes = stay.end < self._progress.end and lasting(case)
        return emitted(case, changes_by(case, found), self._progress.over(stay.end) if goes else NEVER)

    def _is_found(self, stay: Stay, result: Result) -> bool:
        """Whether a result comes while the query is there, and is made of tuples that it sees."""
        newest = -1
        for item, row in enumerate(result.rows):
            step = self._steps[stay.query][item].get(row)
            if step is None:
                continue  # of a static relation
            newest = max(newest, step)
            if step < stay.start and row not in stay.old[self._place(stay.query, item)]:
                return False
        return stay.start <= newest < stay.end

    def _place(self, query: int, item: int) -> int:
        """The item of the group's first query that an item of another one is."""
        return self._family.places[self._first].index(self._family.places[query][item])

    def _usable(self, place: int, step: int) -> set[int]:
        """The rows from before that a query which is there could still use."""
        rows: set[int] = set()
        for stay in self._there:
            rows |= self._usable_to(stay, place, step)
        return rows

    def _usable_to(self, stay: Stay, place: int, step: int) -> set[int]:
        case = self._family.cases[stay.query]
        item = next(i for i in self._places if self._place(stay.query, i) == place)
        steps = self._steps[stay.query][item]
        mine = [t for t in moving(case)[item] if steps[t.row] < step]
        visible = {t.row for t in mine if steps[t.row] >= stay.start} | stay.old[place]
        window = windows(case)[item]
        if isinstance(window, Rows):
            return visible & _last(case, item, window, [t.row for t in mine])
        now, reach = self._progress.before(step), _reach(case, item)
        return {t.row for t in mine if t.row in visible and t.time + reach > now and _passes(case, item, t.row)}


def moving(case: Case) -> list[list[Tuple]]:
    """The tuples of each item; none of static relations."""
    return [[] if case.source(item).static else mine for item, mine in zip(case.items, tuples(case), strict=True)]


def _last(case: Case, item: int, window: Rows, rows: list[int]) -> set[int]:
    """The last n of these rows in each partition."""
    source = case.source(case.items[item])
    partitions: dict[object, list[int]] = {}
    for row in rows:
        key = tuple(identity(source.rows[row][source.position(name)]) for name in window.partition_by)
        partitions.setdefault(key, []).append(row)
    return {row for mine in partitions.values() for row in mine[-window.count :]}


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
