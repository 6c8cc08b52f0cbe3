"""What a replay leads to: the answer, and what happened on the way."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from thalweg.adapt.decision import Decision
from thalweg.engine.savings import Savings


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
    """The probes of one step of a stream's tuples; the first step is 1."""

    stream: str
    step: int
    wanted: int
    allowed: int
    refused: int


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

    """

    allocation: str
    needed: float
    granted: float
    steps: tuple[StepUse, ...]
    share: float | None
    error: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    """What happened in a replay; mappings are by alias.

    Attributes:
        query: its name.
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
    budget: BudgetUse | None = None


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The answer, what happened, and (if asked for) the late rows by alias."""

    table: pa.Table
    summary: Summary
    late: dict[str, pa.Table] = field(default_factory=dict)
