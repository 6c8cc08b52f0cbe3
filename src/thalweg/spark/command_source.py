"""Commands to a running query as a stream of Spark, whose offsets hold the commands themselves.

Only the driver looks at the command directory, when Spark asks what there is for the next batch. Its answer, the new
offset, has the commands in it, and Spark writes it down before the batch runs. So a batch that is run again obeys the
same commands whatever has happened to the files, and workers open none of them.

An offset has the names that are ``known``, so that no file is taken twice, and the ``commands`` of its batch, both as
JSON texts. The offset that a query begins with knows the files that were there before it. They are not for this query.
Its first batch says so in one refusal.

An offset also has what else a checkpoint should know for certain before a batch runs: a description of the ``query``
(:mod:`thalweg.spark.checkpoint` reads it), how often the query was started (``starts``), and the commands by which the
input has ended (``ends``): the end is final, so a query that has ended does not start again. A start that goes on from
a checkpoint has a batch at once, if only to say that it was started. So its windows are there again before the first
row comes, and so are its metrics and its plans.

Where triggers have a target, an offset also has the ``prices`` that hold from its batch on
(:mod:`thalweg.spark.prices`). The app leaves them in a file on the driver's host. They cause a batch only if they
differ much from those before.
"""

from __future__ import annotations

import base64
import json
import time
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from thalweg.errors import CheckpointError
from thalweg.spark.command_files import CommandFiles
from thalweg.spark.commands import PRICES, STARTED, Sent, decisive, ends_input
from thalweg.spark.price_file import PriceFile

MOST_COMMANDS = 100
"""Of a batch: what comes beyond waits for the next one, so that offsets stay below some megabytes."""

_LOOK_SECONDS = 1.0
"""Between two looks at a directory that is large or elsewhere: Spark asks a hundred times a second while nothing comes
in."""
_MANY_FILES = 1000
"""From so many on, the directory takes long to list, and the names are written down compressed."""
_NAMED = 3

QUERY = "query"
"""Where an offset has the description of the query, as JSON."""
_ENDS = "ends"
_PRICES = "prices"
_UNKNOWN = "null"
_COMPRESSED = "zlib:"

Offset = dict[str, Any]


class CommandSource(DataSource):
    """The source.

    Its options: ``directory``; ``before``, names of files as JSON; ``most``, commands of a batch; ``query``, a
    description as JSON; ``name``, the query's; ``tells_starts``, "true" if buckets are told of the first start, too;
    ``is_ending``, "true" if the batch that a start begins with, which was planned before, ends the input; ``prices``, a
    file; "" if triggers have no target.
    """

    @classmethod
    def name(cls) -> str:
        return "thalweg_commands"

    def schema(self) -> str:
        return "command STRING"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, ARG002 - Spark's name
        options = self.options
        return CommandReader(
            CommandFiles(options["directory"]),
            json.loads(options["before"]),
            int(options["most"]),
            options.get("query", _UNKNOWN),
            options.get("name", "query"),
            tells_starts=options.get("tells_starts") == "true",
            is_ending=options.get("is_ending") == "true",
            prices=options.get("prices", ""),
        )


class Commands(InputPartition):
    """The commands of a batch; ``starts``: it is the first one after a start; ``prices``: others, as text."""

    def __init__(self, sent: Sequence[Sent], *, starts: bool, prices: str | None = None) -> None:
        first = [STARTED] if starts else []
        told = [] if prices is None else [PRICES + prices]
        super().__init__([*first, *told, *(each.to_json() for each in sent)])


class CommandReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the commands of a directory.

    Args:
        files: the directory.
        before: the files that were there before the query.
        most: how many a batch may take.
        query: a description of the query, as JSON.
        name: what the query is called.
        tells_starts: whether the first batch after the first start says that it is one, as those after later starts do.
        is_ending: whether a batch that was planned before this start, and is taken again, ends the input.
        prices: the file in which prices are left; "": there are none.

    """

    def __init__(
        self,
        files: CommandFiles,
        before: Sequence[str],
        most: int = MOST_COMMANDS,
        query: str = _UNKNOWN,
        name: str = "query",
        *,
        tells_starts: bool = False,
        is_ending: bool = False,
        prices: str = "",
    ) -> None:
        self._prices = PriceFile(prices)
        self._files, self._before, self._most = files, list(before), most
        self._query, self._name, self._tells_starts = query, name, tells_starts
        self._is_ending = is_ending
        self._began_at: Offset | None = None
        self._is_new = False
        self._available: list[str] | None = None
        self._seen: list[str] = []
        self._looked: float | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        self._is_new = True
        return {**_offset(self._before, [], self._query, 0), "first": True}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        return ReadMaxFiles(self._most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._available = self._files.names()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        known = _decoded(start, "known")
        is_first = self._is_first_batch(start)
        if is_first and (self._is_ending or has_ended(start)):
            raise ended(self._name)
        present = self._present()
        seen = set(known)
        new = [name for name in present if name not in seen]
        if isinstance(limit, ReadMaxFiles):
            new = new[: limit.max_files]
        taken = [(name, *read) for name in new if (read := self._files.read(name)) is not None]
        told = [("control", "", _passed_over(known))] if start.get("first") and known else []
        begins = is_first and (self._tells_starts or not self._is_new)
        query, prices = self._described(start), self._prices.after(start.get(_PRICES, _UNKNOWN))
        is_same = start[QUERY] == query and start.get(_PRICES, _UNKNOWN) == prices
        if not taken and not told and not begins and is_same:
            return start
        # Names that have left the directory are forgotten.
        there = set(present)
        kept = [name for name in known if name in there]
        offset = _offset([*kept, *(name for name, *_ in taken)], [*told, *taken], query, start["starts"] + begins)
        ends = _ends(start)
        deciding = [list(each) for each in decisive(_sent(offset), self._name)]
        if any(command == "end" for command, _ in deciding) and deciding not in ends:
            ends.append(deciding)
        return {**offset, _ENDS: json.dumps(ends), **({} if prices == _UNKNOWN else {_PRICES: prices})}

    def _described(self, offset: Offset) -> str:
        """The description of this query once it has gone on from an offset; an error if it cannot.

        Spark asks before it writes anything down. So a query that does not fit leaves the checkpoint as it was.
        """
        known = offset[QUERY]
        if _UNKNOWN in (known, self._query) or known == self._query:
            return self._query
        from thalweg.spark.compatibility import carried_on, check  # which a query that has not changed need not load

        old, new = json.loads(known), json.loads(self._query)
        return json.dumps(carried_on(old, new, check(self._name, old, new)))

    def _is_first_batch(self, start: Offset) -> bool:
        """Whether the batch from here on is the first one planned since the start; one that is taken again is not."""
        if self._began_at is None:
            self._began_at = start
        return start == self._began_at

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        sent = _sent(end)
        self._described(end)  # the batch may have been planned by another query, and is run again by this one
        if start == end:
            return []
        prices = end.get(_PRICES)
        others = None if prices == start.get(_PRICES) else prices
        return [Commands(sent, starts=end["starts"] > start["starts"], prices=others)]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        for text in partition.value:
            yield (text,)

    def _present(self) -> list[str]:
        """The names in the directory: now, or when it was started, where it takes only what was available then."""
        if self._available is not None:
            return self._available
        now = time.monotonic()
        is_quick = self._files.is_local and len(self._seen) < _MANY_FILES
        if self._looked is None or is_quick or now - self._looked >= _LOOK_SECONDS:
            self._seen, self._looked = self._files.names(), now
        return self._seen


def has_ended(offset: Offset, query_id: str | None = None) -> bool:
    """Whether the input of a query has ended by the batch of this offset; ``query_id`` is Spark's own, if known."""
    return any(ends_input(commands, query_id) for commands in _ends(offset))


def ended(query: str, checkpoint: str = "this checkpoint") -> CheckpointError:
    """Why a query that has ended does not start again."""
    return CheckpointError(
        f"query '{query}' cannot go on from {checkpoint}: its input has ended, by the command 'end' or by thalweg run "
        "--once --end. That is final: what waited was emitted, and all rows that come later would be late. For new "
        "rows, start with a new checkpoint directory, and another sink if it is not to have the old results twice. "
        "A run that is to go on later is stopped without ending its input."
    )


def _ends(offset: Offset) -> list[list[list[str | None]]]:
    """The commands of the batches that ended the input of some query."""
    ends: list[list[list[str | None]]] = json.loads(offset.get(_ENDS, "[]"))
    return ends


def _sent(offset: Offset) -> list[Sent]:
    """The commands of the batch that ends at an offset."""
    return [Sent(place, *each) for place, each in enumerate(_decoded(offset, "commands"))]


def _offset(known: Sequence[str], commands: Sequence[tuple[str, str, str | None]], query: str, starts: int) -> Offset:
    """Spark wants plain values."""
    return {"known": _names_text(known), "commands": json.dumps(commands), QUERY: query, "starts": starts}


def _decoded(offset: Offset, part: str) -> list[Any]:
    if part not in offset:
        raise CheckpointError(
            "the checkpoint was written by a version of thalweg that read commands in another way. Start with a new "
            "checkpoint directory."
        )
    text: str = offset[part]
    if text.startswith(_COMPRESSED):
        text = zlib.decompress(base64.b64decode(text.removeprefix(_COMPRESSED))).decode()
    decoded: list[Any] = json.loads(text)
    return decoded


def _names_text(names: Sequence[str]) -> str:
    """Names as a text that does not grow large.

    Spark writes it down with every batch. All names of files that are still there are needed, for nothing else tells a
    command that was taken from a new one: numbers begin anew in a directory that was cleared, and two who send at the
    same time may choose the same one.
    """
    text = json.dumps(names)
    if len(names) < _MANY_FILES:
        return text
    return _COMPRESSED + base64.b64encode(zlib.compress(text.encode(), level=9)).decode()


def _passed_over(files: Sequence[str]) -> str:
    """What is said of commands that were there before the query."""
    more = len(files) - _NAMED
    named = ", ".join(files[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
    if len(files) == 1:
        return f"the command {named} was there before this query, so it is not obeyed. Send it again if it is meant."
    return (
        f"{len(files):,} commands were there before this query, so they are not obeyed: {named}. "
        "Send those again that are meant."
    )
