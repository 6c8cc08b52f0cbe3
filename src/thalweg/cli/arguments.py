"""Options that several commands share. What their values mean, :mod:`thalweg.cli.values` knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thalweg.cli.sources import SOURCE_EXAMPLE, read_sources
from thalweg.cli.values import adaptivity, budget_of, named, static_relations, time_columns, time_units

if TYPE_CHECKING:
    import pyarrow as pa

    from thalweg.event_times import TimeUnit
    from thalweg.options import Options

ScriptArgument = Annotated[str, typer.Argument(metavar="FILE", help="The query text; - reads it from stdin.")]
OptionalScriptArgument = Annotated[
    str | None, typer.Argument(metavar="[FILE]", help="The query text; - reads it from stdin.", show_default=False)
]
AdaptiveOption = Annotated[
    bool | None,
    typer.Option(
        "--adaptive/--no-adaptive",
        help="Whether the plan changes by itself when another one pays. Default: unless you write the plan.",
        show_default=False,
    ),
]
SourceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--source", metavar="NAME=PATH", help="A stream: .parquet, .csv or .jsonl, a directory of them, or a glob."
    ),
]
StaticOption = Annotated[
    list[str] | None,
    typer.Option(
        "--static", metavar="NAME=PATH", help="A static relation, read once: files as of --source, but without a time."
    ),
]
TimeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--time", metavar="COLUMN", help="Event time column: ts for every stream, trades=ts for one. Default: ts."
    ),
]
TimeUnitOption = Annotated[
    list[str] | None,
    typer.Option(
        "--time-unit",
        metavar="UNIT",
        help="What event times that are integers count since 1970: s, ms, us or ns; trades=ms for one stream. "
        "Default: us.",
    ),
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]


class StatesChoice(StrEnum):
    """Values of ``--states``."""

    AUTO = "auto"
    ALL = "all"
    NONE = "none"


class MigrationChoice(StrEnum):
    """Values of ``--migration``."""

    JISC = "jisc"
    MOVING_STATE = "moving_state"
    PARALLEL_TRACK = "parallel_track"
    CACQ = "cacq"
    STAIRS = "stairs"
    STAIRS_JISC = "stairs_jisc"
    PARALLEL_TRACK_PRINTED = "parallel_track_printed"


MigrationOption = Annotated[
    MigrationChoice,
    typer.Option(
        help="How the plan is changed: on demand, all at once, or side by side with the old one; the next three "
        "route every tuple by an eddy. The last one is for study."
    ),
]


class ProductionChoice(StrEnum):
    """Values of ``--production``."""

    PUSH = "push"
    JIT = "jit"
    AUTO = "auto"


ProductionOption = Annotated[
    ProductionChoice,
    typer.Option(
        help="Whether joins pass on all that they find (push), or only what the joins above have a partner for (jit), "
        "or that where it saves more than it costs (auto). The answer is the same."
    ),
]


class SharingChoice(StrEnum):
    """Values of ``--sharing``."""

    AUTO = "auto"
    MEMORY = "memory"
    CPU = "cpu"
    NONE = "none"
    PULL_UP = "pull_up"
    PUSH_DOWN = "push_down"


SharingOption = Annotated[
    SharingChoice,
    typer.Option(
        help="How queries over one join share its windows: in slices as the cost model advises (auto, cpu), or in as "
        "many as keep no tuple too long (memory). none: a join for each query. For comparison: one slice (pull_up), "
        "or a join for each part of the streams (push_down). The answers are the same."
    ),
]


MemoryOption = Annotated[
    str | None,
    typer.Option(
        "--memory-limit",
        metavar="SIZE",
        help='What windows and states may take, as in "64 MB": what nothing asks for goes first. Default: no limit.',
    ),
]


BudgetOption = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="PROBES",
        help='Probes that the join may make per second of event time, as in 5000, or "60%" of what it needs. '
        "Results are left out, and counted. Default: nothing is refused.",
    ),
]


TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target-trigger",
        metavar="SPAN",
        help='How long a trigger may take, as in "5 seconds": what it has no time for is left out, and counted. '
        "Default: as long as it takes.",
    ),
]


class AllocationChoice(StrEnum):
    """Values of ``--allocation``."""

    JAQPOT = "jaqpot"
    GREPP = "grepp"
    BEST_HJ = "best_hj"
    EQUAL_HJ = "equal_hj"
    GLOBAL_HJPR = "global_hjpr"
    EBEST_HJ = "ebest_hj"
    SBEST_HJ = "sbest_hj"
    RANDOM_SHEDDING = "random_shedding"
    HARVEST = "harvest"


AllocationOption = Annotated[
    AllocationChoice,
    typer.Option(
        help="Who divides the budget over streams and steps: jaqpot for the most results, the others to compare."
    ),
]


class ScaleChoice(StrEnum):
    """Values of ``--scale``."""

    QUICK = "quick"
    PAPER = "paper"


@dataclass(frozen=True, slots=True)
class Files:
    """Streams and static relations as files, which nobody has opened yet.

    Attributes:
        paths: where they are, by name.
        times: their time columns; None: a static relation has none.
        units: what times count that are integers, where it was said.

    """

    paths: Mapping[str, str]
    times: Mapping[str, str | None]
    units: Mapping[str, TimeUnit]

    def read(self) -> dict[str, pa.Table]:
        """What is in them."""
        return read_sources(self.paths, self.times)


@dataclass(frozen=True, kw_only=True)
class FileArguments:
    """Where streams and static relations come from."""

    source: SourceOption = None
    static: StaticOption = None
    time: TimeOption = None
    time_unit: TimeUnitOption = None

    def paths(self) -> dict[str, str]:
        """The files of the streams."""
        return named(self.source or [], "--source", SOURCE_EXAMPLE)

    def named(self, others: Iterable[str] = ()) -> Files:
        """The files; there are also ``others``, streams that have none."""
        paths = self.paths()
        streams = [*paths, *others]
        relations = static_relations(self.static or [], streams)
        times = {**time_columns(self.time or [], streams), **dict.fromkeys(relations)}
        return Files(paths | relations, times, time_units(self.time_unit or [], streams))


@dataclass(frozen=True, kw_only=True)
class PlanArguments:
    """How queries are run: what plans there may be, and how they change."""

    plan: Annotated[
        str | None, typer.Option(metavar="PLAN", help='Initial plan, such as "(A B) C". Default: the planner picks.')
    ] = None
    states: Annotated[
        StatesChoice, typer.Option(help="Which intermediate states to keep; auto: those that earn their keep.")
    ] = StatesChoice.AUTO
    migration: MigrationOption = MigrationChoice.JISC
    memory_limit: MemoryOption = None
    production: ProductionOption = ProductionChoice.PUSH
    adaptive: AdaptiveOption = None

    def options(self, **others: Any) -> Options:
        """The same as options, with others."""
        from thalweg.options import Options

        return Options(
            plan=self.plan,
            states=self.states.value,
            migration=self.migration.value,
            memory_limit=self.memory_limit,
            production=self.production.value,
            adaptive=adaptivity(self.adaptive),
            **others,
        )


@dataclass(frozen=True, kw_only=True)
class BudgetArguments:
    """How many probes joins may make, and who divides them."""

    budget: BudgetOption = None
    allocation: AllocationOption = AllocationChoice.JAQPOT

    def options(self) -> dict[str, Any]:
        """The same, by the names of options."""
        return {"budget": budget_of(self.budget), "allocation": self.allocation.value}
