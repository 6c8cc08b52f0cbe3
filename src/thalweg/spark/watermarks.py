"""How far time has come in a bucket, from what the tasks say about each stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from thalweg.engine.time_bounds import NEVER


@dataclass(slots=True)
class Watermarks:
    """The newest event time of each stream, and what follows from it.

    The watermark is the least, over the streams, of (newest event time - allowed lateness). A stream that has
    not begun holds it back. With an idle timeout, a stream that has said nothing for so long does not: it is left out
    until it speaks again (what it then brings may be late). The clock is that of the batches, which Spark keeps in its
    checkpoint, so a batch that is run again comes to the same result.

    Attributes:
        lateness: for each stream, in microseconds; None for a static relation, which nothing waits for.
        idle_timeout: in microseconds, or None.
        newest: the newest event time of each stream.
        spoke: when each stream was last heard of.
        watermark: no row before it is taken any more.
        waking: a run has begun, and no batch has said since what time it is.

    """

    lateness: tuple[int | None, ...]
    idle_timeout: int | None = None
    newest: list[int | None] = field(default_factory=list)
    spoke: list[int | None] = field(default_factory=list)
    watermark: int = NEVER
    waking: bool = False

    def __post_init__(self) -> None:
        self.newest = self.newest or [None] * len(self.lateness)
        self.spoke = self.spoke or [None] * len(self.lateness)

    @property
    def reached(self) -> int | None:
        """The newest event time of all streams; None before the first."""
        return max((newest for newest in self.newest if newest is not None), default=None)

    def wake(self) -> None:
        """A new run begins: streams had no chance to speak while nothing ran, so their silence counts from now on.

        That is, from the next batch on that says what time it is.
        """
        self.waking = True

    def hear(self, stream: int, newest: int | None, moment: int) -> None:
        """A task of a stream has rows up to ``newest``."""
        if newest is not None:
            known = self.newest[stream]
            self.newest[stream] = newest if known is None else max(known, newest)
            self.spoke[stream] = max(moment, self.spoke[stream] or moment)

    def advance(self, moment: int | None) -> int:
        """The watermark once all tasks of a batch have been heard; it never goes back."""
        if moment is not None:
            self.spoke = [moment if spoke is None or self.waking else spoke for spoke in self.spoke]
            self.waking = False
        active = [
            NEVER if newest is None else newest - late
            for newest, late, spoke in zip(self.newest, self.lateness, self.spoke, strict=True)
            if late is not None and not self._idle(spoke, moment)
        ]
        if active:
            self.watermark = max(self.watermark, min(active))
        return self.watermark

    def _idle(self, spoke: int | None, moment: int | None) -> bool:
        if self.idle_timeout is None or spoke is None or moment is None:
            return False
        return moment - spoke > self.idle_timeout

    def to_json(self) -> dict[str, Any]:
        return {"newest": self.newest, "spoke": self.spoke, "watermark": self.watermark, "waking": self.waking}

    def restore(self, known: dict[str, Any], places: Sequence[int] | None = None) -> None:
        """Go on where :meth:`to_json` was; ``places`` are the positions that its streams have now, if others."""
        order = range(len(known["newest"])) if places is None else places
        for stream, newest, spoke in zip(order, known["newest"], known["spoke"], strict=True):
            self.newest[stream], self.spoke[stream] = newest, spoke
        self.watermark, self.waking = known["watermark"], known["waking"]
