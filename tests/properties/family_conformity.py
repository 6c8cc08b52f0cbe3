"""A family, run by thalweg and computed by the oracle: the same rows for each query, in time order."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pytest

import thalweg
from tests.families import Family, name
from tests.family_oracle import expected
from tests.properties.conformity import compare, options_of, tight_memory


def check(family: Family) -> None:
    """Fails with what differs and the queries; Hypothesis adds the family as Python."""
    try:
        found = answers(family)
        for query, (case, want) in enumerate(zip(family.cases, expected(family), strict=True)):
            try:
                compare(case, found[query], want)
            except AssertionError as error:
                error.add_note(f"of {name(query)}")
                raise
    except Exception as error:
        error.add_note(f"\nThe queries:\n{family.cql()}\n")
        raise


def answers(family: Family) -> list[pa.Table]:
    """What thalweg says to each query."""
    first = family.cases[0]
    with few_selections(family), tight_memory(first), warnings.catch_warnings():
        warnings.simplefilter("ignore", thalweg.InputWarning)
        found = thalweg.replay(
            family.cql(),
            first.tables(),
            time=first.times(),
            options=replace(options_of(first), sharing=family.sharing),
            transitions=list(first.transitions),
            entries=list(family.named_entries()),
        )
    return [found] if isinstance(found, pa.Table) else [found[name(query)] for query in range(len(family.cases))]


@contextmanager
def few_selections(family: Family) -> Iterator[None]:
    """Let masks tell apart only as many selections as the family says, and chains change if it is eager."""
    with pytest.MonkeyPatch.context() as patch:
        if family.most_selections is not None:
            patch.setattr("thalweg.plan.slices.MOST_SELECTIONS", family.most_selections)
        if family.cases[0].eager:
            restless_chains(patch)
        yield


def restless_chains(patch: pytest.MonkeyPatch) -> None:
    """Let slices be split and merged all the time, whether that pays or not."""
    patch.setattr("thalweg.adapt.chains.PERIOD", 1)
    patch.setattr("thalweg.adapt.chains._LEAST", -1.0)
    patch.setattr("thalweg.adapt.chains.chain_price", lambda _: -1e18)
