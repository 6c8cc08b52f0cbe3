"""How a bucket runs, whatever its query: the part of the options that reaches the engine, its driver and controller."""

from __future__ import annotations

from dataclasses import dataclass, replace

from thalweg.errors import OptionError
from thalweg.options import Options
from thalweg.settings import Adaptivity, AllocationPolicy, Budget, Feedback, Migration, Production, Sharing, States

_BY_WINDOWS = {
    "random_shedding": "keeps tuples out of windows",
    "harvest": "goes by what windows have shown while they were there",
}
"""Ways to divide a budget that an engine could not repeat if it was lost meanwhile, and why."""
EDDIES: tuple[Migration, ...] = ("cacq", "stairs", "stairs_jisc")


@dataclass(frozen=True, slots=True)
class Policies:
    """One value that travels from the options to whoever runs a bucket. The answer depends on the budget alone.

    Attributes:
        migration: how the plan is changed.
        production: whether what nobody needs is produced.
        memory_limit: bytes that windows and states of a bucket may take; for ``jisc``. None: what they need.
        states: which states a plan may keep.
        adaptive: by which settings the plan adapts; None: it does not.
        sharing: how the readers of a join share its windows.
        nested_loops: joins compare with everything in a window although keys could look partners up. For experiments.
        budget: the probes that it may make; None: nobody counts them, and nobody can begin to.
        allocation: who divides the budget.
        by_batch: the budget is divided batch by batch, so that attempts at a batch refuse the same.
        target_us: the microseconds that a trigger may take, of which a budget that is ``auto`` follows.

    >>> Policies(production="jit").feedback
    Feedback(when='always', lattice=1, filter_bits=None)

    """

    migration: Migration = "jisc"
    production: Production | Feedback = "push"
    memory_limit: int | None = None
    states: States = "auto"
    adaptive: Adaptivity | None = None
    sharing: Sharing = "auto"
    nested_loops: bool = False
    budget: Budget | None = None
    allocation: AllocationPolicy = "jaqpot"
    by_batch: bool = False
    target_us: int | None = None

    @staticmethod
    def of(options: Options, *, written: bool, lasting: bool) -> Policies:
        """What the options mean for one bucket.

        ``written``: the user wrote the plan, or changes of it. ``lasting``: a tuple can stay in a window for ever.
        """
        return Policies(
            options.migration,
            options.production,
            options.memory_bytes,
            "none" if options.budget is not None and options.states == "auto" else options.states,
            _adaptivity(options, written=written, lasting=lasting),
            options.sharing,
            budget=None if options.budget is None else Budget.of(options.budget),
            allocation=options.allocation,
        )

    def on_spark(self, buckets: int, target_us: int | None = None) -> Policies:
        """Those of one of so many buckets, which share the memory and the budget.

        What a batch writes is a function of what was committed and of its input. So under a budget nothing that an
        engine has learned may have a say in which probes are made, or in which order: no gates, no choice of slices.
        The plan is changed by what was committed.
        """
        limit = None if self.memory_limit is None else self.memory_limit // buckets
        budget = self.budget or (None if target_us is None else Budget(is_auto=True))
        if budget is None:
            return replace(self, memory_limit=limit)
        if budget.is_auto and target_us is None:
            raise OptionError(
                "option budget 'auto' means as many probes as triggers have time for, and nothing says how long they "
                "may take. Add target_trigger='5 seconds', say."
            )
        if self.states == "all":
            raise OptionError(
                "option states: all states are kept, and under a budget they lack what was refused. On Spark, where "
                "engines are built anew from a log, use states='auto'."
            )
        if self.allocation in _BY_WINDOWS:
            raise OptionError(
                f"option allocation: {self.allocation} {_BY_WINDOWS[self.allocation]}. On Spark, where engines are "
                "built anew from a log, use jaqpot."
            )
        return replace(
            self,
            memory_limit=limit,
            production="push",
            states="none",
            sharing="cpu" if self.sharing == "auto" else self.sharing,
            budget=replace(budget, parts=buckets),
            by_batch=True,
            target_us=target_us,
        )

    @property
    def feedback(self) -> Feedback | None:
        """The feedback that joins give; None: none."""
        return Feedback.under(self.migration, self.production)

    @property
    def is_eddy(self) -> bool:
        """Whether tuples are routed one by one."""
        return self.migration in EDDIES

    @property
    def can_rank_anew(self) -> bool:
        """Whether the same plan can probe in another order at once. Others begin a second track, or an eddy anew."""
        return self.migration in ("jisc", "moving_state")


DEFAULT_POLICIES = Policies()
"""Those of an engine that is opened without any."""


def _adaptivity(options: Options, *, written: bool, lasting: bool) -> Adaptivity | None:
    if options.migration in EDDIES:
        return None  # they follow no plan for long
    if options.migration.startswith("parallel_track") and lasting:
        return None  # every change would add a plan for ever
    if isinstance(options.adaptive, Adaptivity):
        return options.adaptive
    return Adaptivity() if options.adaptive and not written else None
