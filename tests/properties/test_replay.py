"""``thalweg.replay`` against the oracle: random queries, data, windows, plans and changes of plan.

Each test draws from its own family of cases. A failure prints the case as Python, to be kept in
``test_pinned.py``, and the query text.
"""

from __future__ import annotations

from hypothesis import given

from tests.cases import Case
from tests.properties.conformity import check
from tests.properties.settings import randomized
from tests.properties.strategies import ALL_WINDOWS, Profile, cases

ONE_CLASS = Profile()
SEVERAL_CLASSES = Profile(edges=("key", "key", "composite"), classes=3)
THETA = Profile(sizes=(2, 2, 3, 3, 4), edges=("theta", "theta", "time", "key"))
MIXED = Profile(edges=("key", "key", "key", "composite", "theta", "time"), classes=3, windows=ALL_WINDOWS, static=True)
ROWS = Profile(sizes=(2, 2, 3, 3, 4, 1), edges=("key", "key", "theta"), classes=2, windows=ALL_WINDOWS)
INTERVALS = Profile(
    sizes=(2, 2, 3, 4),
    classes=2,
    windows=ALL_WINDOWS,
    derived=True,
    outputs=("istream", "istream", "dstream"),
    static=True,
)
LEAVING = Profile(edges=("key", "key", "theta"), classes=2, windows=ALL_WINDOWS, outputs=("dstream",), static=True)
AGGREGATES = Profile(
    kind="aggregate",
    sizes=(2, 1, 2, 3, 4),
    edges=("key", "key", "theta"),
    classes=2,
    windows=ALL_WINDOWS,
    outputs=("istream", "istream", "dstream"),
    static=True,
)
DIFFERENCES = Profile(
    kind="except",
    sizes=(2, 2, 3, 4),
    classes=2,
    windows=ALL_WINDOWS,
    outputs=("istream", "istream", "dstream"),
    static=True,
    transitions=3,
)
LATE_ROWS = Profile(
    sizes=(2, 2, 3, 4, 1),
    edges=("key", "key", "theta"),
    classes=2,
    windows=ALL_WINDOWS,
    outputs=("istream", "istream", "dstream"),
    lateness=True,
    static=True,
)
TRANSITIONS = Profile(sizes=(3, 3, 4, 4, 5, 6, 2), edges=("key",), transitions=4)
MIXED_TRANSITIONS = Profile(
    sizes=(3, 3, 3, 4, 4, 5, 6),
    edges=("key",) * 6 + ("composite", "theta", "time"),
    classes=3,
    windows=ALL_WINDOWS,
    outputs=("istream", "istream", "dstream"),
    transitions=4,
    static=True,
)
AGGREGATES_UNDER_TRANSITIONS = Profile(
    kind="aggregate",
    sizes=(3, 3, 4),
    edges=("key", "key", "theta"),
    classes=2,
    windows=ALL_WINDOWS,
    lateness=True,
    transitions=3,
    static=True,
)


@randomized(share=110)
@given(cases(ONE_CLASS))
def test_one_attribute_class(case: Case) -> None:
    check(case)


@randomized(share=90)
@given(cases(SEVERAL_CLASSES))
def test_several_attribute_classes(case: Case) -> None:
    check(case)


@randomized(share=80)
@given(cases(THETA))
def test_theta_predicates(case: Case) -> None:
    check(case)


@randomized(share=100)
@given(cases(MIXED))
def test_mixtures(case: Case) -> None:
    check(case)


@randomized(share=90)
@given(cases(ROWS))
def test_rows_windows(case: Case) -> None:
    check(case)


@randomized(share=70)
@given(cases(INTERVALS))
def test_windows_from_interval_predicates(case: Case) -> None:
    check(case)


@randomized(share=80)
@given(cases(LEAVING))
def test_results_leaving(case: Case) -> None:
    check(case)


@randomized(share=90)
@given(cases(AGGREGATES))
def test_running_aggregates(case: Case) -> None:
    check(case)


@randomized(share=60)
@given(cases(DIFFERENCES))
def test_set_differences(case: Case) -> None:
    check(case)


@randomized(share=70)
@given(cases(LATE_ROWS))
def test_late_rows(case: Case) -> None:
    check(case)


@randomized(share=60)
@given(cases(TRANSITIONS))
def test_transitions(case: Case) -> None:
    check(case)


@randomized(share=70)
@given(cases(MIXED_TRANSITIONS))
def test_transitions_of_mixtures(case: Case) -> None:
    check(case)


@randomized(share=30)
@given(cases(AGGREGATES_UNDER_TRANSITIONS))
def test_transitions_below_aggregates(case: Case) -> None:
    check(case)
