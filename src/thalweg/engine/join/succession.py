"""Which states the plan that follows takes over, and how those begin that it does not (JISC 4, 4.1).

States that both plans keep stay as they are, each key with its status. Those of the old plan alone are dropped, and
leave their room to those of the new one alone. These start *young*: they store what comes. What they lack of a key,
made of tuples that are there already, is completed when it is probed. A state that the new plan probes by another key
is indexed anew if it was complete, and else starts young. While nothing has arrived, nothing is missing.

States that have no key to be completed by may *gather* instead. They are young too, but programs pass them over as if
they were not kept, until nothing is missing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from thalweg.engine.join.programming import Manner
from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.machine.workspace import Workspace
from thalweg.engine.programs.assembly import Assembly
from thalweg.engine.states.kept_states import KeptStates
from thalweg.engine.states.status import Status
from thalweg.engine.time_bounds import FOREVER
from thalweg.engine.windows.base_windows import BaseWindows
from thalweg.plan.transition import without_a_key
from thalweg.plan.tree import Node, Plan


class Succession:
    """Carries states over from plan to plan. ``is_frugal``: a state leaves no room to the next."""

    def __init__(
        self, workspace: Workspace, windows: BaseWindows, states: KeptStates, manner: Manner, *, is_frugal: bool
    ) -> None:
        self._workspace = workspace
        self._windows = windows
        self._states = states
        self._manner = manner
        self._is_frugal = is_frugal

    @property
    def young(self) -> Status:
        """The status of a state that lacks what older tuples make."""
        return Status.PRINTED if self._manner.filling == "jisc_printed" else Status.YOUNG

    def gathering(self, plan: Plan) -> frozenset[Node]:
        """The states of a new plan that are to gather what comes, for want of a key to complete them by.

        In some window below, time must put an end to what is missing. Where an eddy routes, none does: there a state
        is promoted as a whole or not at all.
        """
        if self._windows.are_empty or self._manner.filling != "jisc" or self._manner.routed:
            return frozenset()
        whole = {
            node
            for node, row in self._old().items()
            if row[k.N_COMPLETE] == Status.COMPLETE or (row[k.N_KEY_COUNT] == 0 and row[k.N_LIVE])
        }
        nodes = without_a_key(plan, self._workspace.graph, whole)
        layouts = self._workspace.layouts
        return frozenset(node for node in nodes if any(layouts[stream].lifetime < FOREVER for stream in node))

    def carry_over(self, assembly: Assembly, gathering: frozenset[Node]) -> list[int]:
        """Have the states of new programs; tells which of them have to be indexed by another key."""
        old, rooms = self._old(), self._rooms(assembly)
        old_keys = {node: self._workspace.key_classes(i) for i, node in enumerate(self._workspace.nodes)}
        states = np.zeros((len(assembly.nodes), k.STATE_FIELDS), np.int64)
        rekeyed = []
        for i, node in enumerate(assembly.nodes):
            start, count = assembly.keys[i]
            if node not in old:
                room = rooms[len(node)].pop() if rooms[len(node)] else 0
                states[i] = self._states.new(node, self._beginning(node, gathering), room)
                continue
            states[i] = old[node]
            is_rekeyed = old_keys[node] != tuple(assembly.lists[start : start + count])
            is_complete = states[i, k.N_COMPLETE] == Status.COMPLETE
            is_gathering = states[i, k.N_COMPLETE] == Status.GATHERING
            if is_gathering != (node in gathering) or (is_rekeyed and not is_complete):
                self._states.free(states[i])
                states[i] = self._states.new(node, Status.GATHERING if node in gathering else self.young)
            elif is_rekeyed:
                rekeyed.append(i)
        self._workspace.states = states
        return rekeyed

    def _old(self) -> Mapping[Node, Int64s]:
        """The states that are kept now, with their rows."""
        return {node: self._workspace.states[i] for i, node in enumerate(self._workspace.nodes)}

    def _rooms(self, assembly: Assembly) -> dict[int, list[int]]:
        """Drop the states that nothing keeps any more; tells, per number of streams, the rooms that they leave."""
        rooms: dict[int, list[int]] = {len(node): [] for node in assembly.nodes}
        for node, row in self._old().items():
            if node not in assembly.nodes:
                rooms.get(len(node), []).append(0 if self._is_frugal else self._states.room_of(row))
                self._states.free(row)
        return rooms

    def _beginning(self, node: Node, gathering: frozenset[Node]) -> Status:
        """The status that a new state begins with."""
        if self._windows.are_empty:
            return Status.COMPLETE
        return Status.GATHERING if node in gathering else self.young
