"""What is to happen on the way through finite tables, and where: other plans, other budgets, other queries.

A position counts the tuples of a join in total order. All is checked before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

from thalweg.cql.group import Group
from thalweg.cql.query import Query
from thalweg.driver.planning import plan_for
from thalweg.errors import OptionError, PlanError, QueryError
from thalweg.options import Options
from thalweg.plan.statistics import Statistics
from thalweg.settings import Budget

Transitions = Sequence[tuple[int, str]]
"""(position, plan text): the plan from the tuple at this position of the total order on."""


Budgets = Sequence[tuple[int, int | str | None]]
"""(position, budget as of ``Options(budget=...)``): the budget from the tuple at this position on."""


Change = Literal["enter", "leave"]
Entry = tuple[int, str, Change]
Entries = Sequence[Entry]
"""(position, name of a query, what it does there): from the tuple at this position of the total order on."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """All that is to happen, each in the order of positions."""

    transitions: Transitions
    entries: Entries
    budgets: Budgets

    def begins_with(self, name: str) -> bool:
        """Whether a query is there from the beginning: unless the first that it does is to enter."""
        return next((change for _, other, change in self.entries if other == name), "leave") == "leave"

    def changes(self) -> Iterator[tuple[int, Mapping[str, Change]]]:
        """Who enters and leaves at each position."""
        for position in sorted({position for position, _, _ in self.entries}):
            yield position, {name: change for at, name, change in self.entries if at == position}

    def presence(self, name: str, total: int) -> Iterator[tuple[int, int]]:
        """From which tuple on a query was there, and up to which one, as often as it was."""
        mine = [(position, change) for position, other, change in self.entries if other == name]
        if not mine or mine[0][1] == "leave":
            mine.insert(0, (0, "enter"))
        ends = [position for position, change in mine if change == "leave"] + [total]
        yield from zip((position for position, change in mine if change == "enter"), ends, strict=False)


def checked_transitions(transitions: Transitions, query: Query, options: Options, total: int) -> list[tuple[int, str]]:
    """Transitions in order; an error if one makes no sense."""
    checked = []
    for transition in transitions:
        if not isinstance(transition, Sequence) or len(transition) != 2:
            raise PlanError(f"a transition is a pair of a position and a plan, as in (1000, 'b a'), not {transition!r}")
        position, text = transition
        if not isinstance(text, str):
            raise PlanError(f"a transition leads to the text of a plan, not to {text!r}")
        if not isinstance(position, int) or isinstance(position, bool) or position < 0:
            raise PlanError(f"a transition happens at a position counted from 0, not {position!r}")
        if position > total:
            raise PlanError(
                f"the transition to '{text}' at position {position} is past the end: the input has {total} tuples"
            )
        plan_for(query, Statistics.default(query), text, options.states)
        checked.append((position, text))
    return sorted(checked, key=lambda pair: pair[0])


def checked_budgets(budgets: Budgets, total: int) -> list[tuple[int, int | str | None]]:
    """Changes of budget in order; an error if one makes no sense."""
    checked = []
    for change in budgets:
        if not isinstance(change, Sequence) or isinstance(change, str) or len(change) != 2:
            raise OptionError(f"a change of budget is a position and a budget, as in (1000, '60%'), not {change!r}")
        position, budget = change
        Budget.of(budget)
        if not isinstance(position, int) or isinstance(position, bool) or not 0 <= position <= total:
            raise OptionError(
                f"the budget is to change to {budget!r} at position {position!r}. "
                f"Positions count the {total} tuples of the input from 0."
            )
        checked.append((position, budget))
    return sorted(checked, key=lambda pair: pair[0])


def checked_entries(entries: Entries, group: Group, total: int) -> list[tuple[int, str, Change]]:
    """Entries in order; an error if one makes no sense."""
    checked: list[tuple[int, str, Change]] = []
    names = {reader.name.lower(): reader.name for reader in group.readers}
    for entry in entries:
        position, name, change = entry
        if not isinstance(position, int) or isinstance(position, bool) or not 0 <= position <= total:
            raise QueryError(
                f"query '{name}' is to {change} at position {position!r}",
                None,
                f"Positions count the {total} tuples of its streams from 0.",
            )
        if change not in get_args(Change):
            raise QueryError(f"query '{name}' can 'enter' or 'leave', not {change!r}", None, "")
        checked.append((position, names[name.lower()], change))
    checked.sort(key=lambda entry: entry[0])
    for name in names.values():
        mine = [change for _, other, change in checked if other == name]
        for one, other in pairwise(mine):
            if one == other:
                raise QueryError(f"query '{name}' is to {one} twice in a row", None, "")
    if checked and group.join.kind == "difference":
        what = f"query '{checked[0][1]}' is a set difference, which is there from the beginning to the end"
        raise QueryError(what, None, "Leave it out of entries.")
    return checked
