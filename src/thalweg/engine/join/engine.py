"""The join of one bucket: base windows, kept states, and the plan that runs on them.

Base windows are facts, states are caches (every key live or absent). The engine is composed of parts that each have one
purpose and share a :class:`~thalweg.engine.machine.workspace.Workspace`:

========================================================= ================================================
part                                                      purpose
========================================================= ================================================
:class:`~thalweg.engine.join.programming.Programming`     makes the programs of a plan
:class:`~thalweg.engine.machine.machine.Machine`          runs them: takes tuples, finds results
:class:`~thalweg.engine.windows.base_windows.BaseWindows` the tuples of each stream, and the paths to them
:class:`~thalweg.engine.states.kept_states.KeptStates`    entries, directories of keys, statuses
:class:`~thalweg.engine.join.succession.Succession`       which states the next plan takes over
:class:`~thalweg.engine.states.completion.Completion`     gives states what they lack
:class:`~thalweg.engine.feedback.memory.FeedbackMemory`   what gates remember
:class:`~thalweg.engine.join.gate_choice.GateChoice`      lets somebody else choose the gates
:class:`~thalweg.engine.join.room.Room`                   makes room; cold keys become absent for it
:class:`~thalweg.engine.machine.accounts.Accounts`        lets probes be paid for, under a budget
:class:`~thalweg.engine.machine.eddy.EddyRouting`         lets an eddy pick the next probe
========================================================= ================================================

What is left for the engine itself is the order in which they act: when tuples come, when the machine asks for room, and
when the plan changes. It knows nothing of column types, files or time zones: tuples come in as rows of int64 words
(:mod:`thalweg.engine.rows.layout`) and results leave as row numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from thalweg.cql.query import Query
from thalweg.engine.feedback.gates import Gated, Gates
from thalweg.engine.feedback.memory import FeedbackMemory
from thalweg.engine.feedback.savings import Savings
from thalweg.engine.join.gate_choice import GateChoice
from thalweg.engine.join.programming import Manner, Programming
from thalweg.engine.join.room import Room
from thalweg.engine.join.succession import Succession
from thalweg.engine.join.tally import counts_of, work_done
from thalweg.engine.kernels import states as state_kernels
from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.machine.accounts import Accounts
from thalweg.engine.machine.eddy import EddyRouting
from thalweg.engine.machine.machine import Machine
from thalweg.engine.machine.workspace import Workspace
from thalweg.engine.observations import Counts, Glimpse, StoreSize, Work
from thalweg.engine.programs.assembly import Assembly, assemble
from thalweg.engine.rows.batch import in_row_order, in_time_order
from thalweg.engine.rows.layout import StreamLayout, layouts
from thalweg.engine.states.completion import Completion
from thalweg.engine.states.kept_states import KeptStates
from thalweg.engine.states.status import Status
from thalweg.engine.windows.base_windows import BaseWindows
from thalweg.plan.program import Programs, Rank
from thalweg.plan.slices import Slicing
from thalweg.plan.tree import Plan
from thalweg.policies import DEFAULT_POLICIES, Policies

_STRETCH = 1 << 14
"""Tuples that are taken at once while something may have to be looked at between two of them."""
_LONGEST_CROWD = 1 << 12
"""Tuples that are left to the general machine at once, at most, where straight programs find too many partners."""


class JoinEngine:
    """Runs one query's joins under a plan that may change between any two tuples.

    Calls come in this order, over and over: :meth:`offer` new tuples, :meth:`advance` through
    them; :meth:`transition` at any point between two calls of advance.

    ``policies``: :class:`~thalweg.engine.join.programming.Manner` says what an engine makes of them. Those of Parallel
    Track concern more than one engine (:mod:`thalweg.engine.migration.joiner`).

    ``timed``: see :class:`~thalweg.engine.machine.machine.Machine`.

    ``slicing``: how windows are divided for several readers. Then results carry their masks and the ages of their
    components.

    ``as_printed``: for study alone, keys are completed by JISC's procedure 1 as it is printed, which loses results.

    Attributes:
        is_straight: whether the programs that run have a loop of their own in the machine.
        gated: the engine as somebody sees it who is to choose its gates; None: nobody is.

    """

    __image__: ClassVar[tuple[str, ...]] = (
        "programming",
        "workspace",
        "windows",
        "machine",
        "completion",
        "feedback",
    )

    def __init__(
        self,
        query: Query,
        plan: Plan,
        rank: Rank | None = None,
        policies: Policies = DEFAULT_POLICIES,
        *,
        timed: bool = True,
        slicing: Slicing | None = None,
        as_printed: bool = False,
    ) -> None:
        self._manner = manner = Manner.of(query, policies, as_printed=as_printed)
        self.workspace = workspace = Workspace(query, slicing)
        self.windows = BaseWindows(workspace)
        self.states = KeptStates(workspace, self.windows)
        self.machine = Machine(
            workspace, timed=timed, aged=slicing is not None and slicing.is_aged, scored=manner.budgeted
        )
        self.feedback = FeedbackMemory(workspace, self.windows, self.states)
        self.room = Room(workspace, self.windows, self.states, self.feedback, policies.memory_limit)
        self.completion = Completion(workspace, self.windows, self.states, self.machine, self.room.make)
        self.programming = Programming(workspace, manner)
        self._succession = Succession(workspace, self.windows, self.states, manner, is_frugal=self.room.is_limited)
        self.gated: Gated | None = GateChoice(self, manner) if manner.weighs_feedback else None
        self._query = query
        self._keeps_order = policies.by_batch
        self._routing = EddyRouting(query, policies.migration) if manner.routed else None
        if manner.budgeted:
            self.machine.accounts = Accounts.new_tables(workspace.layouts)
        self.is_straight = False
        self.transition(plan, rank)

    # -- Running ------------------------------------------------------------------------

    def offer(self, batches: Sequence[Int64s], watermark: int | None = None) -> None:
        """Hand over new tuples, per stream in time order (a matrix of its layout's words).

        ``watermark``: no tuple before this time will be offered after these. Without one the tuples come in
        total order over all calls.
        """
        for stream, (layout, batch) in enumerate(zip(self.workspace.layouts, batches, strict=True)):
            if layout.partition is not None and len(batch):
                self.windows.reserve_partitions(stream, int(batch[:, layout.partition].max()) + 1)
        self.machine.offer(batches, watermark)

    def load(self, batches: Sequence[Int64s], watermark: int) -> None:
        """Fill the windows of a new engine with tuples whose results were found before.

        A restart is a change from the empty plan: base windows are there, and every key of every state is absent.

        A budget refuses probes by the order in which they are asked for, and so by the order of matches. If that has to
        be repeated, tuples go into windows in the order in which they first came.
        """
        joining = []
        for layout, batch in zip(self.workspace.layouts, batches, strict=True):
            joins = batch[:, layout.offered_mask] != 0
            if layout.rows:
                joining.append(batch)  # what joins nothing counts, too
            elif self._keeps_order:
                joining.append(in_row_order(batch if joins.all() else batch[joins]))
            else:
                joining.append(in_time_order(batch if joins.all() else batch[joins]))
        self.windows.fill(joining)
        self.machine.begin_at(watermark)
        self.feedback.end()
        for row in self.workspace.states:
            self.states.free(row)
        self.workspace.states = np.zeros((0, k.STATE_FIELDS), np.int64)
        self.workspace.assembly = assemble(Programs((), {}, {}, {}), self.workspace.layouts)
        self.transition(self.plan, self.programming.rank)

    def advance(self, limit: int | None = None) -> Iterator[Int64s]:
        """Process up to ``limit`` of the offered tuples; yields blocks of results.

        A block has a row per result: its time, its expiry, and the row number of each stream's tuple; with several
        readers also its mask, and the age of each stream's tuple; under a budget also the number of the tuple that
        found it, and its score (:mod:`thalweg.engine.outputs.estimates`). It is good until the next one is asked for.
        (Times and expiries of an engine that is not ``timed`` mean nothing, unless the tuples came out of order.)
        """
        end = np.iinfo(np.int64).max if limit is None else self.workspace.taken + limit
        crowded, burst = False, 1
        while True:
            done = self.workspace.taken
            left = end - done
            is_watched = self._is_migrating or self.room.is_limited
            most = min(left, burst if crowded else _STRETCH if is_watched else left)
            stop, store = self.machine.run(most, straight=self.is_straight and not crowded)
            if stop == k.FINISHED and most < left and self.workspace.taken - done == most:
                crowded = False
                self._look_after()
            elif stop == k.CROWDED:
                # Crowds come together: leave ever longer stretches to the general machine.
                crowded, burst = True, min(2 * burst, _LONGEST_CROWD)
            elif stop in (k.FINISHED, k.OUTPUT_FULL):
                results = self.machine.take_results()
                if results is not None:
                    yield results
                if stop == k.FINISHED:
                    self._look_after()
                    return
            else:
                self.room.make(stop, store)

    def _look_after(self) -> None:
        """What is due between two stretches of tuples."""
        if self.workspace.slices > 1:
            self.windows.purge()  # of a slice into which nothing comes, too
        self.room.keep_limit()
        self._detect_completion()

    def pass_time(self, time: int) -> None:
        """No tuple before this time is to come, though none has come yet that says so: windows drop what is over.

        It is for times between two offers.
        """
        self.machine.begin_at(max(time, self.watermark))
        self.windows.purge()

    def rehearse(self) -> None:
        """Do what joins come to only after a while, or under a memory limit, so that its kernels are compiled."""
        for index in self.states.with_status(Status.YOUNG):
            keys = self.completion.absent_keys(index, self.windows.all_held())
            if keys is not None:
                self.completion.complete_keys(index, keys[:1])
            slots = int(self.workspace.states[index, k.N_DIRECTORY_MASK]) + 1
            self.states.renew_keys(index, slots)
            self.states.evict(index, 1, slots)

    # -- What it tells ------------------------------------------------------------------

    def take_deaths(self) -> Int64s:
        """(stream, row, time) of the tuples that left ROWS windows since this was last asked."""
        return self.machine.take_deaths()

    @property
    def work(self) -> Work:
        return work_done(self.workspace, self.feedback)

    @property
    def counts(self) -> Counts:
        return counts_of(self.workspace)

    @property
    def seconds(self) -> float:
        return self.machine.seconds

    @property
    def savings(self) -> Savings:
        """What feedback did."""
        return self.feedback.savings

    @property
    def accounts(self) -> Accounts | None:
        return None if self.machine.accounts is None else Accounts(self.machine.accounts, self.programming.programs)

    @property
    def plan(self) -> Plan:
        """The plan that runs."""
        return self.programming.plan

    def renew_accounts(self, seed: int) -> None:
        """Let probes be paid from new accounts; ``seed``: where their random numbers begin."""
        if self.accounts is not None:
            self.accounts.begin(self.workspace.layouts, seed)

    @property
    def watermark(self) -> int:
        """No tuple before this time is to come, as far as those taken so far tell."""
        return self.workspace.watermark

    @property
    def layouts(self) -> tuple[StreamLayout, ...]:
        """How the tuples of each stream look."""
        return self.workspace.layouts

    @property
    def glimpse_layouts(self) -> tuple[StreamLayout, ...]:
        """How the tuples of each stream look in a glimpse: without masks."""
        return layouts(self._query)

    def held(self, stream: int) -> int:
        return self.windows.held(stream)

    def rows(self, stream: int) -> Int64s:
        return self.windows.rows(stream)

    def tuples(self, stream: int) -> Int64s:
        return self.windows.tuples(stream)

    def glimpse(self, most: int) -> Glimpse:
        return self.windows.glimpse(most)

    def sizes(self) -> list[StoreSize]:
        """What every base window and kept state holds."""
        return [*self.windows.sizes(), *self.states.sizes()]

    def unprocessed(self) -> tuple[list[Int64s], int | None]:
        """Per stream, the offered tuples that were not taken yet; and the watermark they were offered with."""
        return self.machine.unprocessed()

    def count_before(self, rows: Int64s) -> int:
        """How many tuples, and entries of states that hold one, have a lesser row number than their stream's here."""
        workspace = self.workspace
        return state_kernels.count_before(workspace.memory.words, workspace.tables, rows, workspace.watermark)

    @property
    def bytes_used(self) -> int:
        """The memory of windows, states, and what feedback remembers."""
        return 8 * self.room.words_used()

    @property
    def bytes_reserved(self) -> int:
        """The same with free regions, unless they were returned to the operating system."""
        return 8 * self.workspace.memory.reserved

    # -- Plans --------------------------------------------------------------------------

    def transition(self, plan: Plan, rank: Rank | None = None) -> None:
        """Run under another plan from the next tuple on.

        :mod:`thalweg.engine.join.succession` says what becomes of states.

        This is safe at any time (JISC 4.1): a tuple goes all the way before the next one is taken, so no queue holds
        results of the old plan, and tuples that were offered but not taken run under the new one. Nothing has to be
        removed through incomplete states either (JISC 4.2): an entry knows its expiry, and is passed over when that
        has come, whether or not the states below ever held a part of it.
        """
        plan = self._manner.suited(plan, self.workspace.graph)
        if not self._is_migrating:
            self.completion.begin()
        gathering = self._succession.gathering(plan)
        assembly = self.programming.change(plan, rank, gathering)
        self.feedback.end()
        rekeyed = self._succession.carry_over(assembly, gathering)
        self._install(assembly)
        for i in rekeyed:
            self.states.rekey(i)
        if self._manner.filling == "moving_state":
            self.completion.fill(range(len(self.workspace.nodes)))
        self.feedback.begin()
        if self._manner.weighs_feedback:
            self._make_whole()
        if self._routing is not None:
            heads = self.programming.running.heads
            self.machine.eddy = self._routing.tables(heads, assembly, self.workspace.graph)
        self.is_straight = self.machine.can_go_straight

    def run_with(self, gates: Gates) -> None:
        """Run the same plan with other gates from the next tuple on."""
        self._exchange(self.programming.choose(gates))
        self._make_whole()

    def _exchange(self, assembly: Assembly) -> None:
        """Run other programs over the same states."""
        self.feedback.end()
        self._install(assembly)
        self.feedback.begin()

    def _install(self, assembly: Assembly) -> None:
        """Run these programs from the next tuple on."""
        self.workspace.install(assembly)
        self.windows.install_paths()

    def resume(self) -> None:
        """Derive what an image leaves out, after the rest was taken over from it."""
        self.is_straight = self.machine.can_go_straight

    # -- Completion ---------------------------------------------------------------------

    @property
    def _is_migrating(self) -> bool:
        """Whether a state could become complete."""
        return self.programming.passes_over or self.states.any_lacks_for_now

    def _detect_completion(self) -> None:
        """Find states that have become complete."""
        if self.completion.is_due and self._is_migrating:
            self.completion.detect()
            self._probe_all()
            self.completion.look()

    def _probe_all(self) -> None:
        """When no state gathers any more, let programs probe all of them.

        To complete the single key of a state that nothing but comparisons connect would be to compute all of it, while
        the tuple that asks for it waits. So programs passed it over.
        """
        if not self.programming.passes_over or self.states.with_status(Status.GATHERING):
            return
        goal = self.programming.goal
        if goal is not None:
            self._exchange(goal)
            self.programming.goal = None

    def _make_whole(self) -> None:
        """Let states in which nothing is withheld any more become complete: as changes of plan do, or at once."""
        if self.room.is_limited:
            return
        lasting = self.feedback.gapped
        missing = [index for index in self.states.with_status(Status.INCOMPLETE) if index not in lasting]
        is_lazy = self._manner.filling != "moving_state"
        aided = [i for i in missing if is_lazy and self.states.carrier(i) is not None]
        for index in aided:
            self.states.rejuvenate(index, self._succession.young)
        if aided:
            self.completion.finish_nearly_complete()  # most of what they had was live
        self.completion.fill([index for index in missing if index not in aided])
