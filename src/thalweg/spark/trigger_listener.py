"""Listens to what Spark says of triggers, and leaves word of what they take for those queries that have a target.

Spark calls it in a thread of its own, a moment after a batch has ended. If the next one was planned by then, it goes by
the prices before.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from thalweg.spark.metrics import OBSERVED
from thalweg.spark.price_file import PriceFile
from thalweg.spark.pricing import Pricing

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

_log = logging.getLogger(__name__)


class TriggerListener(StreamingQueryListener):
    """Prices of the queries whose buckets report one; ``directory``: where to leave them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._runs: dict[str, tuple[str, Pricing]] = {}

    def place(self, identity: str) -> str:
        """Where the prices of a query of this identity are."""
        return str(self._directory / f"{identity}.json")

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        try:
            self._see(event.progress)
        except Exception:
            # Spark would log it without saying whose it is; the query goes on with the prices that it has.
            _log.exception("what a trigger has taken could not be told")

    def _see(self, progress: Any) -> None:
        texts = [
            text for row in (progress.observedMetrics or {}).values() if OBSERVED in row for text in row[OBSERVED] or ()
        ]
        reports = [json.loads(text) for text in texts]
        if not reports or "target" not in reports[0].get("spending", {}):
            return
        identity, pricing = self._runs.setdefault(str(progress.runId), (reports[0]["spending"]["identity"], Pricing()))
        prices = pricing.see(progress.durationMs.get("triggerExecution", 0) / 1000, reports)
        if prices is not None:
            PriceFile(self.place(identity)).write(prices)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        identity, _ = self._runs.pop(str(event.runId), ("", None))
        if identity:
            PriceFile(self.place(identity)).remove()
