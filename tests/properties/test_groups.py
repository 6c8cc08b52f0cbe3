"""Many queries in one text against the oracle: they share a join, and each has the answer that it would have alone.

A failure prints the family as Python, to be kept in ``test_pinned_groups.py``, and the text.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given

from tests.families import Family, name
from tests.properties.families import FamilyProfile, families
from tests.properties.family_conformity import check
from tests.properties.settings import randomized
from tests.properties.strategies import ALL_WINDOWS, RANGES, Profile
from thalweg.cql import Source, bind
from thalweg.cql.group import grouped

KEYED = FamilyProfile(Profile(sizes=(2, 2, 3, 3, 4), edges=("key", "key", "composite"), classes=2, static=True))
MIXED = FamilyProfile(
    Profile(
        sizes=(2, 2, 3, 3, 4, 1),
        edges=("key", "key", "key", "composite", "theta", "time"),
        classes=2,
        windows=ALL_WINDOWS,
        outputs=("istream", "istream", "dstream"),
        static=True,
        lateness=True,
    ),
    strangers=True,
)
MOVING = FamilyProfile(
    Profile(
        sizes=(3, 3, 2, 4),
        edges=("key", "key", "key", "theta"),
        classes=2,
        windows=(*RANGES, *ALL_WINDOWS),
        outputs=("istream", "istream", "dstream"),
        static=True,
        transitions=4,
    )
)
ENTERING = FamilyProfile(
    Profile(sizes=(2, 2, 3, 1), edges=("key", "key", "theta", "time"), windows=(*RANGES, *ALL_WINDOWS), static=True),
    entries=True,
    outputs=("list",),
)
COMING_AND_GOING = FamilyProfile(
    Profile(
        sizes=(2, 2, 3, 3, 4),
        edges=("key", "key", "key", "theta", "time"),
        classes=2,
        windows=ALL_WINDOWS,
        outputs=("istream", "dstream"),
        static=True,
        transitions=2,
    ),
    strangers=True,
    entries=True,
    outputs=("list", "aggregate"),
)


@randomized(share=40)
@given(families(KEYED))
def test_one_join(family: Family) -> None:
    check(family)


@randomized(share=50)
@given(families(MIXED))
def test_mixtures(family: Family) -> None:
    check(family)


@randomized(share=40)
@given(families(MOVING))
def test_transitions(family: Family) -> None:
    check(family)


@randomized(share=40)
@given(families(ENTERING))
def test_entries(family: Family) -> None:
    check(family)


@randomized(share=50)
@given(families(COMING_AND_GOING))
def test_entries_of_mixtures(family: Family) -> None:
    check(family)


@randomized(share=20)
@given(families(COMING_AND_GOING))
def test_who_shares_a_join(family: Family) -> None:
    first = family.cases[0]
    catalog = {name: Source(table.schema, first.times()[name]) for name, table in first.tables().items()}
    groups = grouped(bind(family.cql(), catalog))
    found = [[reader.name for reader in group.readers] for group in groups]
    assert found == [[name(query) for query in group] for group in replace(family, sharing="auto").groups]
