"""The values that options take: their words, and settings that stand in the place of a word."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from thalweg.errors import OptionError
from thalweg.option_checks import check_least, check_names, check_one_of, check_share, shown

States = Literal["auto", "all", "none"]
Migration = Literal[
    "jisc",
    "moving_state",
    "parallel_track",
    "cacq",
    "stairs",
    "stairs_jisc",
    "parallel_track_printed",
]
Production = Literal["push", "jit", "auto"]
Sharing = Literal["auto", "memory", "cpu", "none", "pull_up", "push_down"]
AllocationPolicy = Literal[
    "jaqpot",
    "grepp",
    "best_hj",
    "equal_hj",
    "global_hjpr",
    "ebest_hj",
    "sbest_hj",
    "random_shedding",
    "harvest",
]
_WITHOUT_FEEDBACK = ("stairs", "stairs_jisc")
"""Their tuples reach states by any way, so that no place in a program can tell what is missing where."""
_MOST_BITS = 1 << 30
_MOST_PROBES = (1 << 63) - 1
_PERCENTAGE = re.compile(r"(\d+(?:\.\d+)?)\s*%")


@dataclass(frozen=True, slots=True)
class Adaptivity:
    """When a running join looks at itself, searches another plan, and changes to it (:mod:`thalweg.adapt`).

    Nothing here depends on a clock: work is counted, and priced by the planner's cost model, so the same input
    leads to the same changes.

    Attributes:
        period: tuples between two looks, at least. Fewer than a batch in process, or a stretch of one on Spark, so
            that a look may follow each.
        overhead: the share of the join's own work that looks and searches may cost together. One in a hundred
            cannot be felt, and lets a join of a few streams look several times in every second that it is busy.
        memory: how much of the averages a new look leaves of the old: with 0.7 they cover about the last
            three looks, few enough to follow a change, enough to smooth bursts.
        deviation: by what share the observed cost, or what is known of the streams, must have moved since plans
            were last compared for another search. Samples alone move by a tenth or so.
        gain: the share of the cost that another plan must be expected to save. The cost model is not
            better than this.
        horizon: over how many tuples the gain must pay for the change, that is, for the states that
            have to be completed: about a second's worth for one core.
        persistence: in how many looks in a row the gain must be seen, so that a burst moves nothing.
        cool_down: looks after a change before another one is thought of: states complete, and costs settle.

    >>> Adaptivity(period=1_000).gain
    0.1

    """

    period: int = 10_000
    overhead: float = 0.01
    memory: float = 0.7
    deviation: float = 0.25
    gain: float = 0.1
    horizon: int = 1_000_000
    persistence: int = 3
    cool_down: int = 5

    def __post_init__(self) -> None:
        check_least("period", self.period, 1)
        check_least("horizon", self.horizon, 0)
        check_least("persistence", self.persistence, 1)
        check_least("cool_down", self.cool_down, 0)
        check_share("overhead", self.overhead, float("inf"))
        check_share("memory", self.memory, 1.0)
        check_share("deviation", self.deviation, float("inf"))
        check_share("gain", self.gain, 1.0)

    @staticmethod
    def of(value: object) -> bool | Adaptivity:
        """What was given for ``adaptive``: yes, no, settings, or a mapping of their names."""
        if isinstance(value, bool | Adaptivity):
            return value
        if isinstance(value, Mapping):
            check_names(value, Adaptivity, "setting of adaptive")
            return Adaptivity(**value)
        raise OptionError(f"option adaptive is True, False or thalweg.Adaptivity(...), not {value!r}")


@dataclass(frozen=True, slots=True)
class Feedback:
    """How joins tell those below them what nobody needs (just-in-time processing; JIT III, IV).

    The answer never depends on it.

    Attributes:
        when: ``"always"``, or ``"auto"``: by those joins where it saves more than it costs, as counted while running.
        lattice: of how many components a part may be that a join finds no partner for. One costs least; more of them
            find parts that have no partner together although each has one.
        filter_bits: tell by Bloom filters of so many bits (a power of two) per window and key, instead of by
            looking. That costs least, and notices only values that a window does not have at all. None: by looking.

    >>> Feedback(lattice=2).when
    'always'

    """

    when: Literal["always", "auto"] = "always"
    lattice: int = 1
    filter_bits: int | None = None

    def __post_init__(self) -> None:
        check_one_of("production: when", self.when, ("always", "auto"))
        if not isinstance(self.lattice, int) or isinstance(self.lattice, bool) or self.lattice < 1:
            raise OptionError(
                f"setting lattice of production is a number of components, at least 1, not {self.lattice!r}"
            )
        bits = self.filter_bits
        if bits is not None and (
            not isinstance(bits, int) or isinstance(bits, bool) or not 1 <= bits <= _MOST_BITS or bits & (bits - 1)
        ):
            raise OptionError(
                f"setting filter_bits of production is a power of two up to {_MOST_BITS:,}, or None, not {bits!r}"
            )

    @staticmethod
    def of(value: object) -> Feedback | None:
        """What was given for ``production``: a word, settings, or a mapping of their names; None: no feedback."""
        if value == "push":
            return None
        if value == "jit":
            return Feedback()
        if value == "auto":
            return Feedback("auto")
        if isinstance(value, Feedback):
            return value
        if isinstance(value, Mapping):
            check_names(value, Feedback, "setting of production")
            return Feedback(**value)
        raise OptionError(f"option production is push, jit, auto or thalweg.Feedback(...), not {value!r}")

    @staticmethod
    def under(migration: Migration, production: Production | Feedback) -> Feedback | None:
        """The feedback that joins give if plans change by this policy; None: none."""
        return None if migration in _WITHOUT_FEEDBACK else Feedback.of(production)


@dataclass(frozen=True, slots=True)
class Budget:
    """The probes that a join may make, per second of event time.

    Attributes:
        probes: so many. None: the share counts.
        share: so much of what would be needed, as far as that was measured. Infinite: there is no limit.
        is_auto: just enough to keep up. Whoever has a clock finds out how much that is; by event time alone nothing
            presses, and nothing is refused.
        parts: the probes are those of so many buckets together, each of which has an equal part.

    >>> Budget.of("60%").per_second(needed=1000)
    600.0

    """

    probes: int | None = None
    share: float = float("inf")
    is_auto: bool = False
    parts: int = 1

    @staticmethod
    def of(value: object) -> Budget:
        """What was given for ``budget``; None: no limit."""
        if value is None:
            return Budget()
        if isinstance(value, str) and value.strip().lower() == "auto":
            return Budget(is_auto=True)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_PROBES:
            return Budget(probes=value)
        if isinstance(value, str) and (match := _PERCENTAGE.fullmatch(value.strip())):
            return Budget(share=float(match[1]) / 100)
        raise OptionError(
            "option budget is a number of probes per second of event time, at least 0, or a text such as '60%' "
            f"of what is needed, or 'auto', or None, not {shown(value)}"
        )

    @property
    def text(self) -> str:
        """As of :meth:`of`; what a record remembers.

        >>> [Budget.of(value).text for value in (5, "60%", "auto", None)]
        ['5', '60%', 'auto', 'none']
        """
        if self.is_auto:
            return "auto"
        if self.probes is not None:
            return str(self.probes)
        return "none" if self.share == float("inf") else f"{100 * self.share:.12g}%"

    @staticmethod
    def parse(text: str) -> Budget:
        """The budget of a text, as people write it: a number, "60%", "auto" or "none".

        >>> [Budget.parse(text).text for text in ("5", "60%", "auto", "none")]
        ['5', '60%', 'auto', 'none']
        """
        return Budget.of(None if text == "none" else int(text) if text.isdecimal() else text)

    @property
    def refuses_nothing(self) -> bool:
        """Whether it is all that is needed, however much that is."""
        return self.probes is None and self.share >= 1

    def per_second(self, needed: float) -> float:
        """The probes per second, if so many are needed."""
        return self.share * needed if self.probes is None else self.probes / self.parts
