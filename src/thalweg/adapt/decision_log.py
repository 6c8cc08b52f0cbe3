"""The decisions about a bucket's plan, each with what has come of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from thalweg.adapt.comparison import Alternative, View
from thalweg.adapt.decision import Action, Decision, plan_label
from thalweg.plan.tree import Plan

_LOG = 1_000
"""Decisions that are kept."""
_LOG_REMEMBERED = 16
"""Of these, how many outlive the process."""


class DecisionLog:
    """The last decisions, in order; ``aliases`` are the streams' names in plans."""

    def __init__(self, aliases: Sequence[str], decisions: Iterable[Decision] = ()) -> None:
        self._aliases = aliases
        self.decisions = list(decisions)

    def add(
        self,
        position: int,
        action: Action,
        reason: str,
        plan: Plan,
        to: Plan | None,
        view: View | None = None,
        other: Alternative | None = None,
    ) -> None:
        """Write down a decision about ``plan``, after so many tuples."""
        self.decisions.append(
            Decision(
                position=position,
                action=action,
                reason=reason,
                plan=plan_label(plan, self._aliases),
                to=None if to is None else plan_label(to, self._aliases),
                predicted_before=None if view is None else view.predicted,
                predicted_after=None if other is None else other.cost,
                price=None if other is None else other.price,
                observed_before=None if view is None else view.recent,
            )
        )
        del self.decisions[:-_LOG]

    def note_outcome(self, observed: float) -> None:
        """Write down what the last change has led to."""
        for place in reversed(range(len(self.decisions))):
            if self.decisions[place].action == "change":
                self.decisions[place] = replace(self.decisions[place], observed_after=observed)
                return

    def note_what_followed(self, observed: float) -> None:
        """Write down what it cost to stay, if that was the last decision."""
        last = self.decisions[-1] if self.decisions else None
        if last is not None and last.action != "change" and last.observed_after is None:
            self.decisions[-1] = replace(last, observed_after=observed)

    def to_json(self) -> list[dict[str, Any]]:
        """Those that outlive the process: what a change has led to is known only later."""
        return [decision.to_json() for decision in self.decisions[-_LOG_REMEMBERED:]]
