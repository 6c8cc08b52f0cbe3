"""A source of choices for Hypothesis under which every case is drawn afresh.

By default five of six cases are mutations of the one before (Hypothesis copies parts of it to
other places). Our cases have many features, so that new ones find more than variations do.
Shrinking is not affected.
"""

from __future__ import annotations

from typing import Any

from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider

BACKEND = "independent"


class IndependentProvider(HypothesisProvider):
    """Hypothesis' own draws; any backend but the default one is spared the mutations."""

    def _maybe_draw_constant(self, *choice: Any, **options: Any) -> None:
        """No numbers from the project's sources: the same cases whatever else is in them."""


AVAILABLE_PROVIDERS[BACKEND] = IndependentProvider
