"""What may change in a query between two runs from one checkpoint, and what it means for the results.

Durable are the rows of the base windows, in their buckets. So a query can go on from a checkpoint if the rows
that it needs are there, where it looks for them, and if it has nothing more to say about what was already said.

For an ISTREAM join, the SELECT list, residual predicates and comparisons between streams may change. A window that
shrinks gives the results that it would have given all along. One that grows does so from now on: it holds what it held
when the query stopped, and what had left does not come back. A condition on one stream may be added: rows in its window
that fail it are taken out of the log. Streams may change places in FROM, and aliases may change: these say how a query
is written.

Aggregates, DSTREAM and EXCEPT speak of results that were emitted before, so what decides those must stay. Static
relations are read again at every start: nothing of them is durable but, for those queries, a digest.

A checkpoint remembers the columns that every row in it has. A query may read any of these. What it does not carry
itself, rows that it adds lack, so from then on the checkpoint does not have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from thalweg.cql import format_interval
from thalweg.errors import CheckpointError
from thalweg.spark.description import FORMAT, Description, moved, shown


@dataclass(slots=True)
class Comparison:
    """A query beside the one that a checkpoint is of.

    Attributes:
        obstacles: why it cannot go on from there; empty if it can.
        notes: what else has changed, and what that means for the results.
        places: the position that each stream of the checkpoint has now.
        grown: by position now, the sizes that windows had which have grown.
        selected: the positions now of streams with conditions that are new.

    """

    obstacles: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    grown: dict[int, int] = field(default_factory=dict)
    selected: list[int] = field(default_factory=list)

    @property
    def rewrites(self) -> bool:
        """Whether the log has to be written anew."""
        return bool(self.grown or self.selected) or self.places != sorted(self.places)


def compare(old: Description, new: Description) -> Comparison:
    """What differs between the query of a checkpoint and another one."""
    if old == new:
        return Comparison(places=list(range(len(new["streams"]))))
    if old.get("format") != FORMAT:
        return Comparison([f"it has format {old.get('format', 'unknown')}, and this version reads format {FORMAT}"])
    before, now = ([stream["stream"] for stream in each["streams"]] for each in (old, new))
    if sorted(before) != sorted(now):
        return Comparison([f"it joined {', '.join(before)} and now joins {', '.join(now)}"])
    # A stream that is joined with itself can be told apart by alias, or by place. What is less of a change was meant.
    compared = [_compare(old, new, places) for places in _matchings(old, new)]
    return min(compared, key=lambda each: (len(each.obstacles), len(each.notes)))


def obstacles(old: Description, new: Description) -> list[str]:
    """Why the query ``new`` cannot go on from a checkpoint of ``old``; empty if it can."""
    return compare(old, new).obstacles


def check(query: str, old: Description, new: Description, checkpoint: str = "this checkpoint") -> Comparison:
    """Refuse to let a query go on from a checkpoint where it cannot; what differs if it can."""
    compared = compare(old, new)
    if compared.obstacles:
        raise CheckpointError(
            f"query '{query}' cannot go on from {checkpoint}: {'; '.join(compared.obstacles)}. {_POSSIBLE} "
            "For anything else, start with a new checkpoint directory."
        )
    return compared


_POSSIBLE = (
    "Of a join without DSTREAM and aggregates, these may change: the SELECT list and conditions between streams other "
    "than keys, if they read columns that the checkpoint has; the sizes of windows; conditions on one stream that are "
    "added; and the order of FROM."
)


def carried_on(old: Description, new: Description, compared: Comparison | None = None) -> Description:
    """What a checkpoint of ``old`` remembers once ``new`` has gone on from it: the columns that both carry."""
    streams = list(new["streams"])
    places = (compared or compare(old, new)).places
    for before, place in zip(old["streams"], places, strict=True):
        now = streams[place]
        both = {name: kind for name, kind in now["columns"].items() if before["columns"].get(name) == kind}
        streams[place] = now if now["time"] is None else now | {"columns": both}
    return new | {"streams": streams}


def _matchings(old: Description, new: Description) -> list[list[int]]:
    """For each stream of the old query, its position in the new one: by aliases if they are the same, and by order."""
    found: list[list[int]] = []
    for uses_aliases in (True, False):
        places = []
        for position, stream in enumerate(old["streams"]):
            mine = _positions(old, stream["stream"])
            theirs = _positions(new, stream["stream"])
            aliases = [new["streams"][other]["alias"].lower() for other in theirs]
            is_same = sorted(aliases) == sorted(old["streams"][other]["alias"].lower() for other in mine)
            rank = aliases.index(stream["alias"].lower()) if uses_aliases and is_same else mine.index(position)
            places.append(theirs[rank])
        if places not in found:
            found.append(places)
    return found


def _positions(described: Description, stream: str) -> list[int]:
    return [position for position, each in enumerate(described["streams"]) if each["stream"] == stream]


def _compare(old: Description, new: Description, places: list[int]) -> Comparison:
    found = Comparison(places=places)
    _compare_order(found, new)
    for before, place in zip(old["streams"], places, strict=True):
        _compare_stream(found, before, place, old, new)
    _compare_thetas(found, old, new)
    for part, (what, comparable, texts) in _FIXED.items():
        if comparable(old[part], places) != comparable(new[part], range(len(places))):
            was, now = (shown("; ".join(texts(each[part])), each) or "none" for each in (old, new))
            found.obstacles.append(f"its {what} were {was} and are now {now}")
    if old["buckets"] != new["buckets"]:
        found.obstacles.append(
            f"it ran in {old['buckets']} buckets and would now run in {new['buckets']}; "
            f"pass the option buckets={old['buckets']}"
        )
    elif _axes(old["axes"], places) != _axes(new["axes"], range(len(places))):
        found.obstacles.append(
            "its rows would be spread over the buckets in another way. Keep the order of FROM and of the conditions"
        )
    return found


def _compare_order(found: Comparison, new: Description) -> None:
    if found.places == sorted(found.places):
        return
    counts_rows = any(stream["window"]["kind"] == "ROWS" for stream in new["streams"])
    if new["kind"] == "difference" or (new["lasting"] and counts_rows):
        found.obstacles.append("its streams are in another order, on which results depend that were emitted before")
    elif counts_rows:
        found.notes.append("FROM has another order: rows of one time count in this order from now on")
    else:
        found.notes.append("FROM has another order, which changes no result")


def _compare_stream(found: Comparison, before: Description, place: int, old: Description, new: Description) -> None:
    now, alias = new["streams"][place], new["streams"][place]["alias"]
    was_static, is_static = before["time"] is None, now["time"] is None
    if was_static != is_static:
        kinds = ("a static relation", "a stream")
        found.obstacles.append(f"{alias} was {kinds[not was_static]} and is now {kinds[not is_static]}")
        return
    if is_static and not new["lasting"]:
        return
    if before["rows"] != now["rows"]:
        found.obstacles.append(f"the rows of {alias} are others, under results that were emitted before")
    if before["time"] != now["time"]:
        found.obstacles.append(f"the event time of {alias} was '{before['time']}' and is now '{now['time']}'")
    _compare_selections(found, before, place, old, new)
    _compare_columns(found, before, now)
    _compare_windows(found, before, place, new)


def _compare_selections(found: Comparison, before: Description, place: int, old: Description, new: Description) -> None:
    now, alias = new["streams"][place], new["streams"][place]["alias"]
    had = {moved(text, found.places) for text in before["selection"]}
    added = [shown(text, new) for text in now["selection"] if text not in had]
    if not added and len(had) == len(now["selection"]):
        return
    was, is_now = (
        shown(" AND ".join(texts), each) for texts, each in ((before["selection"], old), (now["selection"], new))
    )
    if new["lasting"] or not had.issubset(now["selection"]):
        rule = "under results that have yet to leave" if new["lasting"] else "conditions may be added, not taken away"
        found.obstacles.append(
            f"the selection of {alias} was {_quoted(was)} and is now {_quoted(is_now)} ({rule}: "
            f"{'what it decides was emitted' if new['lasting'] else 'rows that failed are not in the checkpoint'})"
        )
        return
    lacking = [name for name, kind in now["selects"].items() if before["columns"].get(name) != kind]
    if lacking:
        found.obstacles.append(_lacking(now, lacking))
    if not now["asks_log"]:
        found.obstacles.append(
            f"the selection of {alias} is now {_quoted(is_now)}, and that of the rows in the checkpoint is computed "
            "without Spark, which cannot be done"
        )
    found.selected.append(place)
    found.notes.append(f"{' AND '.join(added)} is new: rows in the window of {alias} that fail it no longer join")


def _compare_thetas(found: Comparison, old: Description, new: Description) -> None:
    """Comparisons may change like residual predicates, as long as the rows have what is compared."""
    if _thetas(old["thetas"], found.places) == _thetas(new["thetas"], range(len(found.places))):
        return
    was, now = (" AND ".join(theta["text"] for theta in each["thetas"]) or "none" for each in (old, new))
    change = f"its comparisons were {was} and are now {now}"
    had = {(moved(text, found.places), theta["type"]) for theta in old["thetas"] for text in theta["computed"]}
    lacking = [
        shown(text, new) for theta in new["thetas"] for text in theta["computed"] if (text, theta["type"]) not in had
    ]
    if new["lasting"]:
        found.obstacles.append(f"{change}, under results that have yet to leave")
    elif lacking:
        found.obstacles.append(f"{change}, and rows in the checkpoint have no {', '.join(lacking)} to compare")
    else:
        found.notes.append(f"{change}, for all results from now on")


def _compare_columns(found: Comparison, before: Description, now: Description) -> None:
    """What is to be read of a stream and is not in its rows; of a static relation, what is read anew or no more."""
    alias = now["alias"]
    had: dict[str, str] = before["columns"]
    has: dict[str, str] = now["columns"]
    if now["time"] is None:
        changed = sorted({name for name, _ in had.items() ^ has.items()})
        if changed:
            what = f"the columns that are read of {alias} differ, under results that have yet to leave: "
            found.obstacles.append(what + ", ".join(changed))
        return
    if lacking := [name for name in now["required"] if name not in had]:
        found.obstacles.append(_lacking(now, lacking))
    found.obstacles += [
        f"the column {name} of {alias} was {had[name]} and is now {has[name]}"
        for name in now["required"]
        if name in had and had[name] != has[name]
    ]
    if lost := sorted(had.keys() - has.keys()):
        names = ", ".join(f"'{name}'" for name in lost)
        found.notes.append(f"{alias} is no longer carried with {names}, so no later query can read that from here")


def _lacking(now: Description, lacking: Sequence[str]) -> str:
    names = ", ".join(f"'{name}'" for name in lacking)
    return (
        f"it needs {'the column' if len(lacking) == 1 else 'the columns'} {names} of stream '{now['stream']}' as "
        f"{now['alias']}, which rows in the checkpoint lack, for not every query that ran from it carried "
        f"{'it' if len(lacking) == 1 else 'them'} (with a new checkpoint, App.stream(..., keep=[{names}]) carries "
        "what a later query may need)"
    )


def _compare_windows(found: Comparison, before: Description, place: int, new: Description) -> None:
    now = new["streams"][place]
    old_window, window, alias = before["window"], now["window"], now["alias"]
    old_by = [moved(text, found.places) for text in old_window.get("by", [])]
    if old_window["kind"] != window["kind"] or old_by != window.get("by", []):
        found.obstacles.append(f"the window of {alias} is of another kind")
        return
    was, size = old_window["size"], window["size"]
    if was == size:
        return
    grew = was is not None and (size is None or size > was)
    change = f"the window of {alias} {'grew' if grew else 'shrank'} from {_size(old_window)} to {_size(window)}"
    if new["lasting"]:
        found.obstacles.append(f"{change}, under results that have yet to leave")
    elif grew:
        found.grown[place] = was
        found.notes.append(f"{change}: from now on. Rows that had left it by then do not come back")
    else:
        found.notes.append(f"{change}: results are those of the smaller window from now on")


def _keys(keys: Iterable[Description], places: Sequence[int]) -> Any:
    return sorted(
        (sorted(moved(text, places) for text in key["members"]), key["type"], key["null_safe"]) for key in keys
    )


_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "<>": "<>"}


def _thetas(thetas: Iterable[Description], places: Sequence[int]) -> Any:
    """Comparisons, each written with the lesser text on its left."""
    found = []
    for theta in thetas:
        left, right = (moved(theta[side], places) for side in ("left", "right"))
        op, offset = theta["op"], theta["offset"]
        if left > right:
            left, right = right, left
            op, offset = (op if theta["absolute"] else _MIRRORED[op]), _opposite(offset, absolute=theta["absolute"])
        found.append((left, op, right, theta["type"], repr(offset), theta["absolute"]))
    return sorted(found)


def _opposite(offset: float | None, *, absolute: bool) -> float | None:
    return offset if absolute or not offset else -offset


def _texts(texts: Iterable[str], places: Sequence[int]) -> Any:
    return [moved(text, places) for text in texts]


def _axes(axes: Iterable[Description], places: Sequence[int]) -> Any:
    return [
        (axis["share"], sorted((places[s], kind, _texts(texts, places)) for s, (kind, texts) in enumerate(axis["by"])))
        for axis in axes
    ]


def _key_texts(keys: Iterable[Description]) -> list[str]:
    return [f"{(' <=> ' if key['null_safe'] else ' = ').join(key['members'])} as {key['type']}" for key in keys]


def _one(text: str) -> list[str]:
    return [f"'{text}'"]


def _same(value: str, places: Sequence[int]) -> Any:  # noqa: ARG001 - one of several ways to compare
    return value


_FIXED: dict[str, tuple[str, Any, Any]] = {
    "kind": ("kind", _same, _one),
    "output": ("results", _same, _one),
    "keys": ("keys", _keys, _key_texts),
    "aggregation": ("aggregates", _texts, list),
}
"""What stays: what it is called, how it is compared once streams are where they are now, and how it is written."""


def _size(window: Description) -> str:
    if window["size"] is None:
        return "UNBOUNDED"
    return format_interval(window["size"]) if window["kind"] == "RANGE" else f"{window['size']} rows"


def _quoted(text: str) -> str:
    return f"'{text}'" if text else "none"
