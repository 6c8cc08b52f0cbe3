"""One case, run by thalweg and computed by the oracle: the same rows, in time order."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

import thalweg
from tests.cases import Case, Out, Star
from tests.expressions import ResultTime
from tests.lifetimes import contradictory
from tests.oracle import OutputRow, cols, expected, normalised_table
from thalweg.errors import BindError
from thalweg.settings import Feedback, Production

EAGER = thalweg.Adaptivity(
    period=3, overhead=1e9, memory=0.2, deviation=0, gain=0, horizon=10**15, persistence=1, cool_down=0
)
"""Settings under which a plan changes whenever another one looks the least bit better."""


def check(case: Case) -> None:
    """Fails with what differs and the query; Hypothesis adds the case as Python."""
    try:
        if not case.minus and contradictory(case):
            _refused(case)
        else:
            compare(case, answer(case), expected(case))
    except Exception as error:
        error.add_note(f"\nThe query:\n{case.cql()}\n")
        raise


def options_of(case: Case) -> thalweg.Options:
    """How a case is to be run."""
    return thalweg.Options(
        plan=case.plan,
        states=case.states,
        migration=case.migration,
        production=production_of(case),
        memory_limit=case.memory_limit,
        batch_size=case.batch_size,
        lateness=case.lateness_text(),
        adaptive=EAGER if case.eager else True,
    )


def answer(case: Case) -> pa.Table:
    """What thalweg says; of bad and late rows, and of times with and without zones, cases are full."""
    with tight_memory(case), warnings.catch_warnings():
        warnings.simplefilter("ignore", thalweg.InputWarning)
        return thalweg.replay(
            case.cql(),
            case.tables(),
            time=case.times(),
            options=options_of(case),
            transitions=list(case.transitions),
        )


@contextmanager
def tight_memory(case: Case) -> Iterator[None]:
    """Where the case limits the memory, let a few tuples reach the limit: stores begin with next to no room."""
    with pytest.MonkeyPatch.context() as patch:
        if case.memory_limit is not None:
            small_stores(patch)
        yield


def small_stores(patch: pytest.MonkeyPatch) -> None:
    """Let stores begin with next to no room."""
    patch.setattr("thalweg.engine.machine.workspace.FIRST_CAPACITY", 2)
    patch.setattr("thalweg.engine.states.kept_states._SPARE_SLOTS", 1)
    patch.setattr("thalweg.engine.states.completion._PAUSE", 3)
    patch.setattr("thalweg.engine.join.engine._STRETCH", 3)
    patch.setattr("thalweg.engine.feedback.memory._FIRST_SLOTS", 2)


def production_of(case: Case) -> Production | Feedback:
    """The case's production as an option; settings of feedback are pairs in a case."""
    if isinstance(case.production, tuple):
        return Feedback(**dict(case.production))
    return case.production


def _refused(case: Case) -> None:
    """Bounds on time that exclude each other leave no result; a user is told so."""
    assert not expected(case)
    with pytest.raises(BindError, match="no result is possible"):
        answer(case)


def compare(case: Case, table: pa.Table, want: Counter[OutputRow]) -> None:
    """Fails if these are not the rows of the case, or if they are not in time order."""
    got = normalised_table(table)
    missing, extra = want - got, got - want
    different = missing + extra
    assert not different, (
        f"{sum(want.values())} rows expected; {sum(missing.values())} missing, {sum(extra.values())} too many:\n"
        + "".join(f"  missing {count} x {_plain(row)}\n" for row, count in list(missing.items())[:10])
        + "".join(f"  extra {count} x {_plain(row)}\n" for row, count in list(extra.items())[:10])
    )
    place = _result_time_column(case)
    if place is not None:
        times = table.column(place).cast(pa.int64()).to_pylist()
        assert times == sorted(times), f"not in time order: {times}"


def _plain(row: tuple[tuple[str, object], ...]) -> tuple[object, ...]:
    return tuple(value for _, value in row)


def _result_time_column(case: Case) -> int | None:
    place = 0
    for out in case.select:
        if isinstance(out, Out) and out.expr == ResultTime():
            return place
        if isinstance(out, Star):
            place += sum(len(cols(case, item)) for item in case.items if out.alias in (None, item.alias))
        else:
            place += 1
    return None
