"""Which queries a bucket serves: they enter, they leave, and those that cannot be computed for a row are put out.

The record of the bucket has them, its driver runs them, and its log keeps what they need. All three change together,
between two batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thalweg.cql.group import Group
from thalweg.driver.bucket_driver import BucketDriver
from thalweg.spark.bucket_spec import Delivery, Spec
from thalweg.spark.image_directory import tell_once
from thalweg.spark.record import Record
from thalweg.spark.shared_run import Registered


class Membership:
    """The queries of one bucket: those that share the run, or the only one that there is."""

    def __init__(self, spec: Spec, record: Record, driver: BucketDriver) -> None:
        self._spec, self._record, self._driver = spec, record, driver

    @property
    def group(self) -> Group:
        """The join and those of its queries that are there now."""
        return group_of(self._spec, self._record.registered)

    def prepare(self, registered: Sequence[Registered] | None = None) -> None:
        """Let the driver know, before a bucket is opened, who is there; None: those of the record."""
        known = self._record.registered if registered is None else registered
        self._driver.readers_are(group_of(self._spec, known))

    def follow(self) -> None:
        """Let the log keep what the queries that are there now need."""
        if self._spec.shared is not None:
            self._record.chunks.serve(self.group.whole, [each.until for each in self._record.former])

    def enter(self, entering: Registered) -> str | None:
        """Take in one more query; if that cannot be done, says why, or raises that."""
        record = self._record
        if self._spec.shared is None:
            what = f"query '{self._spec.query.name}' runs by itself"
            return f"{what}. Start it by app.register and app.start, so that others can share it."
        if entering.name in (*(each.name for each in record.registered), *record.failed):
            return f"there is a query '{entering.name}' already. Deregister it first, or choose another name."
        self._serve((*record.registered, entering))
        return None

    def leave(self, name: str, since: int | None) -> str | None:
        """Let a query go; ``since``: if it is the one that entered with this batch, for it has failed."""
        record = self._record
        staying = tuple(each for each in record.registered if each.name != name or since not in (None, each.since))
        if len(staying) < len(record.registered):
            self._serve(staying)
        elif name in record.failed:
            record.failed.remove(name)
        elif since is None:
            names = ", ".join(each.name for each in record.registered) or "none"
            return f"there is no query '{name}' in '{self._spec.query.name}'. Its queries are: {names}."
        return None

    def begin_without(self, failing: Mapping[str, str]) -> list[Delivery]:
        """Do without these queries, before a bucket is opened; each has its reason."""
        record = self._record
        out = [each for each in record.registered if each.name in failing]
        if out:
            record.registered = tuple(each for each in record.registered if each.name not in failing)
            self.prepare()
            self.follow()
        return self._noted(out, failing)

    def put_out(self, failing: Mapping[str, str]) -> list[Delivery]:
        """Do without these queries from now on; each has its reason."""
        out = [each for each in self._record.registered if each.name in failing]
        if out:
            self._serve([each for each in self._record.registered if each.name not in failing])
        return self._noted(out, failing)

    def _serve(self, registered: Sequence[Registered]) -> None:
        """Go on with other queries, as of the watermark of the batch before: also if this one ends the input."""
        self._driver.serve(group_of(self._spec, registered), self._record.marks.watermark)
        self._record.change(registered)
        self.follow()

    def _noted(self, out: Sequence[Registered], failing: Mapping[str, str]) -> list[Delivery]:
        """Queries that have been put out, for the record, the log of the process, and those who read them."""
        self._record.failed += [each.name for each in out]
        for each in out:
            tell_once(f"query '{each.name}' of '{self._spec.query.name}' has failed and ends: {failing[each.name]}")
        return [Delivery(each.name, each.since, None, failing[each.name]) for each in out]


def group_of(spec: Spec, registered: Sequence[Registered]) -> Group:
    """These queries, if several share the run; else the one."""
    return Group.of(spec.query) if spec.shared is None else spec.shared.group(registered)
