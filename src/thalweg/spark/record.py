"""The record of a bucket: what is committed with every batch beside the rows of its log.

Invariant
    A record is a function of the record before and of the batch's input. What an engine has learned is no part of it.
    The token names what was committed: it is a digest of the record and of the token before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from thalweg.driver.bucket_driver import BucketDriver
from thalweg.engine.time_bounds import FOREVER
from thalweg.errors import CheckpointError
from thalweg.plan.difference import AnyPlan
from thalweg.plan.plan_json import any_plan_from_json
from thalweg.spark.bucket_spec import Arriving, Spec
from thalweg.spark.chunks import Chunks, placed
from thalweg.spark.compatibility import Comparison, carried_on, check
from thalweg.spark.description import FORMAT, Description
from thalweg.spark.intake import Intake
from thalweg.spark.prices import DEFAULT_PRICES, Prices
from thalweg.spark.shared_run import Registered
from thalweg.spark.watermarks import Watermarks

_REFUSALS = 10
"""Of commands, that are remembered: who sent one may look for it later than after the next batch."""


@dataclass(frozen=True, slots=True)
class Former:
    """Other queries shared the run until a batch: told by what has changed then, for there may be many, and often.

    Attributes:
        until: the batch.
        watermark: the one before it.
        entered: how many came with it; they are the last ones of those that were there from then on.
        left: those that were there until then, each with its place among them.

    """

    until: int
    watermark: int
    entered: int
    left: tuple[tuple[int, Registered], ...]

    @staticmethod
    def of(until: int, watermark: int, before: Sequence[Registered], after: Sequence[Registered]) -> Former:
        """The change from some queries to others. Those that stay keep their order, before those that come."""
        staying, known = frozenset(after), frozenset(before)
        left = tuple((place, each) for place, each in enumerate(before) if each not in staying)
        return Former(until, watermark, sum(each not in known for each in after), left)

    def before(self, after: Sequence[Registered]) -> tuple[Registered, ...]:
        """Those that were there, if these came after them."""
        there = list(after[: len(after) - self.entered])
        for place, each in self.left:
            there.insert(place, each)
        return tuple(there)


@dataclass(frozen=True, slots=True)
class Change:
    """The queries that share the run from a batch on, before which there was this watermark."""

    batch: int
    watermark: int
    registered: tuple[Registered, ...]


class Record:
    """What is to be committed of a bucket.

    Attributes:
        token: names what was committed last; "" before that.
        batch: how many batches the bucket has taken.
        ended: whether the input was ended by a command.
        refused: the last commands that were refused, and why.
        registered: the queries that share the run, in the order in which they entered.
        failed: the names of those that have been put out, as something cannot be computed for a row. They are taken
            until these leave: in other buckets such a query may still be there.
        former: what has changed of them, as long as rows from before that are in the log.
        chunks: what lies in the log.
        marks: how far time has come.
        intake: how many rows came.
        prices: what triggers have taken, as it was last told.

    """

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._described = spec.described
        self.token = ""
        self.batch = 0
        self.ended = False
        self.refused: list[str] = []
        self.registered = () if spec.shared is None else spec.shared.registered
        self.failed: list[str] = []
        self.former: list[Former] = []
        self.chunks = Chunks(spec.query)
        self.marks = Watermarks(spec.lateness, spec.idle_timeout)
        self.intake = Intake.of(len(spec.lateness))
        self.prices = DEFAULT_PRICES

    @property
    def watermark(self) -> int:
        """No row before it is taken any more."""
        return FOREVER if self.ended else self.marks.watermark

    def hear(self, arriving: Arriving) -> None:
        """Let time go on by what a batch says."""
        now = max((moment for _, _, moment in arriving.news), default=0) or None
        if arriving.starts:
            self.marks.wake()
        for stream, newest, moment in arriving.news:
            self.marks.hear(stream, newest, moment)
        self.marks.advance(now)

    def change(self, registered: Sequence[Registered]) -> None:
        """Other queries share the run from this batch on."""
        self.former.append(Former.of(self.batch, self.marks.watermark, self.registered, registered))
        self.registered = tuple(registered)

    @property
    def _all_registered(self) -> list[tuple[Registered, ...]]:
        """The queries that there were when the oldest rows in the log came, and after each change since."""
        found = [self.registered]
        for former in reversed(self.former):
            found.append(former.before(found[-1]))
        return found[::-1]

    @property
    def first_registered(self) -> tuple[Registered, ...]:
        """Those that were there when the oldest rows in the log came."""
        return self._all_registered[0]

    @property
    def changes(self) -> Iterator[Change]:
        """What has changed since then."""
        for former, registered in zip(self.former, self._all_registered[1:], strict=True):
            yield Change(former.until, former.watermark, registered)

    def forget_former(self) -> None:
        """Forget queries of whose time no rows are left."""
        oldest = self.chunks.oldest
        self.former = [each for each in self.former if oldest is not None and oldest < each.until]

    def remember_refused(self, refused: Sequence[str]) -> None:
        """Commands were refused."""
        self.refused = [*self.refused, *refused][-_REFUSALS:]

    def renew(self, driver: BucketDriver) -> str:
        """The text that is to be committed; from now on, it is what the bucket was last equal to."""
        content = {
            "format": FORMAT,
            "query": self._described,
            "batch": self.batch,
            "registered": [astuple(each) for each in self.registered],
            "failed": self.failed,
            "former": [astuple(each) for each in self.former],
            **driver.record(),
            "chunks": self.chunks.to_json(),
            "marks": self.marks.to_json(),
            "intake": self.intake.to_json(),
            "prices": self.prices.to_json(),
            "refused": self.refused,
            "ended": self.ended,
        }
        self.token = hashlib.sha256((self.token + json.dumps(content)).encode()).hexdigest()[:32]
        return json.dumps({"token": self.token, **content})

    def recall(self, text: str, driver: BucketDriver) -> Comparison:
        """Know, and let the driver know, what a text says; how the query has changed since.

        Chunks are known as they lie in the log.
        """
        known: dict[str, Any] = json.loads(text)
        if known["format"] != FORMAT:
            raise CheckpointError(
                f"query '{self._spec.query.name}': the checkpoint has format {known['format']}, and this version of "
                f"thalweg reads format {FORMAT}. Start with a new checkpoint directory."
            )
        compared = check(self._spec.query.name, known["query"], self._spec.described)
        self._described = carried_on(known["query"], self._spec.described, compared)
        self.token, self.batch, self.ended = known["token"], known["batch"], known["ended"]
        self.registered = _registered(known["registered"])
        self.failed = list(known["failed"])
        self.former = [_former(*each) for each in known["former"]]
        driver.recall(self._former_plan(known["plan"], known["query"], compared.places), known, compared.places)
        self.marks.restore(known["marks"], compared.places)
        self.intake = Intake.from_json(known["intake"], compared.places)
        self.prices = Prices.from_json(known["prices"])
        self.refused = list(known["refused"])
        self.chunks.restore(known["chunks"])
        driver.at(self.batch, self.marks.reached)
        return compared

    def _former_plan(
        self, known: Mapping[str, Any] | None, query: Description, places: Sequence[int]
    ) -> AnyPlan | None:
        """A plan in which streams have the names, and the positions, that they had in another ``query``."""
        if known is None:
            return None
        aliases = placed([stream["alias"] for stream in query["streams"]], places)
        kept = [[places[stream] for stream in node] for node in known["kept"]]
        return any_plan_from_json({**known, "kept": kept}, self._spec.query, aliases)


def _former(until: int, watermark: int, entered: int, left: Sequence[tuple[int, Sequence[Any]]]) -> Former:
    return Former(until, watermark, entered, tuple((place, Registered(*each)) for place, each in left))


def _registered(known: Sequence[Sequence[Any]]) -> tuple[Registered, ...]:
    return tuple(Registered(*each) for each in known)
