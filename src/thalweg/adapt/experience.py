"""How far off the cost model was, for each of the last plans that ran.

The model takes streams for independent and values for equally frequent. Where they are not, its estimates for a
plan err alike, look after look; the *bias* of a plan is the logarithm of observed over predicted cost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from thalweg.plan.plan_json import plan_from_json, plan_to_json
from thalweg.plan.tree import Plan

_PLANS = 4
"""Plans that are remembered: the running one, and some to go back to."""
_LOOKS = 200
"""For how many looks: then the streams may have become others."""

SHARED = math.log(2)
"""The bias up to which all plans are taken to err alike; what goes beyond is taken for a plan's own misfortune."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """What running under a plan has taught, and at which look."""

    plan: Plan
    bias: float
    look: int


class Experience:
    """The biases of some plans, the one learned last at the end."""

    def __init__(self, lessons: Iterable[Lesson] = ()) -> None:
        self._lessons = list(lessons)

    @property
    def plans(self) -> list[Plan]:
        return [lesson.plan for lesson in self._lessons]

    def learn(self, plan: Plan, bias: float, look: int) -> None:
        fresh = [lesson for lesson in self._lessons if lesson.plan != plan and look - lesson.look < _LOOKS]
        self._lessons = [*fresh[1 - _PLANS :], Lesson(plan, bias, look)]

    def correction(self, plan: Plan, bias: float) -> float:
        """What a predicted cost is to be multiplied with to compare it with that of a plan which has this bias.

        Of a plan that has never run it is assumed that the model errs as it does for the other, up to a point.
        """
        known = [lesson.bias for lesson in self._lessons if lesson.plan == plan]
        return math.exp((known[0] if known else min(bias, SHARED)) - bias)

    def to_json(self, aliases: Sequence[str]) -> list[Any]:
        return [[plan_to_json(lesson.plan, aliases), lesson.bias, lesson.look] for lesson in self._lessons]

    @staticmethod
    def from_json(known: Iterable[Any], aliases: Sequence[str]) -> Experience:
        return Experience(Lesson(plan_from_json(plan, aliases), bias, look) for plan, bias, look in known)
