"""The machine that runs a join's programs: what it takes, what it finds, and for what it stops."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from thalweg.engine.kernels import machine as kernel
from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.accounts import A_IN_ORDER, Accounts
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.kernels.eddy import Eddy
from thalweg.engine.kernels.straight import run_straight
from thalweg.engine.machine.workspace import Workspace
from thalweg.engine.time_bounds import FOREVER

_OUTPUT_BLOCK = 1 << 15
"""Results per block: large enough that taking a block costs nothing, small enough for the cache."""


class Machine:
    """Runs the programs of a workspace over offered tuples.

    ``timed``: results carry their time and expiry, also where tuples come in order.

    ``aged``: results also carry their masks and the ages of their components, behind their rows.

    ``scored``: behind that, the number of the tuple that found them, and how many results of the full answer they stand
    for (as the bits of a float).

    Attributes:
        seconds: how long it has run, in this process.
        eddy: who picks the next probe of new tuples, if somebody does.
        accounts: what their probes are paid from, if there is a budget.

    """

    __image__: ClassVar = ("_unprocessed", "_unburied", "_horizon", "eddy", "accounts")

    def __init__(self, workspace: Workspace, *, timed: bool, aged: bool, scored: bool = False) -> None:
        self._workspace = workspace
        self._timed = timed or aged
        n = len(workspace.layouts)
        self._inbox = k.Inbox(np.zeros(0, np.int64), np.zeros((n, 2), np.int64))
        columns = (2 * n + 3 if aged else n + 2) + 2 * scored
        self._output = np.empty((columns, _OUTPUT_BLOCK), np.int64)
        self._scores = self._output[-1].view(np.float64) if scored else None
        self._registers[k.R_AGED] = aged
        self._deaths = np.empty((0, 3), np.int64)
        self._horizon = FOREVER
        self.seconds = 0.0
        self.eddy: Eddy | None = None
        self.accounts: Accounts | None = None

    # -- What it takes ------------------------------------------------------------------

    def offer(self, batches: Sequence[Int64s], watermark: int | None) -> None:
        """Hand over new tuples, per stream in time order; no tuple before ``watermark`` follows.

        Without one the tuples come in total order over all calls.
        """
        words = [batch.reshape(-1) for batch in batches]
        ends = np.cumsum([len(w) for w in words])
        self._inbox = k.Inbox(np.concatenate(words), np.stack([ends - [len(w) for w in words], ends], axis=1))
        if self._horizon < FOREVER:
            self._registers[k.R_WATERMARK] = max(self._horizon, self._workspace.watermark)
        self._horizon = FOREVER if watermark is None else min(watermark, FOREVER - 1)
        if self.accounts is not None:
            self.accounts.tally[A_IN_ORDER] = watermark is None
        layouts = self._workspace.layouts
        counted = sum(len(b) for b, layout in zip(batches, layouts, strict=True) if layout.partition is not None)
        known = self._deaths[: self._registers[k.R_DEATHS]]
        self._deaths = np.concatenate([known, np.empty((counted, 3), np.int64)])

    def begin_at(self, watermark: int) -> None:
        """No tuple before this time is to come."""
        self._horizon = min(watermark, FOREVER - 1)
        self._registers[k.R_WATERMARK] = self._horizon

    def unprocessed(self) -> tuple[list[Int64s], int | None]:
        """Per stream, the offered tuples that were not taken yet; and the watermark they were offered with."""
        parts = []
        for layout, (at, end) in zip(self._workspace.layouts, self._inbox.place, strict=True):
            parts.append(self._inbox.tuples[at:end].reshape(-1, layout.offered))
        return parts, None if self._horizon == FOREVER else self._horizon

    @property
    def _unprocessed(self) -> k.Inbox:
        """The offered tuples, unless all are done with."""
        if (self._inbox.place[:, 0] < self._inbox.place[:, 1]).any():
            return self._inbox
        return k.Inbox(np.zeros(0, np.int64), np.zeros_like(self._inbox.place))

    @_unprocessed.setter
    def _unprocessed(self, inbox: k.Inbox) -> None:
        self._inbox = inbox

    # -- Running ------------------------------------------------------------------------

    @property
    def can_go_straight(self) -> bool:
        """Whether the programs only look up base RANGE windows by one key."""
        workspace = self._workspace
        return bool(
            (workspace.assembly.programs[:, k.G_STRAIGHT] > 0).all()
            and len(workspace.streams) == len(workspace.layouts)
            and (workspace.streams[:, k.S_ROWS] == 0).all()
            and (workspace.streams[:, k.S_PATHS] == 1).all()
            and (workspace.streams[:, k.S_KEPT_MASK] == 0).all()
        )

    def run(self, limit: int, *, straight: bool = False) -> tuple[int, int]:
        """Process up to so many tuples; (what it stopped for, which store).

        ``straight``: in the loop of their own that straight programs have.
        """
        workspace = self._workspace
        started = time.perf_counter()
        if straight:
            stopped = run_straight(
                workspace.memory.words,
                workspace.streams,
                workspace.paths,
                workspace.assembly.steps,
                workspace.work.rows,
                workspace.assembly.programs,
                self._registers,
                self._inbox.tuples,
                self._inbox.place,
                self._output,
                workspace.counters,
                self._horizon,
                self._timed,
                limit,
            )
        else:
            stopped = kernel.run(
                workspace.memory.words,
                workspace.memory.floats,
                workspace.tables,
                workspace.frames,
                self._inbox,
                self._output,
                self._deaths,
                workspace.counters,
                self._horizon,
                limit,
                self.eddy,
                workspace.assembly.feedback,
                self.accounts,
                self._scores,
            )
        self.seconds += time.perf_counter() - started
        return stopped

    def set_up(self, frame: int, program: int) -> None:
        """Let the next :meth:`run` begin with a program in a frame, before it takes any tuple."""
        workspace = self._workspace
        first = workspace.assembly.programs[program, k.G_FIRST]
        self._registers[[k.R_FRAME, k.R_DEPTH, k.R_STEP]] = frame, -1, first
        self._registers[k.R_PHASE] = workspace.assembly.steps[first, k.X_OP]
        workspace.frames.program[frame] = program
        workspace.frames.latest[frame, 0], workspace.frames.expiry[frame, 0] = workspace.watermark, FOREVER
        workspace.frames.mask[frame, 0] = k.ALL
        workspace.work.rows[first, k.W_ENTERED] += 1

    # -- What it finds ------------------------------------------------------------------

    def take_results(self) -> Int64s | None:
        """The results since this was last asked, until the machine runs again; None: none."""
        count = int(self._registers[k.R_OUTPUTS])
        self._registers[k.R_OUTPUTS] = 0
        return self._output[:, :count].T if count else None

    @property
    def columns(self) -> int:
        """How many columns a block of results has."""
        return len(self._output)

    def take_deaths(self) -> Int64s:
        """(stream, row, time) of the tuples that left ROWS windows since this was last asked."""
        deaths = self._deaths[: self._registers[k.R_DEATHS]].copy()
        self._registers[k.R_DEATHS] = 0
        return deaths

    @property
    def _unburied(self) -> Int64s:
        """The deaths that nobody has asked for, and room for those of the tuples to come."""
        known = int(self._registers[k.R_DEATHS])
        return self._deaths if len(self._unprocessed.tuples) else self._deaths[:known]

    @_unburied.setter
    def _unburied(self, deaths: Int64s) -> None:
        self._deaths = deaths

    @property
    def _registers(self) -> Int64s:
        return self._workspace.frames.registers
