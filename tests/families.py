"""Several queries over one join as plain data: what differs between them, and when they come and go.

A :class:`Family` knows nothing of thalweg, as a :class:`~tests.cases.Case` does not. Its ``repr`` is Python that builds
the same family again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from tests.cases import Case, Rows
from tests.expressions import Spec
from tests.lifetimes import tuples, windows

Sharing = Literal["auto", "memory", "cpu", "none", "pull_up"]
Change = Literal["enter", "leave"]
Entry = tuple[int, int, Change]


@dataclass(frozen=True, repr=False)
class Family(Spec):
    """Queries that run together, over the same streams.

    All settings of the run are those of the first query.

    Attributes:
        cases: the queries; they are called q0, q1, and so on.
        places: for each query and item of its FROM list, the item of the first query that it is.
        joins: a number for the join of each query: those of one number join the same on the same predicates.
        entries: (position, query, what it does there).
        sharing: the option.
        most_selections: how many selections masks tell apart; None: as many as they do in earnest.

    """

    cases: tuple[Case, ...]
    places: tuple[tuple[int, ...], ...]
    joins: tuple[int, ...]
    entries: tuple[Entry, ...] = ()
    sharing: Sharing = "auto"
    most_selections: int | None = None

    def cql(self) -> str:
        return ";\n\n".join(f"CREATE QUERY {name(q)} AS {case.cql()}" for q, case in enumerate(self.cases))

    @property
    def groups(self) -> list[list[int]]:
        """The queries that answer together. One belongs to the first group where it may share with all."""
        groups: list[list[int]] = []
        for query in range(len(self.cases)):
            for group in groups:
                if self.sharing != "none" and all(self._may_share(query, other) for other in group):
                    group.append(query)
                    break
            else:
                groups.append([query])
        return groups

    def _may_share(self, one: int, other: int) -> bool:
        if self.joins[one] != self.joins[other] or self.cases[one].minus or self.cases[other].minus:
            return False
        mine, theirs = windows(self.cases[one]), windows(self.cases[other])
        ordered = [window for window in (*mine, *theirs) if isinstance(window, Rows)]
        is_lasting = any(lasting(self.cases[query]) for query in (one, other))
        return not (ordered and is_lasting) or [w for w in mine if isinstance(w, Rows)] == [
            w for w in theirs if isinstance(w, Rows)
        ]

    @cached_property
    def total(self) -> int:
        """How many tuples come: positions count these."""
        return len(self.moments(0))

    def moments(self, query: int) -> list[int]:
        """The times of the tuples that come, in total order."""
        case = self.cases[query]
        moving = [mine for item, mine in zip(case.items, tuples(case), strict=True) if not case.source(item).static]
        return sorted(each.time for mine in moving for each in mine)

    def named_entries(self) -> Iterator[tuple[int, str, Change]]:
        for position, query, change in self.entries:
            yield position, name(query), change


def name(query: int) -> str:
    return f"q{query}"


def lasting(case: Case) -> bool:
    """Whether a query speaks of results that leave."""
    return case.output == "dstream" or case.aggregated
