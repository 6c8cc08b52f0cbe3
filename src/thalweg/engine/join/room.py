"""Room for what the machine stops for: a window, a state, a directory or a table of feedback is full.

Windows take what they need. Under a memory limit (:mod:`thalweg.engine.states.memory_limit`), cold keys of states make
room for them.
"""

from __future__ import annotations

from functools import partial

from thalweg.engine.feedback.memory import FeedbackMemory
from thalweg.engine.kernels import tables as k
from thalweg.engine.machine.workspace import Workspace
from thalweg.engine.states.kept_states import KeptStates
from thalweg.engine.states.memory_limit import MemoryLimit
from thalweg.engine.windows.base_windows import BaseWindows


class Room:
    """The memory of a join. ``most``: bytes that windows and states may take; None: any number.

    Attributes:
        words_used: how much windows, states and feedback take.

    """

    def __init__(
        self,
        workspace: Workspace,
        windows: BaseWindows,
        states: KeptStates,
        feedback: FeedbackMemory,
        most: int | None,
    ) -> None:
        self._workspace = workspace
        self._windows = windows
        self._states = states
        self._feedback = feedback
        # No method of this object: the two would hold each other, and an engine's files would stay open after it.
        self.words_used = partial(_words_used, workspace, windows, states, feedback)
        self._limit = MemoryLimit(workspace, states, most, self.words_used)

    @property
    def is_limited(self) -> bool:
        """Whether there is a memory limit."""
        return self._limit.exists

    def keep_limit(self) -> None:
        """Make states smaller while windows and states take more than they may."""
        self._limit.keep()

    def make(self, stop: int, store: int) -> None:
        """Make room in the store that the machine stopped for."""
        if stop == k.WINDOW_FULL:
            self._widen(store)
            self._limit.keep()
        elif stop == k.STATE_FULL:
            self._limit.make_room(store)
        elif stop == k.FEEDBACK_FULL:
            self._feedback.make_room()
        else:
            self._limit.make_room_for_keys(store)

    def _widen(self, stream: int) -> None:
        """Make room in a base window: drop what died in its middle, or double it."""
        if self._windows.is_sparse(stream):
            self._states.sweep_holding(stream)
            first = int(self._workspace.streams[stream, k.S_NEXT])
            self._states.renumber(stream, self._windows.close_gaps(stream), first)
        else:
            self._windows.double(stream)
        self._windows.index(stream)


def _words_used(workspace: Workspace, windows: BaseWindows, states: KeptStates, feedback: FeedbackMemory) -> int:
    return sum(map(windows.words, range(len(workspace.layouts)))) + states.all_words() + feedback.words()
