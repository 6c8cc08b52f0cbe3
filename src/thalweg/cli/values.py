"""What the values of options mean: ``NAME=VALUE``, ``POSITION:PLAN``, ``POSITION:QUERY``, and some words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import typer

from thalweg.cli.secrets import redacted

if TYPE_CHECKING:
    from thalweg.event_times import TimeUnit
    from thalweg.replayer.schedule import Entry
    from thalweg.settings import Adaptivity


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


def adaptivity(chosen: bool | None) -> bool | Adaptivity:
    """What ``--adaptive`` stands for: asked for, it holds for a plan that was written too."""
    from thalweg.settings import Adaptivity

    return Adaptivity() if chosen else chosen is None


def budget_of(text: str | None) -> int | str | None:
    """The value of ``--budget`` as an option: a number, or a text."""
    return int(text) if text is not None and text.strip().isdecimal() else text


def latenesses(values: Iterable[str], streams: Iterable[str]) -> Mapping[str, str]:
    """The lateness of each stream, from ``5 seconds`` (for all) and ``A=5 seconds`` (for one)."""
    streams = list(streams)
    default, special = _per_stream(values, streams, "--lateness", '"5 seconds" or trades="5 seconds"')
    return {stream: special.get(stream, "0 seconds" if default is None else default) for stream in streams}


def kept_columns(
    values: Iterable[str], streams: Iterable[str], relations: Iterable[str]
) -> dict[str, list[str] | Literal["all"]]:
    """The columns to keep of each stream, from ``A=x, y`` and ``A=all``."""
    kept: dict[str, list[str] | Literal["all"]] = {}
    for stream, columns in named(values, "--keep", 'trades="venue, px" or trades=all').items():
        if stream not in streams:
            reason = "is a static relation, which is in no checkpoint" if stream in relations else "is no source"
            known = ", ".join(streams)
            raise typer.BadParameter(f"'{stream}' {reason}; the sources are: {known}.", param_hint="--keep")
        kept[stream] = "all" if columns == "all" else [column.strip() for column in columns.split(",")]
    return kept


def pace_of(trigger: str | None, *, once: bool) -> dict[str, Any]:
    """When batches run, in Spark's words."""
    from thalweg.cql import parse_interval
    from thalweg.errors import OptionError, ThalwegError

    if once:
        return {"availableNow": True}
    if trigger is None:
        return {"processingTime": "0 seconds"}
    try:
        return {"processingTime": f"{parse_interval(trigger) // 1000} milliseconds"}
    except ThalwegError as error:
        raise OptionError(f"--trigger is '{trigger}': {error}") from error
