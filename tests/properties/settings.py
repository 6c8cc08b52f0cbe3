"""How many random cases, and which.

Without the environment variable ``THALWEG_CASES`` the cases are the same in every run, so that
a test that fails on one machine fails on the next. With it, the given number of new random cases
is shared out over the tests.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

from tests.properties.independent import BACKEND

_DEFAULT_CASES = 400  # minutes on two cores
_WANTED = os.environ.get("THALWEG_CASES")


def randomized(share: int) -> settings:
    """Settings of one test: ``share`` is its part of all cases, in thousandths."""
    cases = int(_WANTED) if _WANTED else _DEFAULT_CASES
    return settings(
        max_examples=max(1, cases * share // 1000),
        derandomize=_WANTED is None,
        database=None,
        deadline=None,
        print_blob=True,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        backend=BACKEND,
        suppress_health_check=[HealthCheck.too_slow],  # the first case compiles the kernels
    )
