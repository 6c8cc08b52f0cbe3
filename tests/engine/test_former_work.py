"""What joiners did that are no more, added to what another one says of itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from thalweg.engine.feedback.savings import Savings
from thalweg.engine.former_work import FormerWork
from thalweg.engine.observations import Work


def joiner(work: int, suspended: int) -> Any:
    done = Work(*[work] * len(Work._fields))
    savings = Savings(suspensions=work, suspended=suspended)
    return SimpleNamespace(work=done, counts=done.counts, seconds=float(work), savings=savings)


def test_work_adds_up_and_what_is_suspended_now_is_of_the_last_alone() -> None:
    nothing = FormerWork()
    former = nothing.and_of(joiner(3, suspended=7)).and_of(joiner(4, suspended=8))
    last = joiner(5, suspended=9)
    assert former.work(last) == Work(*[12] * len(Work._fields))
    assert former.counts(last) == (12,) * len(last.counts)
    assert former.seconds(last) == 12.0
    assert former.savings(last) == Savings(suspensions=12, suspended=9)
    assert nothing.work(last) == last.work
