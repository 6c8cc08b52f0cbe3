"""The status of a kept state, and how it may change: a table, from which the docs draw their diagram.

A state as a whole is one of these. The status of its single keys is in its directory (:mod:`.kernels.tables`): a
complete state needs none.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Int64s
from thalweg.errors import ThalwegError


class Status(IntEnum):
    """What of a state is there.

    ``COMPLETE``: everything. ``YOUNG``: everything that came since its birth, and of the keys that were completed
    everything. ``GATHERING``: young, and no program probes it. ``INCOMPLETE``: of live keys everything, of others
    nothing. ``PRINTED``: young as JISC prints it, which loses results.
    """

    INCOMPLETE = k.INCOMPLETE
    COMPLETE = k.COMPLETE
    PRINTED = k.PRINTED
    GATHERING = k.GATHERING
    YOUNG = k.YOUNG


BEGINNINGS: Mapping[Status, str] = {
    Status.COMPLETE: "nothing has arrived yet",
    Status.YOUNG: "a plan change, or a restart, begins it",
    Status.GATHERING: "the same, and no key could complete it",
    Status.PRINTED: "the same, under JISC as printed",
}
"""When a state begins with a status."""

CHANGES: Mapping[tuple[Status, Status], str] = {
    (Status.YOUNG, Status.COMPLETE): "a window below has no tuple left from before its birth, or few keys were absent",
    (Status.PRINTED, Status.COMPLETE): "likewise",
    (Status.GATHERING, Status.COMPLETE): "a window below has no tuple left from before its birth",
    (Status.COMPLETE, Status.INCOMPLETE): "cold keys make room, or joins give feedback",
    (Status.YOUNG, Status.INCOMPLETE): "cold keys make room, or joins give feedback",
    (Status.GATHERING, Status.INCOMPLETE): "cold keys make room",
    (Status.PRINTED, Status.INCOMPLETE): "joins give feedback",
    (Status.INCOMPLETE, Status.YOUNG): "feedback ends, and keys can complete it",
    (Status.INCOMPLETE, Status.PRINTED): "likewise, under JISC as printed",
    (Status.INCOMPLETE, Status.COMPLETE): "all of it was computed at once",
}
"""Why a state goes from one status to another. What is not here does not happen."""


def change(row: Int64s, status: Status) -> None:
    """Give a state another status; only as the table allows."""
    before = Status(int(row[k.N_COMPLETE]))
    if before != status and (before, status) not in CHANGES:
        raise ThalwegError(f"a state that is {before.name} does not become {status.name}")
    row[k.N_COMPLETE] = status


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2"]
    lines += [f"    [*] --> {status.name}: {why}" for status, why in BEGINNINGS.items()]
    lines += [f"    {one.name} --> {other.name}: {why}" for (one, other), why in CHANGES.items()]
    return "\n".join(lines)
