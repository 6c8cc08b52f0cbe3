"""Texts and what they mean, pair by pair."""

from __future__ import annotations

import pytest

from tests.cql.catalog import CATALOG
from tests.cql.describing import describe
from tests.cql.pairs import BAD, GOOD, Pair
from thalweg.cql import bind
from thalweg.errors import ThalwegError


@pytest.mark.parametrize("pair", GOOD, ids=lambda pair: pair.name)
def test_meaning(pair: Pair) -> None:
    assert "\n".join(describe(query) for query in bind(pair.text, CATALOG)) == pair.expected


@pytest.mark.parametrize("pair", BAD, ids=lambda pair: pair.name)
def test_error(pair: Pair) -> None:
    with pytest.raises(ThalwegError) as caught:
        bind(pair.text, CATALOG)
    assert f"{type(caught.value).__name__}: {caught.value}" == pair.expected
