"""How states get what they lack: key by key when something asks, all at once, or by waiting (JISC 4).

A young state lacks nothing once all tuples from before its birth have left one of its windows; whether they have is
asked when windows may have turned by half. JISC 4.3 also counts down the distinct keys that a complete child had at the
transition, so as to know it earlier. Here they are not counted, which would take as long as the window is large: more
than it costs to be young for a turn. If windows turn more slowly, absent keys are looked for: whether few keys of old
tuples in a base window below are still absent. A base window is always complete and has every key that a child can
have, so two incomplete children need not wait for each other. A look ends at the first keys too many; those of the last
one are completed at once.

Keys that no single stream carries are not looked for; and a state whose cold keys were made absent for want of memory
stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from thalweg.engine.kernels import states as state_kernels
from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.machine.machine import Machine
from thalweg.engine.machine.workspace import Workspace
from thalweg.engine.states.kept_states import KeptStates
from thalweg.engine.states.status import Status
from thalweg.engine.time_bounds import FOREVER
from thalweg.engine.windows.base_windows import BaseWindows

_PAUSE = 1 << 17
"""Tuples, at least, between two looks for the absent keys of young states: each takes up to a millisecond per state."""
_PATIENCE = 256
"""Tuples of a window that show whether it has more absent keys than a few."""
_FEW_KEYS = 16
"""So few absent keys are completed at once, however few are live: cheaper than looking again."""
_MANY_KEYS = 256
"""So many absent keys are not completed at once, however many are live: the output would wait for them."""


class Completion:
    """Completes states, and notices when they are.

    ``make_room(stop, store)``: what to do when the machine stops for a full store.
    """

    __image__: ClassVar = ("_due", "_look_at")

    def __init__(
        self,
        workspace: Workspace,
        windows: BaseWindows,
        states: KeptStates,
        machine: Machine,
        make_room: Callable[[int, int], None],
    ) -> None:
        self._workspace = workspace
        self._windows = windows
        self._states = states
        self._machine = machine
        self._make_room = make_room
        self._due = 0, 0
        """How many tuples have to be taken, or which time to be reached, until windows may have turned by half."""
        self._look_at = 0
        self._shortest = min((layout.ends[-1] for layout in workspace.layouts), default=FOREVER)

    # -- Noticing -----------------------------------------------------------------------

    def begin(self) -> None:
        """States have become young: give windows time to turn."""
        self._wait_a_turn()
        self._wait_half_a_turn()

    @property
    def is_due(self) -> bool:
        """Whether states may have become complete."""
        return self._workspace.taken >= self._due[0] or self._workspace.watermark >= self._due[1]

    def detect(self) -> None:
        """Find states that have become complete (JISC 4.3)."""
        self._windows.purge()
        for index in self._states.old_enough():
            self._states.finish(index)

    def look(self) -> None:
        """Look for absent keys, if windows turn slowly; and do not ask again before they may have turned."""
        if self._workspace.taken >= self._look_at:
            self.finish_nearly_complete()
            self._wait_a_turn()
        self._wait_half_a_turn()

    def _wait_a_turn(self) -> None:
        """Do not look for absent keys before as many tuples have come as windows hold now."""
        self._look_at = self._workspace.taken + max(_PAUSE, self._windows.all_held())

    def _wait_half_a_turn(self) -> None:
        """Do not ask whether windows have turned before half as many tuples have come, or half a RANGE has passed."""
        workspace = self._workspace
        self._due = workspace.taken + self._windows.all_held() // 2, workspace.watermark + self._shortest // 2

    def finish_nearly_complete(self) -> None:
        """Find the young states of which few keys are still absent, and complete those."""
        rows, nodes = self._workspace.states, self._workspace.nodes
        for index in sorted(self._states.with_status(Status.YOUNG), key=lambda i: len(nodes[i])):
            few = min(_FEW_KEYS + int(rows[index, k.N_LIVE]) // 4, _MANY_KEYS)
            keys = self.absent_keys(index, few)
            if keys is not None:
                self.complete_keys(index, keys)
                if rows[index, k.N_COMPLETE] == Status.YOUNG:  # unless the memory for it ran out meanwhile
                    self._states.finish(index)

    def absent_keys(self, index: int, few: int) -> Int64s | None:
        """The keys that a young state may lack something of, as (hash, codes).

        None: there are more than few, or no single stream carries them.
        """
        workspace, carrier = self._workspace, self._states.carrier(index)
        if carrier is None:
            return None
        stream, fields = carrier
        found = np.empty((few + 1, 1 + len(fields)), np.int64)
        places = np.zeros(2 << len(found).bit_length(), np.int64)
        count = state_kernels.absent_keys(
            workspace.memory.words,
            workspace.tables,
            index,
            stream,
            fields,
            workspace.watermark,
            found,
            places,
            _PATIENCE,
            few,
            *workspace.assembly.parts[index],
            np.zeros((1, workspace.frames.code.shape[1]), np.int64),
        )
        return None if count < 0 or count > few else found[:count]

    # -- Completing ---------------------------------------------------------------------

    def complete_keys(self, index: int, keys: Int64s) -> None:
        """Complete these keys, each given by its hash and its codes.

        Called key by key: a kernel that went through all of them would take as long to compile as the whole machine.
        """
        workspace, classes = self._workspace, list(self._workspace.key_classes(index))
        for key in keys:
            while 2 * (workspace.states[index, k.N_LIVE] + 1) > workspace.states[index, k.N_DIRECTORY_MASK]:
                self._make_room(k.DIRECTORY_FULL, index)
            row, frames = workspace.states[index], workspace.frames
            frames.waiting[0] = -1  # no probe waits below
            frames.state[1], frames.key[1] = index, key[0]
            frames.birth[1] = row[k.N_BIRTH] if row[k.N_COMPLETE] == Status.YOUNG else -1
            frames.code[1, classes] = key[1:]
            workspace.counters[k.C_COMPLETIONS] += 1
            self._run_program(1, len(workspace.layouts) + index)

    def fill(self, indices: Sequence[int]) -> None:
        """Compute all entries of incomplete states, from the bottom up (Moving State, JISC 3.2)."""
        workspace = self._workspace
        for index in sorted(indices, key=lambda i: len(workspace.nodes[i])):
            if workspace.states[index, k.N_COMPLETE] == Status.COMPLETE:
                continue
            self._states.empty(index)
            self._states.finish(index)
            self._run_program(0, len(workspace.layouts) + len(workspace.nodes) + index)

    def _run_program(self, frame: int, program: int) -> None:
        """Let the machine run a program in a frame, and take no tuples."""
        self._machine.set_up(frame, program)
        stop, store = self._machine.run(0)
        while stop != k.FINISHED:
            self._make_room(stop, store)
            stop, store = self._machine.run(0)
