"""The statuses of a state: its table allows what it says, and nothing else."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from thalweg.engine.kernels import tables as k
from thalweg.engine.states.status import BEGINNINGS, CHANGES, Status, change
from thalweg.errors import ThalwegError


@pytest.mark.parametrize(("before", "after"), list(product(Status, Status)))
def test_a_state_changes_as_the_table_says(before: Status, after: Status) -> None:
    row = np.zeros(k.STATE_FIELDS, np.int64)
    row[k.N_COMPLETE] = before
    if before == after or (before, after) in CHANGES:
        change(row, after)
        assert row[k.N_COMPLETE] == after
    else:
        with pytest.raises(ThalwegError, match=f"a state that is {before.name} does not become {after.name}"):
            change(row, after)
        assert row[k.N_COMPLETE] == before


def test_every_status_can_be_reached_and_ends_complete() -> None:
    def reached(known: set[Status]) -> set[Status]:
        return known | {after for before, after in CHANGES if before in known}

    from_the_beginning = set(BEGINNINGS)
    while (more := reached(from_the_beginning)) != from_the_beginning:
        from_the_beginning = more
    assert from_the_beginning == set(Status)
    assert all(any((before, after) in CHANGES for after in Status) for before in Status)
