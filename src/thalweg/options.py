"""What a user may set, each default with its reason."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from thalweg.errors import OptionError

States = Literal["auto", "all", "none"]
Migration = Literal[
    "jisc",
    "moving_state",
    "parallel_track",
    "cacq",
    "stairs",
    "stairs_jisc",
    "parallel_track_printed",
    "jisc_printed",
]
_MOST_BUCKETS = 4096
_UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG]?B|)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of a run; every one has a default that needs no thought.

    Attributes:
        plan: the initial plan as text, e.g. ``"((A B) C) D"``; None lets the planner pick.
        states: which intermediate states of a tree are kept: ``"all"`` (a pipeline), ``"none"``
            (an M-Join), or ``"auto"``: those that the cost model expects to earn their keep.
        migration: how a join changes its plan. ``"jisc"``: what the new plan lacks is computed when something asks
            for it, so that the output never stalls. ``"moving_state"``: all of it at once, before the next tuple.
            ``"parallel_track"``: both plans run until the old one has nothing of its own to say. Eddies send every
            tuple its own way: ``"cacq"`` keeps no states, ``"stairs"`` and ``"stairs_jisc"`` those of the plan, and
            compute what a new one lacks at once or on demand. The answer is the
            same. Two more are for study: ``"parallel_track_printed"``, and ``"jisc_printed"``, which loses results.
        memory_limit: what windows and states may take, as bytes or text (``"64 MB"``); on Spark, of all buckets
            together. Windows take what they need; of states, keys that nothing asks for go first, and are computed
            again when something does. None: as much as they need. Only with the migration ``"jisc"``.
        batch_size: tuples handed to the engine at once. The answer does not depend on it.
            Large enough that the cost of a call disappears, small enough that a batch
            and its results stay in the processor's cache.
        lateness: how far a row may lag behind the newest of its stream, as an interval text
            (``"5 seconds"``). None: in process the input is taken as complete, so no row is late; on Spark it
            is that of the stream, or none.
        late_rows: ``"count"`` late rows, or also keep them: ``"table"``.
        buckets: on Spark, into how many parts the join is divided at most. None: one for each core, rounded
            up to a power of two.
        idle_timeout: on Spark, how long a stream may say nothing before the others stop waiting for it
            (an interval text); None: for ever.

    >>> Options(states="all").states
    'all'

    """

    plan: str | None = None
    states: States = "auto"
    migration: Migration = "jisc"
    memory_limit: int | str | None = None
    batch_size: int = 65_536
    lateness: str | None = None
    late_rows: Literal["count", "table"] = "count"
    buckets: int | None = None
    idle_timeout: str | None = None

    def __post_init__(self) -> None:
        _one_of("states", self.states, ("auto", "all", "none"))
        _one_of("migration", self.migration, get_args(Migration))
        _one_of("late_rows", self.late_rows, ("count", "table"))
        if self.memory_bytes is not None and self.migration != "jisc":
            raise OptionError(
                f"option memory_limit makes keys absent, which goes with migration jisc, not {self.migration}"
            )
        if not isinstance(self.batch_size, int) or self.batch_size < 1:
            raise OptionError(f"option batch_size is a number of tuples, at least 1, not {self.batch_size!r}")
        if self.buckets is not None and (not isinstance(self.buckets, int) or not 1 <= self.buckets <= _MOST_BUCKETS):
            raise OptionError(f"option buckets is a number from 1 to {_MOST_BUCKETS}, not {self.buckets!r}")

    @property
    def memory_bytes(self) -> int | None:
        """The memory limit in bytes."""
        limit = self.memory_limit
        if limit is None:
            return None
        if isinstance(limit, str) and (match := _SIZE.fullmatch(limit.strip())):
            limit = int(float(match[1]) * _UNITS[match[2].upper()])
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise OptionError(f"option memory_limit is a number of bytes or a text such as '64 MB', not {limit!r}")
        return limit

    @staticmethod
    def of(value: Options | Mapping[str, Any] | None) -> Options:
        """Options from what a caller passed: an :class:`Options`, a mapping, or nothing."""
        if value is None:
            return Options()
        if isinstance(value, Options):
            return value
        known = [field.name for field in fields(Options)]
        for name in value:
            if name not in known:
                close = difflib.get_close_matches(str(name), known, n=1)
                hint = f"Did you mean '{close[0]}'?" if close else f"The options are {', '.join(known)}."
                raise OptionError(f"unknown option '{name}'. {hint}")
        return Options(**value)


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise OptionError(f"option {name} is one of {', '.join(allowed)}, not {value!r}")
