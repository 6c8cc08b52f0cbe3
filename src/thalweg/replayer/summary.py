"""What a replay leads to: the answer, and what happened on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from thalweg.adapt.decision import Decision
from thalweg.engine.feedback.savings import Savings


@dataclass(frozen=True, slots=True)
class StateSize:
    """What a base window or a kept state holds; ``live_keys`` is None where every key is live."""

    name: str
    tuples: int
    live_keys: int | None
    bytes: int


@dataclass(frozen=True, slots=True)
class PlanUse:
    """A plan, and the position of the first tuple that ran under it."""

    position: int
    plan: str


@dataclass(frozen=True, slots=True)
class StepUse:
    """The probes of one step of a stream's tuples; the first step is 1.

    ``paid``: what the allowed ones cost. A probe that looks at a part of a window counts as that part. What it takes
    to complete a key counts, too.
    """

    stream: str
    step: int
    wanted: int
    allowed: int
    refused: int
    paid: float


@dataclass(frozen=True, slots=True)
class Share:
    """An estimated share of a full answer that was found, and its standard error.

    >>> f"{Share(0.613, 0.009)}"
    '61.3% (standard error 0.9%)'

    """

    share: float
    error: float

    def __str__(self) -> str:
        return f"{self.share:.1%} (standard error {self.error:.1%})"


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """What a budget was spent on, and what was left out.

    Attributes:
        allocation: who divided it.
        needed: probes per second of event time that would have refused nothing, as last estimated.
        granted: probes per second of event time that there were, by then.
        steps: what was wanted, allowed and refused.
        share: the estimated share of the full join's results that was found. None: it cannot be said, since probes were
            refused that had no chance to be allowed.
        error: the standard error of the share.
        shed: by stream, tuples that were dropped at the input (``allocation="random_shedding"``).
        answer: the share of the query's own answer that it has got, after all its predicates; None: as above.
        streams: by stream, the share of the results that its tuples would have found.

    """

    allocation: str
    needed: float
    granted: float
    steps: tuple[StepUse, ...]
    share: float | None
    error: float | None
    shed: Mapping[str, int]
    answer: Share | None
    streams: Mapping[str, Share | None]

    @property
    def is_complete(self) -> bool:
        """Whether nothing was left out."""
        is_paid = all(use.paid >= use.allowed and not use.refused for use in self.steps)
        return is_paid and not any(self.shed.values())


@dataclass(frozen=True, slots=True)
class Summary:
    """What happened in a replay.

    Of queries that share a join, each has a summary. ``query``, ``results``, ``present`` and ``budget.answer`` are its
    own. All else is told of the one replay that served them all, and is the same in each of their summaries. So it must
    not be added up.
    Mappings are by alias, as the first query of ``group`` names its streams.

    Attributes:
        query: its name.
        group: the names of all queries that the replay served, its own included.
        present: when the query was there: from the tuple at one position up to that at another.
        tuples_in: rows of streams that took part.
        static: rows of static relations.
        results: rows emitted.
        late: rows that came too late to take part.
        bad: rows without an event time.
        states: base windows and kept states at the end of the input, before time ran out for their tuples.
        plans: the plans used.
        decisions: what was decided about the plan while it ran, and why; nothing if it was not to adapt.
        seconds: wall time, without compiling.
        compile_seconds: spent on compiling kernels, or on loading them.
        probes, candidates, stored, completions: work of the join.
        savings: what feedback saved; None where joins pass on all that they find.
        chains: for each stream whose window several queries shared at the end: the ends of its slices, in microseconds
            after a tuple's event time; None: for ever.
        routings: how many ages and selections were compared to tell results to queries.
        budget: what it was spent on; None where there is none.

    """

    query: str
    tuples_in: dict[str, int]
    static: dict[str, int]
    results: int
    late: dict[str, int]
    bad: dict[str, int]
    states: tuple[StateSize, ...]
    plans: tuple[PlanUse, ...]
    decisions: tuple[Decision, ...]
    seconds: float
    compile_seconds: float
    probes: int
    candidates: int
    stored: int
    completions: int
    savings: Savings | None = None
    group: tuple[str, ...] = ()
    present: tuple[tuple[int, int], ...] = ()
    chains: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)
    routings: int = 0

    budget: BudgetUse | None = None

    @property
    def is_shared(self) -> bool:
        """Whether one replay served several queries."""
        return len(self.group) > 1


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The answer of a query, what happened, and (if asked for) the late rows by alias: those of its whole group."""

    table: pa.Table
    summary: Summary
    late: dict[str, pa.Table] = field(default_factory=dict)
