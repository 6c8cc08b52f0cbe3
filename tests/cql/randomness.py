"""How many random cases, and which: the same ones in every run, unless ``THALWEG_CASES`` asks for new ones."""

from __future__ import annotations

import os

from hypothesis import settings

SOAKING = "THALWEG_CASES" in os.environ


def cases(count: int) -> settings:
    """Settings of one test with ``count`` cases, twenty times as many when soaking."""
    return settings(
        max_examples=20 * count if SOAKING else count,
        derandomize=not SOAKING,
        database=None,
        deadline=None,
        print_blob=True,
    )
