"""What each batch of a bucket did, and what the bucket holds after it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from thalweg.driver.bucket_driver import BucketDriver
from thalweg.engine.feedback.savings import Savings
from thalweg.engine.observations import Work
from thalweg.plan.difference import format_any


class Measures:
    """Remembers the counts of a bucket at the end of the batch before."""

    def __init__(self) -> None:
        self._work = Work(0, 0, 0, 0, 0, 0)
        self._savings = Savings()

    def begin_with(self, driver: BucketDriver) -> None:
        """What was done so far is none of the next batch's."""
        self._work, self._savings = driver.bucket.work, driver.savings or Savings()

    def of_batch(self, driver: BucketDriver, tuples: int, aliases: tuple[str, ...]) -> dict[str, Any]:
        """As JSON; the history learns, too, how the states stand after so many more ``tuples``."""
        sizes = driver.bucket.sizes()
        streams = [size for size in sizes if len(size.node) == 1]
        driver.history.update(tuples, sizes)
        history, work, savings = driver.history.to_json(), driver.bucket.work, driver.savings
        measured = {
            "plan_changes": history["changes"],
            "history": history["periods"],
            "latest_decisions": [] if driver.controller is None else driver.controller.latest_decisions,
            "plan": None if driver.plan is None else format_any(driver.plan, aliases),
            "state_tuples": sum(size.tuples for size in streams),
            "state_entries": sum(size.tuples for size in sizes) - sum(size.tuples for size in streams),
            "state_bytes": sum(size.bytes for size in sizes),
            "probes": work.probes - self._work.probes,
            "completions": work.completions - self._work.completions,
        }
        if driver.join is not None:
            measured["slices"] = dict(zip(aliases, driver.join.slice_sizes(), strict=True))
        if savings is not None:
            measured["savings"] = asdict(savings.since(self._savings))
        self.begin_with(driver)
        return measured
