"""Options that several commands share, and arguments as ``NAME=VALUE``, ``POSITION:PLAN`` and ``POSITION:QUERY``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from thalweg.cli.secrets import redacted

if TYPE_CHECKING:
    from thalweg.event_times import TimeUnit
    from thalweg.options import Adaptivity
    from thalweg.replayer.replaying import Entry

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


def adaptivity(chosen: bool | None) -> bool | Adaptivity:
    """What ``--adaptive`` stands for: asked for, it holds for a plan that was written too."""
    from thalweg.options import Adaptivity

    return Adaptivity() if chosen else chosen is None


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


def budget_of(text: str | None) -> int | str | None:
    """The value of ``--budget`` as an option: a number, or a text."""
    return int(text) if text is not None and text.strip().isdecimal() else text


class ScaleChoice(StrEnum):
    """Values of ``--scale``."""

    QUICK = "quick"
    PAPER = "paper"


def named(values: Iterable[str], option: str, example: str) -> dict[str, str]:
    """``NAME=VALUE`` arguments as a mapping."""
    pairs: dict[str, str] = {}
    for text in values:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (equals and name and value):
            raise typer.BadParameter(f"'{redacted(text)}' is not of the form {example}.", param_hint=option)
        if name in pairs:
            raise typer.BadParameter(f"'{name}' is given twice.", param_hint=option)
        pairs[name] = value
    return pairs


def time_columns(values: Iterable[str], streams: Iterable[str]) -> Mapping[str, str]:
    """The time column of each stream, from ``ts`` (for all) and ``A=ts`` (for one)."""
    streams = list(streams)
    default, special = _per_stream(values, streams, "--time", "ts or trades=ts")
    return {stream: special.get(stream, default or "ts") for stream in streams}


def time_units(values: Iterable[str], streams: Iterable[str]) -> dict[str, TimeUnit]:
    """The unit of the event times of each stream that has one said, from ``ms`` (for all) and ``A=ms`` (for one)."""
    from thalweg.errors import InputError
    from thalweg.event_times import checked_unit

    streams = list(streams)
    default, special = _per_stream(values, streams, "--time-unit", "ms or trades=ms")
    given = ({} if default is None else dict.fromkeys(streams, default)) | special
    try:
        return {stream: checked_unit(unit) for stream, unit in given.items()}
    except InputError as error:
        raise typer.BadParameter(f"{error}.", param_hint="--time-unit") from error


def _per_stream(
    values: Iterable[str], streams: Sequence[str], option: str, example: str
) -> tuple[str | None, dict[str, str]]:
    """What was given for all streams, if anything, and what for single ones."""
    values = list(values)
    common = [value.strip() for value in values if "=" not in value]
    if len(common) > 1:
        raise typer.BadParameter(f"both '{common[0]}' and '{common[1]}' are for all streams.", param_hint=option)
    special = named((value for value in values if "=" in value), option, example)
    for stream in special:
        if stream not in streams:
            known = ", ".join(streams) or "none"
            raise typer.BadParameter(f"'{stream}' is no source; the sources are: {known}.", param_hint=option)
    return common[0] if common else None, special


def static_relations(values: Iterable[str], streams: Iterable[str]) -> dict[str, str]:
    """Where the static relations are, by name."""
    relations = named(values, "--static", "sectors=sectors.csv")
    for name in streams:
        if name in relations:
            raise typer.BadParameter(f"'{name}' is a stream already.", param_hint="--static")
    return relations


def switches(values: Iterable[str]) -> list[tuple[int, str]]:
    """``POSITION:PLAN`` arguments as (position, plan) pairs."""
    return _at_positions(values, "--switch", '100000:"(B C) A"', "a plan")


def entries(enter: Iterable[str], leave: Iterable[str]) -> list[Entry]:
    """``POSITION:QUERY`` arguments as entries."""
    example, what = "100000:NAME", "the name of a query"
    return [
        *((position, name, "enter") for position, name in _at_positions(enter, "--enter", example, what)),
        *((position, name, "leave") for position, name in _at_positions(leave, "--leave", example, what)),
    ]


def _at_positions(values: Iterable[str], option: str, example: str, what: str) -> list[tuple[int, str]]:
    pairs = []
    for text in values:
        position, colon, value = text.partition(":")
        if not (colon and position.replace("_", "").strip().isdecimal() and value.strip()):
            message = f"'{text}' is not of the form {example}: a number of tuples, a colon, {what}."
            raise typer.BadParameter(message, param_hint=option)
        pairs.append((int(position.replace("_", "")), value.strip()))
    return pairs
