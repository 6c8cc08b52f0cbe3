"""Eddies fed as streams feed them: whatever way their tuples take, the answer is that of the oracle."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import Case
from tests.properties.settings import randomized
from tests.properties.strategies import cases
from tests.properties.test_feeding import AGGREGATES, JOINS, check
from thalweg.policies import EDDIES
from thalweg.settings import Migration


def check_eddy(case: Case, policy: Migration, seed: int) -> None:
    rng = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        if rng.random() < 0.5:  # change the routes all the time
            patch.setattr("thalweg.engine.machine.eddy._PATIENCE", rng.choice([1, 7]))
            patch.setattr("thalweg.engine.machine.eddy._ENOUGH", 1)
            patch.setattr("thalweg.engine.machine.eddy._ADVENTURE", rng.choice([1, 2, 8]))
        check(replace(case, migration=policy, memory_limit=None), rng)


@randomized(share=40)
@given(case=cases(JOINS), policy=st.sampled_from(EDDIES), seed=st.integers(0, 2**32))
def test_joins(case: Case, policy: Migration, seed: int) -> None:
    check_eddy(case, policy, seed)


@randomized(share=15)
@given(case=cases(AGGREGATES), policy=st.sampled_from(EDDIES), seed=st.integers(0, 2**32))
def test_aggregates(case: Case, policy: Migration, seed: int) -> None:
    check_eddy(case, policy, seed)
