"""What a user may set, each default with its reason."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, get_args

from thalweg.errors import OptionError
from thalweg.option_checks import check_names, check_one_of, check_text, check_weight, shown
from thalweg.settings import (
    Adaptivity,
    AllocationPolicy,
    Budget,
    Feedback,
    Migration,
    Production,
    Sharing,
    States,
)

_MIGRATIONS_UNDER_A_BUDGET = ("jisc", "moving_state")
"""An eddy gives tuples no path that could be paid for, and side by side one plan finds what the other refused."""
_MOST_BUCKETS = 4096
_MOST_BYTES = (1 << 63) - 1
_UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG]?B|)", re.IGNORECASE)


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
            States are kept with ``states="all"`` alone, and never on Spark. There, ``"auto"`` is as many as triggers
            have time for (``target_trigger``). None: nothing is refused, unless there is a ``target_trigger``.
        target_trigger: on Spark, how long a trigger may take (an interval text): what it has no time for is refused.
            None: as long as it takes.
        allocation: who divides the budget over streams and steps (:mod:`thalweg.plan.allocation`). ``"jaqpot"``: for
            the most results. For comparison: ``"grepp"`` and the paper's heuristics ``"best_hj"``, ``"equal_hj"``,
            ``"global_hjpr"``, ``"ebest_hj"``, ``"sbest_hj"``; ``"random_shedding"``, which drops tuples at the input;
            ``"harvest"``, which looks at the parts of windows that match most.
        weight: how much a query matters beside others that share its budget: a number, or one for each name of a query
            (``{"fraud": 10}``; the others have 1). A probe for several queries counts as for the weightiest of them.
            Selections tell whom it is for: queries that select alike lose alike, whatever they weigh.

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
    target_trigger: str | None = None
    allocation: AllocationPolicy = "jaqpot"
    weight: float | Mapping[str, float] = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "adaptive", Adaptivity.of(self.adaptive))
        if isinstance(self.production, Mapping):
            object.__setattr__(self, "production", Feedback.of(self.production))
        Feedback.of(self.production)
        check_text("plan", self.plan, "a plan such as '(A B) C'")
        check_text("lateness", self.lateness, "an interval such as '5 seconds'")
        check_text("idle_timeout", self.idle_timeout, "an interval such as '5 seconds'")
        check_text("target_trigger", self.target_trigger, "an interval such as '5 seconds'")
        check_one_of("states", self.states, ("auto", "all", "none"))
        check_one_of("migration", self.migration, get_args(Migration))
        check_one_of("sharing", self.sharing, get_args(Sharing))
        check_one_of("allocation", self.allocation, get_args(AllocationPolicy))
        if self.has_budget:
            self._check_budget()
        for weight in self.weight.values() if isinstance(self.weight, Mapping) else (self.weight,):
            check_weight(weight)
        check_one_of("late_rows", self.late_rows, ("count", "table"))
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
        budget = Budget.of(self.budget)
        if self.target_trigger is not None and self.budget is not None and not budget.is_auto:
            raise OptionError(
                f"option target_trigger lets triggers decide how much is refused, and option budget says "
                f"{self.budget}. Give one of them, or budget='auto'."
            )
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
                f"not {shown(self.memory_limit)}"
            )
        return limit

    @property
    def has_budget(self) -> bool:
        """Whether something may be refused, or be so later."""
        return self.budget is not None or self.target_trigger is not None

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
            raise OptionError(f"options are thalweg.Options(...) or a mapping of their names, not {shown(value)}")
        check_names(value, Options, "option")
        return Options(**value)
