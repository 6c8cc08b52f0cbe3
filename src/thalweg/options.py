"""What a user may set, each default with its reason."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any, Literal, get_args

from thalweg.errors import OptionError

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
_MIGRATIONS_UNDER_A_BUDGET = ("jisc", "moving_state")
"""An eddy gives tuples no path that could be paid for, and side by side one plan finds what the other refused."""
_WITHOUT_FEEDBACK = ("stairs", "stairs_jisc")
"""Their tuples reach states by any way, so that no place in a program can tell what is missing where."""
_MOST_BUCKETS = 4096
_MOST_BITS = 1 << 30
_MOST_BYTES = (1 << 63) - 1
_LONGEST_TEXT = 60
_UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_PERCENTAGE = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG]?B|)", re.IGNORECASE)


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
        _at_least("period", self.period, 1)
        _at_least("horizon", self.horizon, 0)
        _at_least("persistence", self.persistence, 1)
        _at_least("cool_down", self.cool_down, 0)
        _share("overhead", self.overhead, float("inf"))
        _share("memory", self.memory, 1.0)
        _share("deviation", self.deviation, float("inf"))
        _share("gain", self.gain, 1.0)

    @staticmethod
    def of(value: object) -> bool | Adaptivity:
        """What was given for ``adaptive``: yes, no, settings, or a mapping of their names."""
        if isinstance(value, bool | Adaptivity):
            return value
        if isinstance(value, Mapping):
            _check_names(value, Adaptivity, "setting of adaptive")
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
        _one_of("production: when", self.when, ("always", "auto"))
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
            _check_names(value, Feedback, "setting of production")
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

    >>> Budget.of("60%").per_second(needed=1000)
    600.0

    """

    probes: int | None = None
    share: float = float("inf")
    is_auto: bool = False

    @staticmethod
    def of(value: object) -> Budget:
        """What was given for ``budget``; None: no limit."""
        if value is None:
            return Budget()
        if isinstance(value, str) and value.strip().lower() == "auto":
            return Budget(is_auto=True)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_BYTES:
            return Budget(probes=value)
        if isinstance(value, str) and (match := _PERCENTAGE.fullmatch(value.strip())):
            return Budget(share=float(match[1]) / 100)
        raise OptionError(
            "option budget is a number of probes per second of event time, at least 0, or a text such as '60%' "
            f"of what is needed, or 'auto', or None, not {_shown(value)}"
        )

    def per_second(self, needed: float) -> float:
        """The probes per second, if so many are needed."""
        return self.share * needed if self.probes is None else float(self.probes)


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of a query; every one has a default that needs no thought.

    Attributes:
        plan: the plan as text, e.g. ``"((A B) C) D"``; None lets the planner pick. A plan that was written is kept,
            unless ``adaptive`` has settings of its own.
        states: which intermediate states of a tree are kept: ``"all"`` (a pipeline), ``"none"``
            (an M-Join), or ``"auto"``: those that the cost model expects to earn their keep.
        migration: how a join changes its plan. ``"jisc"``: what the new plan lacks is computed when something asks
            for it, so that the output never stalls. ``"moving_state"``: all of it at once, before the next tuple.
            ``"parallel_track"``: both plans run until the old one has nothing of its own to say. Eddies send every
            tuple its own way: ``"cacq"`` keeps no states, ``"stairs"`` and ``"stairs_jisc"`` those of the plan, and
            compute what a new one lacks at once or on demand. The answer is the same. One more is for study:
            ``"parallel_track_printed"``. A set difference keeps nothing that a change of plan would have to move.
        memory_limit: what windows and states may take, as bytes or text (``"64 MB"``); on Spark, of all buckets
            together. Windows take what they need; of states, keys that nothing asks for go first, and are computed
            again when something does. None: as much as they need. Only with the migration ``"jisc"``.
        batch_size: tuples handed to the engine at once. The answer does not depend on it.
            Large enough that the cost of a call disappears, small enough that a batch
            and its results stay in the processor's cache.
        lateness: how far a row may lag behind the newest of its stream, as an interval text
            (``"5 seconds"``). None: in process the input is taken as complete, so no row is late; on Spark it
            is that of the stream, or none.
        late_rows: ``"count"`` late rows, or also keep them: ``"table"``.
        buckets: on Spark, into how many parts the join is divided at most. None: one for each core, rounded
            up to a power of two.
        idle_timeout: on Spark, how long a stream may say nothing before the others stop waiting for it
            (an interval text); None: for ever.
        adaptive: whether the plan changes while it runs, whenever another one pays. True: unless the user wrote the
            plan, or changes of it. :class:`Adaptivity`: in any case, with these settings. False: never. (Eddies follow
            no plan for long, and are left alone.)
        production: ``"push"``: every join passes on all that it finds. ``"jit"``: what the joins above it have no
            partner for is not produced until one arrives. ``"auto"``: wherever that saves more than it costs.
            :class:`Feedback`: with settings of its own. The answer is the same. Set differences, and the migrations
            ``"stairs"`` and ``"stairs_jisc"``, pay it no heed.
        sharing: how queries over one join share it. ``"auto"``: one state for all, in slices as the cost model advises.
            ``"memory"``: a slice for each length of time for which tuples are of use, so that none is kept longer.
            ``"cpu"``: the slices that cost a probe least. ``"none"``: a plan of its own for each query. For comparison,
            ``"pull_up"``: one slice, and selections decide at the end; ``"push_down"``: a join for each part of the
            streams that the same selections take. The answers are the same.
        budget: how many probes of windows the join may make, per second of event time; or ``"60%"``: of what it would
            need; or ``"auto"``: just enough to keep up, which in process is all, since no clock presses there. 0
            refuses all. Results are left out, never added, and the summary says how many are estimated to be missing.
            States are kept with ``states="all"`` alone. In process alone. None: nothing is refused.
        allocation: who divides the budget over streams and steps (:mod:`thalweg.plan.allocation`). ``"jaqpot"``: for
            the most results. For comparison: ``"grepp"`` and the paper's heuristics ``"best_hj"``, ``"equal_hj"``,
            ``"global_hjpr"``, ``"ebest_hj"``, ``"sbest_hj"``; ``"random_shedding"``, which drops tuples at the input;
            ``"harvest"``, which looks at the parts of windows that match most.
        weight: how much a query matters beside others that share its budget: a number, or one for each name of a query
            (``{"fraud": 10}``; the others have 1). A probe for several queries counts as for the weightiest of them.

    >>> Options(states="all").states
    'all'

    """

    plan: str | None = None
    states: States = "auto"
    migration: Migration = "jisc"
    memory_limit: int | str | None = None
    batch_size: int = 65_536
    lateness: str | None = None
    late_rows: Literal["count", "table"] = "count"
    buckets: int | None = None
    idle_timeout: str | None = None
    adaptive: bool | Adaptivity = True
    production: Production | Feedback = "push"
    sharing: Sharing = "auto"
    budget: int | str | None = None
    allocation: AllocationPolicy = "jaqpot"
    weight: float | Mapping[str, float] = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "adaptive", Adaptivity.of(self.adaptive))
        if isinstance(self.production, Mapping):
            object.__setattr__(self, "production", Feedback.of(self.production))
        Feedback.of(self.production)
        _text_or_none("plan", self.plan, "a plan such as '(A B) C'")
        _text_or_none("lateness", self.lateness, "an interval such as '5 seconds'")
        _text_or_none("idle_timeout", self.idle_timeout, "an interval such as '5 seconds'")
        _one_of("states", self.states, ("auto", "all", "none"))
        _one_of("migration", self.migration, get_args(Migration))
        _one_of("sharing", self.sharing, get_args(Sharing))
        _one_of("allocation", self.allocation, get_args(AllocationPolicy))
        if self.budget is not None:
            self._check_budget()
        for weight in self.weight.values() if isinstance(self.weight, Mapping) else (self.weight,):
            check_weight(weight)
        _one_of("late_rows", self.late_rows, ("count", "table"))
        if self.sharing == "push_down" and (
            self.memory_bytes is not None or self.migration not in ("jisc", "moving_state")
        ):
            what = f"migration {self.migration}" if self.memory_bytes is None else "a memory_limit"
            raise OptionError(
                f"option sharing push_down is for comparison and has several joins, which does not go with {what}. "
                "Use sharing='auto'."
            )
        if self.memory_bytes is not None and self.migration != "jisc":
            raise OptionError(
                f"option memory_limit makes keys absent, which goes with migration jisc, not {self.migration}"
            )
        if not isinstance(self.batch_size, int) or isinstance(self.batch_size, bool) or self.batch_size < 1:
            raise OptionError(f"option batch_size is a number of tuples, at least 1, not {self.batch_size!r}")
        if self.buckets is not None and (not isinstance(self.buckets, int) or not 1 <= self.buckets <= _MOST_BUCKETS):
            raise OptionError(f"option buckets is a number from 1 to {_MOST_BUCKETS}, not {self.buckets!r}")

    def _check_budget(self) -> None:
        Budget.of(self.budget)
        if self.migration not in _MIGRATIONS_UNDER_A_BUDGET:
            raise OptionError(
                f"option budget goes with migration {' or '.join(_MIGRATIONS_UNDER_A_BUDGET)}, not {self.migration}"
            )
        if self.states == "all" and self.allocation == "harvest":
            raise OptionError(
                "option allocation harvest looks at parts of windows, and states have none: it goes with states auto "
                "or none, not all"
            )

    def weight_of(self, name: str) -> float:
        """That of a query.

        >>> Options(weight={"fraud": 10}).weight_of("Fraud"), Options(weight={"fraud": 10}).weight_of("other")
        (10.0, 1.0)
        """
        if not isinstance(self.weight, Mapping):
            return float(self.weight)
        return float({key.lower(): weight for key, weight in self.weight.items()}.get(name.lower(), 1.0))

    @property
    def memory_bytes(self) -> int | None:
        """The memory limit in bytes."""
        limit = self.memory_limit
        if limit is None:
            return None
        if isinstance(limit, str) and (match := _SIZE.fullmatch(limit.strip())):
            limit = int(Decimal(match[1]) * _UNITS[match[2].upper()])
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= _MOST_BYTES:
            raise OptionError(
                "option memory_limit is a number of bytes or a text such as '64 MB', at most 8 EB, "
                f"not {_shown(self.memory_limit)}"
            )
        return limit

    @property
    def feedback(self) -> Feedback | None:
        """The feedback that joins give; None: none."""
        return Feedback.under(self.migration, self.production)

    @staticmethod
    def of(value: Options | Mapping[str, Any] | None) -> Options:
        """Options from what a caller passed: an :class:`Options`, a mapping, or nothing."""
        if value is None:
            return Options()
        if isinstance(value, Options):
            return value
        if not isinstance(value, Mapping):
            raise OptionError(f"options are thalweg.Options(...) or a mapping of their names, not {_shown(value)}")
        _check_names(value, Options, "option")
        return Options(**value)


def _check_names(given: Mapping[str, Any], settings: type[Options | Adaptivity | Feedback], what: str) -> None:
    known = [field.name for field in fields(settings)]
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(str(name), known, n=1)
            hint = f"Did you mean '{close[0]}'?" if close else f"Known are {', '.join(known)}."
            raise OptionError(f"unknown {what} '{name}'. {hint}")


def _shown(value: object) -> str:
    """A value for an error text, which may be longer than anybody wants to read."""
    text = repr(value)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."


def check_weight(weight: object) -> None:
    """An error unless this can be the weight of a query."""
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < float("inf"):
        raise OptionError(
            f"option weight is a number greater than 0, or one for each name of a query, not {_shown(weight)}"
        )


def _text_or_none(name: str, value: object, what: str) -> None:
    if value is not None and not isinstance(value, str):
        raise OptionError(f"option {name} is {what}, or None, not {_shown(value)}")


def _at_least(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise OptionError(f"setting {name} of adaptive is a number, at least {least}, not {value!r}")


def _share(name: str, value: object, below: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < below:
        most = "" if below == float("inf") else f" and less than {below:g}"
        raise OptionError(f"setting {name} of adaptive is a share, at least 0{most}, not {value!r}")


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise OptionError(f"option {name} is one of {', '.join(allowed)}, not {value!r}")
