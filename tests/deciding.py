"""Let gates be decided about all the time, and at no price."""

from __future__ import annotations

import pytest

from thalweg.adapt.ledger import Ledger
from thalweg.adapt.production import ProductionDecider
from thalweg.cql.query import Query
from thalweg.plan import JoinGraph

DECIDER = "thalweg.adapt.production"


def decider_of(query: Query) -> ProductionDecider:
    """One for an engine without a bucket."""
    return ProductionDecider(JoinGraph.of(query), Ledger())


def decide_often(patch: pytest.MonkeyPatch, period: int, promise: float, kept: float) -> None:
    """Look after every ``period`` tuples; ask by a ``promise``, and stop by what is ``kept`` of it."""
    patch.setattr(f"{DECIDER}.PERIOD", period)
    patch.setattr(f"{DECIDER}.STRETCH", period)
    patch.setattr(f"{DECIDER}.watching_price", lambda *_: 0.0)
    patch.setattr(f"{DECIDER}._PROMISE", promise)
    patch.setattr(f"{DECIDER}._KEPT", kept)
