"""What options mean for one bucket."""

from __future__ import annotations

import pytest

from thalweg.options import Options
from thalweg.policies import Policies
from thalweg.settings import Adaptivity, Feedback

OWN = Adaptivity(period=7)


@pytest.mark.parametrize(
    ("options", "written", "lasting", "expected"),
    [
        ({}, False, True, Adaptivity()),
        ({}, True, False, None),
        ({"adaptive": OWN}, True, True, OWN),
        ({"adaptive": False}, False, False, None),
        ({"migration": "parallel_track"}, False, False, Adaptivity()),
        ({"migration": "parallel_track", "adaptive": OWN}, False, True, None),
        ({"migration": "stairs", "adaptive": OWN}, False, False, None),
    ],
)
def test_a_plan_adapts_unless_it_was_written_or_cannot(
    options: dict[str, object], written: bool, lasting: bool, expected: Adaptivity | None
) -> None:
    assert Policies.of(Options.of(options), written=written, lasting=lasting).adaptive == expected


def test_the_rest_is_taken_over_and_the_memory_is_shared() -> None:
    options = Options(states="all", memory_limit="1 MB", production="jit")
    policies = Policies.of(options, written=True, lasting=False)
    assert policies == Policies("jisc", "jit", 1 << 20, "all", None)
    assert policies.on_spark(4).memory_limit == 1 << 18
    assert Policies().on_spark(4).memory_limit is None
    assert policies.feedback == Feedback()
    assert Policies("stairs", "jit").feedback is None
    assert [Policies(name).is_eddy for name in ("jisc", "cacq")] == [False, True]
