"""What is remembered of a decision about the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from thalweg.plan.difference import AnyPlan, format_any
from thalweg.plan.tree import TreePlan, format_node

Action = Literal["change", "wait", "stay"]


@dataclass(frozen=True, slots=True)
class Decision:
    """A change of plan, or why there was none. Costs are nanoseconds per tuple in the planner's cost model.

    Attributes:
        position: tuples processed so far.
        action: ``change`` to the plan ``to``; ``wait`` to see whether it stays better; ``stay``.
        reason: what called for a decision, and what decided it.
        plan: the plan that ran.
        to: the other plan, if one was considered.
        predicted_before, predicted_after: what the two are expected to cost from now on.
        price: what the change is expected to cost, in nanoseconds, mostly for completing states.
        observed_before: what the work since the last look cost.
        observed_after: of a change, what the new plan's work cost when it had settled; else what the plan that
            stayed cost by the next look.

    """

    position: int
    action: Action
    reason: str
    plan: str
    to: str | None = None
    predicted_before: float | None = None
    predicted_after: float | None = None
    price: float | None = None
    observed_before: float | None = None
    observed_after: float | None = None

    @property
    def predicted_gain(self) -> float | None:
        """The share of the cost that a change was expected to save."""
        return _saved(self.predicted_before, self.predicted_after)

    @property
    def observed_gain(self) -> float | None:
        """The share of the cost that a change has saved, or that was saved without one; negative if it grew."""
        return _saved(self.observed_before, self.observed_after)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(known: Mapping[str, Any]) -> Decision:
        return Decision(**known)


def _saved(before: float | None, after: float | None) -> float | None:
    return None if not before or after is None else 1 - after / before


def plan_label(plan: AnyPlan, aliases: Sequence[str]) -> str:
    """A plan with the states that it keeps: two plans that differ only in these are told apart.

    >>> from thalweg.plan.tree import parse_plan
    >>> plan_label(parse_plan("(A B) C", "ABC").keeping_all(), "ABC")
    '(A B) C keeping A⋈B'
    """
    text = format_any(plan, aliases)
    if not isinstance(plan, TreePlan) or not plan.kept:
        return text
    kept = sorted(plan.kept, key=lambda node: (len(node), sorted(node)))
    return f"{text} keeping {', '.join(format_node(node, aliases) for node in kept)}"
