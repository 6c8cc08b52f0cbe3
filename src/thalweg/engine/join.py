"""The join of one bucket: base windows, kept states, and the plan that runs on them.

Base windows are facts, states are caches (every key live or absent). The engine owns their
memory: it makes room when the kernel asks for it, and carries states over when the plan
changes. It knows nothing of column types, files or time zones: tuples come in as rows of
int64 words (:mod:`thalweg.engine.layout`) and results leave as row numbers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np

from thalweg.cql.query import Query
from thalweg.engine import feedback as feedback_tables
from thalweg.engine.assembly import Assembly, assemble, theta_tables
from thalweg.engine.batch import in_time_order
from thalweg.engine.frames import new_frames
from thalweg.engine.kernels import feedback as fb
from thalweg.engine.kernels import machine
from thalweg.engine.kernels import states as state_kernels
from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels import windows as window_kernels
from thalweg.engine.kernels.compiled import Float64s, Int64s
from thalweg.engine.kernels.eddy import Eddy
from thalweg.engine.kernels.hashing import DIRECTORY_FIELDS
from thalweg.engine.kernels.straight import run_straight
from thalweg.engine.observations import Counts, Work
from thalweg.engine.savings import Savings
from thalweg.engine.states import KeptStates
from thalweg.engine.step_work import StepWork
from thalweg.engine.thrift import PERIOD, SAMPLE, Habit, Promise, reconsidered, sleepers, storing
from thalweg.engine.time_bounds import FOREVER
from thalweg.options import Feedback, Production
from thalweg.plan.demand import Demands, find_demands, siblings
from thalweg.plan.passes import Gating, Setting, apply_passes
from thalweg.plan.program import Programs, Rank, compile_programs
from thalweg.plan.transition import without_a_key
from thalweg.plan.tree import Node, Plan

_FIRST_CAPACITY = 1 << 7
"""Tuples or entries that a new store has room for: a page or two, doubled on demand."""
_MOST_ROOM = 1 << 12
"""Entries that a new state has room for from the beginning, at most, if one that goes held as many."""
_SPARE_SLOTS = 8
"""So many times that, a young state's directory has slots: they are small, and each growth stops the kernel."""
_OUTPUT_BLOCK = 1 << 15
"""Results per block: large enough that taking a block costs nothing, small enough for the cache."""
_STRETCH = 1 << 14
"""Tuples that are taken at once while something may have to be looked at between two of them."""
_PAUSE = 1 << 17
"""Tuples, at least, between two looks for the absent keys of young states: each takes up to a millisecond per state."""
_PATIENCE = 256
"""Tuples of a window that show whether it has more absent keys than a few."""
_FEW_KEYS = 16
"""So few absent keys are completed at once, however few are live: cheaper than looking again."""
_MANY_KEYS = 256
"""So many absent keys are not completed at once, however many are live: the output would wait for them."""

Completion = Literal["jisc", "jisc_printed", "moving_state"]
"""How the states of a new plan get the entries that they lack; see :mod:`thalweg.engine.migration`."""


class JoinEngine(KeptStates):
    """Runs one query's joins under a plan that may change between any two tuples.

    Calls come in this order, over and over: :meth:`offer` new tuples, :meth:`advance` through
    them; :meth:`transition` at any point between two calls of advance.

    ``completion`` says how states of a new plan get the entries that they lack: when a probe asks for their key
    (``jisc``), all at once (``moving_state``), or, for study alone, as JISC's procedure 1 is printed, which loses
    results.

    ``memory_limit``: bytes that windows and states may take. Windows take what they need; where states would grow
    past what is left, their cold keys become absent, to be completed again when probed. The answer stays the same.
    It goes with ``jisc`` alone.

    ``production``: whether what nobody needs is produced (:mod:`thalweg.plan.demand`).

    ``nested_loops``: probes compare with everything in their window or state, one after the other, although keys could
    look partners up. For experiments.
    """

    __image__: ClassVar[tuple[str, ...]] = (
        "plan",
        "_assembly",
        "_goal",
        "_memory",
        "_streams",
        "_path_rows",
        "_states",
        "_partitions",
        "_links",
        "_heads",
        "_frames",
        "_unprocessed",
        "_unburied",
        "_counters",
        "_done",
        "_tally",
        "_habit",
        "_sleepers",
        "_unstored",
        "_due",
        "_look_at",
        "_horizon",
    )

    _eddy: Eddy | None = None  # programs decide where tuples go; see thalweg.engine.eddy
    _routed = False
    _may_gather = True

    def __init__(
        self,
        query: Query,
        plan: Plan,
        rank: Rank | None = None,
        *,
        timed: bool = True,
        completion: Completion = "jisc",
        memory_limit: int | None = None,
        production: Production | Feedback = "push",
        nested_loops: bool = False,
    ) -> None:
        super().__init__(query, _FIRST_CAPACITY)
        n = len(self.layouts)
        self._thetas = theta_tables(query.thetas, self.layouts)
        self._horizon = FOREVER
        self._timed = timed
        self._done = StepWork()
        self._completion = completion
        self._limit = memory_limit
        self._memory.is_frugal = memory_limit is not None
        self._production = Feedback.of(production)
        self._unchanging = frozenset(i for i, ref in enumerate(query.streams) if ref.is_static)
        self._nested_loops = nested_loops
        self._straight = False
        self._inbox = k.Inbox(np.zeros(0, np.int64), np.zeros((n, 2), np.int64))
        self._output = np.empty((n + 2, _OUTPUT_BLOCK), np.int64)
        self._deaths = np.empty((0, 3), np.int64)
        self._tally = np.zeros(fb.TALLIES, np.int64)
        self._habit = Habit()
        self._sleepers: tuple[Node, ...] = ()
        self._compiled: tuple[Plan, Rank | None, frozenset[Node], Programs] | None = None
        self._foreseen: tuple[Programs, Demands] | None = None
        self._unstored = 0
        self._due = 0, 0
        """How many tuples have to be taken, or which time to be reached, until windows may have turned by half."""
        self._look_at = 0
        self._shortest = min((layout.lifetime for layout in self.layouts), default=FOREVER)
        self.seconds = 0.0
        self._assembled: Assembly | None = None
        self._passes_over = False
        self.transition(plan, rank)

    # -- Running ------------------------------------------------------------------------

    def offer(self, batches: Sequence[Int64s], watermark: int | None = None) -> None:
        """Hand over new tuples, per stream in time order (a matrix of its layout's words).

        ``watermark``: no tuple before this time will be offered after these. Without one the tuples come in
        total order over all calls.
        """
        words = [batch.reshape(-1) for batch in batches]
        ends = np.cumsum([len(w) for w in words])
        self._inbox = k.Inbox(np.concatenate(words), np.stack([ends - [len(w) for w in words], ends], axis=1))
        if self._horizon < FOREVER:
            self._frames.registers[k.R_WATERMARK] = max(self._horizon, self.watermark)
        self._horizon = FOREVER if watermark is None else min(watermark, FOREVER - 1)
        tuples = 0
        for stream, (layout, batch) in enumerate(zip(self.layouts, batches, strict=True)):
            if layout.partition is not None and len(batch):
                tuples += len(batch)
                self._reserve_partitions(stream, int(batch[:, layout.partition].max()) + 1)
        known = self._deaths[: self._frames.registers[k.R_DEATHS]]
        self._deaths = np.concatenate([known, np.empty((tuples, 3), np.int64)])

    def load(self, batches: Sequence[Int64s], watermark: int) -> None:
        """Fill the RANGE windows of a new engine with tuples whose results were found before.

        A restart is a change from the empty plan: base windows are there, and every key of every state is absent.
        """
        for stream, (layout, batch) in enumerate(zip(self.layouts, batches, strict=True)):
            is_joining = batch[:, k.ROW] >= 0
            held = in_time_order(batch if is_joining.all() else batch[is_joining])
            row = self._streams[stream]
            capacity = max(int(row[k.S_MASK]) + 1, 1 << len(held).bit_length())
            self._relocate(stream, capacity, int(row[k.S_STRIDE]))
            self._window(stream)[: len(held), : layout.width] = held
            row[k.S_OLDEST], row[k.S_NEXT] = 0, len(held)
        self._index_all()
        self._horizon = min(watermark, FOREVER - 1)
        self._frames.registers[k.R_WATERMARK] = self._horizon
        self._end_feedback()
        for row in self._states:
            self._free_state(row)
        self._states = np.zeros((0, k.STATE_FIELDS), np.int64)
        self._assembly = assemble(Programs((), {}, {}, {}), self.layouts)
        self.transition(self.plan, self._rank)

    def advance(self, limit: int | None = None) -> Iterator[Int64s]:
        """Process up to ``limit`` of the offered tuples; yields blocks of results.

        A block has a row per result: its time, its expiry, and the row number of each stream's tuple. It is
        good until the next one is asked for. (Times and expiries of an engine that is not ``timed`` mean
        nothing, unless the tuples came out of order.)
        """
        done = int(self._counters[k.C_TUPLES])
        end = np.iinfo(np.int64).max if limit is None else done + limit
        crowded, burst = False, 1
        while True:
            done = int(self._counters[k.C_TUPLES])
            left = end - done
            is_watched = self._is_migrating or self._limit is not None or self._weighs_feedback
            most = min(left, burst if crowded else _STRETCH if is_watched else left)
            stop, store = self._run(most, straight=self._straight and not crowded)
            if stop == k.FINISHED and most < left and self._counters[k.C_TUPLES] - done == most:
                crowded = False
                self._keep_within_limit()
                self._detect_completion()
                self._weigh_feedback()
            elif stop == k.CROWDED:
                # Crowds come together: leave ever longer stretches to the general machine.
                crowded, burst = True, min(2 * burst, 4096)
            elif stop in (k.FINISHED, k.OUTPUT_FULL):
                count = int(self._frames.registers[k.R_OUTPUTS])
                if count:
                    yield self._output[:, :count].T
                    self._frames.registers[k.R_OUTPUTS] = 0
                if stop == k.FINISHED:
                    self._keep_within_limit()
                    self._detect_completion()
                    self._weigh_feedback()
                    return
            else:
                self._make_room_in(stop, store)

    def _make_room_in(self, stop: int, store: int) -> None:
        """What the kernel stopped for: a window, a state or a directory is full."""
        if stop == k.WINDOW_FULL:
            self._widen(store)
            self._keep_within_limit()
        elif stop == k.STATE_FULL:
            self._make_room(store)
        elif stop == k.FEEDBACK_FULL and self._feedback is not None:
            held = max(map(self.held, range(len(self.layouts))))
            feedback_tables.make_room(self._feedback, self._memory, held, self._settle)
        else:
            self._make_room_for_keys(store)

    def _run(self, limit: int, *, straight: bool) -> tuple[int, int]:
        """The kernel for the programs at hand; (what it stopped for, which store)."""
        started = time.perf_counter()
        if straight:
            stopped = run_straight(
                self._memory.words,
                self._streams,
                self._path_rows,
                self._assembly.steps,
                self._done.rows,
                self._assembly.programs,
                self._frames.registers,
                self._inbox.tuples,
                self._inbox.place,
                self._output,
                self._counters,
                self._horizon,
                self._timed,
                limit,
            )
        else:
            stopped = machine.run(*self._machine, limit, self._eddy, self._feedback)
        self.seconds += time.perf_counter() - started
        return stopped

    @property
    def _machine(
        self,
    ) -> tuple[Int64s, Float64s, k.Tables, k.Frames, k.Inbox, Int64s, Int64s, Int64s, int]:
        """What the general machine works on, in the order of its arguments."""
        return (
            self._memory.words,
            self._memory.floats,
            self._tables,
            self._frames,
            self._inbox,
            self._output,
            self._deaths,
            self._counters,
            self._horizon,
        )

    def take_deaths(self) -> Int64s:
        """(stream, row, time) of the tuples that left ROWS windows since this was last asked."""
        deaths = self._deaths[: self._frames.registers[k.R_DEATHS]].copy()
        self._frames.registers[k.R_DEATHS] = 0
        return deaths

    @property
    def work(self) -> Work:
        tally = self._tally if self._feedback is None else self._tally + self._feedback.tally
        suspensions, resumptions, withheld, unprobed = tally[fb.T_SUSPENSIONS : fb.T_UNPROBED + 1].tolist()
        tuples, completions, finished, purged = self._counters.tolist()
        probes, candidates, stored, results, *completing = self._done.sums().tolist()
        return Work(
            tuples,
            probes,
            candidates,
            stored,
            completions,
            results,
            finished,
            completing_probes=completing[0],
            completing_candidates=completing[1],
            completing_stored=completing[2],
            purged=purged,
            suspensions=suspensions,
            resumptions=resumptions,
            withheld=withheld,
            unprobed=unprobed,
        )

    @property
    def counts(self) -> Counts:
        tuples, completions, *_ = self._counters.tolist()
        probes, candidates, stored, results, *_ = self._done.sums().tolist()
        return tuples, probes, candidates, stored, completions, results

    @property
    def savings(self) -> Savings:
        """What feedback did."""
        return feedback_tables.savings_of(self._tally, self._feedback, self._unstored + self._unstored_bytes())

    def unprocessed(self) -> tuple[list[Int64s], int | None]:
        """Per stream, the offered tuples that were not taken yet; and the watermark they were offered with."""
        parts = []
        for layout, (at, end) in zip(self.layouts, self._inbox.place, strict=True):
            parts.append(self._inbox.tuples[at:end].reshape(-1, layout.width))
        return parts, None if self._horizon == FOREVER else self._horizon

    def count_before(self, rows: Int64s) -> int:
        """How many tuples, and entries of states that hold one, have a lesser row number than their stream's here."""
        return state_kernels.count_before(self._memory.words, self._tables, rows, self.watermark)

    @property
    def bytes_used(self) -> int:
        """The memory of windows, states, and what feedback remembers."""
        return 8 * self._words_used()

    @property
    def bytes_reserved(self) -> int:
        """The same with what stores have left for others of their size to take, unless the system has it meanwhile."""
        return 8 * self._memory.reserved

    # -- Plans --------------------------------------------------------------------------

    def transition(self, plan: Plan, rank: Rank | None = None) -> None:
        """Run under another plan from the next tuple on.

        States that both plans keep stay as they are, each key with its status; those of the old plan alone are dropped,
        and leave their room to those of the new one alone. These start *young*: they store what comes, and what they
        lack of a key, made of tuples that are there already, is completed when it is probed. A state that the new plan
        probes by another key is indexed anew if it was complete, and else starts young. While nothing has arrived,
        nothing is missing. States that have no key to be completed by may gather instead: young too, but programs pass
        them over as if they were not kept, until nothing is missing (:meth:`_probe_all`).

        This is safe at any time (JISC 4.1): a tuple goes all the way before the next one is taken, so no queue
        holds results of the old plan, and tuples that were offered but not taken run under the new one. Nothing
        has to be removed through incomplete states either (JISC 4.2): an entry knows its expiry, and is passed over
        when that has come, whether or not the states below ever held a part of it.
        """
        self._habit, self._sleepers = replace(self._habit, asks=False, idle=0), ()
        if not self._is_migrating:
            self._begin_to_look()
        old = {node: self._states[i] for i, node in enumerate(self._nodes)}
        old_keys = {node: self._key_classes(i) for i, node in enumerate(self._nodes)}
        empty = bool((self._streams[:, k.S_NEXT] == self._streams[:, k.S_OLDEST]).all())
        gathering = frozenset() if empty else self._gathering(plan, old)
        assembly = self._assemble(plan, rank, gathering)
        self._end_feedback()
        rooms: dict[int, list[int]] = {len(node): [] for node in assembly.nodes}
        for node in [node for node in old if node not in assembly.nodes]:
            row = old.pop(node)
            rooms.get(len(node), []).append(_room_of(row) if self._limit is None else 0)
            self._free_state(row)
        states = np.zeros((len(assembly.nodes), k.STATE_FIELDS), np.int64)
        rekeyed = []
        for i, node in enumerate(assembly.nodes):
            start, count = assembly.keys[i]
            is_rekeyed = node in old and old_keys[node] != tuple(assembly.lists[start : start + count])
            if node in old:
                states[i] = old.pop(node)
                is_complete = states[i, k.N_COMPLETE] == k.COMPLETE
                is_gathering = states[i, k.N_COMPLETE] == k.GATHERING
                if is_gathering != (node in gathering) or (is_rekeyed and not is_complete):
                    self._free_state(states[i])
                    states[i] = self._new_state(node, complete=False, gathering=node in gathering)
                elif is_rekeyed:
                    rekeyed.append(i)
            else:
                room = rooms[len(node)].pop() if rooms[len(node)] else 0
                states[i] = self._new_state(node, complete=empty, gathering=node in gathering, room=room)
        self._states = states
        self.plan, self._rank = plan, rank
        self._assembled, self._passes_over = None, bool(gathering)
        self._install(assembly)
        for i in rekeyed:
            self._rekey(i)
        if self._completion == "moving_state":
            self._fill_states(range(len(self._nodes)))
        self._begin_feedback()
        if self._weighs_feedback:
            self._make_whole()
        self._straight = self._is_straight()

    def _gathering(self, plan: Plan, old: Mapping[Node, Int64s]) -> frozenset[Node]:
        """The states of a new plan that are to gather what comes, for want of a key to complete them by.

        In some window below, time must put an end to what is missing.
        """
        if self._completion != "jisc" or not self._may_gather:
            return frozenset()
        whole = {
            node
            for node, row in old.items()
            if row[k.N_COMPLETE] == k.COMPLETE or (row[k.N_KEY_COUNT] == 0 and row[k.N_LIVE])
        }
        nodes = without_a_key(plan, self.graph, whole)
        return frozenset(node for node in nodes if any(self.layouts[stream].lifetime < FOREVER for stream in node))

    def _compile(self, plan: Plan, rank: Rank | None, unprobed: frozenset[Node]) -> Programs:
        fills = self._completion == "moving_state" or self._weighs_feedback
        loops = self._nested_loops
        if self._compiled is None or self._compiled[:3] != (plan, rank, unprobed):
            programs = compile_programs(plan, self.graph, rank, fills=fills, unprobed=unprobed, nested_loops=loops)
            self._compiled = plan, rank, unprobed, programs
        return self._compiled[3]

    def _assemble(self, plan: Plan, rank: Rank | None, unprobed: frozenset[Node] = frozenset()) -> Assembly:
        setting = Setting(plan, self.graph, self._routed, self._gating)
        self._programs = apply_passes(self._compile(plan, rank, unprobed), setting)
        filter_bits = None if self._production is None else self._production.filter_bits
        return assemble(self._programs, self.layouts, filter_bits=filter_bits, unchanging=self._unchanging)

    def _install(self, assembly: Assembly) -> None:
        """Run these programs from the next tuple on."""
        self._assembly = assembly
        for row, components, keys, rows in zip(
            self._states, assembly.components, assembly.keys, assembly.rows, strict=True
        ):
            row[[k.N_COMPONENTS, k.N_COMPONENT_COUNT]] = components
            row[[k.N_KEY, k.N_KEY_COUNT]] = keys
            row[[k.N_ROWS, k.N_ROWS_COUNT]] = rows
        self._path_rows = np.zeros((max(1, len(self._paths)), k.PATH_FIELDS), np.int64)
        self._done.begin(assembly, len(self.layouts))
        self._build_tables()
        self._install_paths()
        states, classes = len(self._states), self._frames.code.shape[1]
        self._frames = new_frames(len(self.layouts), classes, states, self._frames.registers)

    @property
    def _goal(self) -> Assembly | None:
        """While states are passed over, the programs that will probe all of them."""
        if self._passes_over and self._assembled is None:
            self._assembled = self._assemble(self.plan, self._rank)
        return self._assembled

    @_goal.setter
    def _goal(self, assembly: Assembly | None) -> None:
        self._assembled, self._passes_over = assembly, assembly is not None

    def resume(self) -> None:
        """Derive what an image leaves out, after the rest was taken over from it.

        The assembled programs are part of it, since the same plan can be compiled in more than one way.
        """
        self._done.read(self._assembly, len(self.layouts))
        self._build_tables()
        self._straight = self._is_straight()

    def _is_straight(self) -> bool:
        return bool(
            (self._assembly.programs[:, k.G_STRAIGHT] > 0).all()
            and (self._streams[:, k.S_ROWS] == 0).all()
            and (self._streams[:, k.S_PATHS] == 1).all()
        )

    @property
    def _unprocessed(self) -> k.Inbox:
        """The offered tuples, unless all are done with."""
        if (self._inbox.place[:, 0] < self._inbox.place[:, 1]).any():
            return self._inbox
        return k.Inbox(np.zeros(0, np.int64), np.zeros_like(self._inbox.place))

    @_unprocessed.setter
    def _unprocessed(self, inbox: k.Inbox) -> None:
        self._inbox = inbox

    @property
    def _unburied(self) -> Int64s:
        """The deaths that nobody has asked for, and room for those of the tuples to come."""
        known = int(self._frames.registers[k.R_DEATHS])
        return self._deaths if len(self._unprocessed.tuples) else self._deaths[:known]

    @_unburied.setter
    def _unburied(self, deaths: Int64s) -> None:
        self._deaths = deaths

    def _build_tables(self) -> None:
        n = len(self.layouts)
        self._carries = np.zeros((len(self._nodes), n), np.bool_)  # whether a stream carries a state's whole key
        for index, node in enumerate(self._nodes):
            classes = set(self._key_classes(index))
            self._carries[index, [s for s in node if classes <= self.layouts[s].codes.keys()]] = True
        self._tables = k.Tables(
            self._streams,
            self._path_rows,
            self._states,
            self._assembly.steps,
            self._done.rows,
            self._assembly.programs,
            self._assembly.lists,
            *self._thetas,
        )

    # -- States -------------------------------------------------------------------------

    def _new_state(self, node: Node, *, complete: bool, gathering: bool = False, room: int = 0) -> Int64s:
        row = np.zeros(k.STATE_FIELDS, np.int64)
        room = room or _FIRST_CAPACITY
        row[k.N_STRIDE] = k.COMPONENTS + len(node)
        row[k.N_CAPACITY] = room
        row[k.N_MASK] = 2 * room - 1
        row[k.N_REGION] = self._memory.allocate(room * int(row[k.N_STRIDE]), None)
        row[k.N_HEADS] = self._memory.allocate(2 * room, -1)
        row[k.N_COMPLETE], row[k.N_DIRECTORY_MASK] = k.COMPLETE, -1
        if not complete:
            row[k.N_DIRECTORY] = self._memory.allocate(_SPARE_SLOTS * _FIRST_CAPACITY * DIRECTORY_FIELDS)
            row[k.N_DIRECTORY_MASK] = _SPARE_SLOTS * _FIRST_CAPACITY - 1
            row[k.N_BIRTH] = self._memory.allocate(self._birth_words)
            self._rejuvenate(row, node)
        if gathering:
            row[k.N_COMPLETE] = k.GATHERING
        return row

    def _rejuvenate(self, row: Int64s, node: Node) -> None:
        """Let a state that has nothing of its absent keys store what comes from now on."""
        row[k.N_COMPLETE] = k.PRINTED if self._completion == "jisc_printed" else k.YOUNG
        streams = sorted(node)
        births = self._births(row)
        births[:] = FOREVER
        births[streams] = self._streams[streams, k.S_NEXT]

    def _make_room(self, index: int) -> None:
        """Drop expired entries; double the state if that does not free half of it, or make cold keys absent."""
        self._sweep(index)
        row = self._states[index]
        capacity, stride = int(row[k.N_CAPACITY]), int(row[k.N_STRIDE])
        if 2 * row[k.N_COUNT] <= capacity:
            return
        if not self._may_grow(capacity * (stride + 2)):
            self._evict(index, capacity // 2, capacity)
            if 4 * row[k.N_COUNT] <= 3 * capacity:
                return
        self._resize(index, 2 * capacity)

    def _make_room_for_keys(self, index: int) -> None:
        """Give a directory four times the room, up to that for as many keys as its state can have.

        Later, forget those that nothing has any more. If it stays more than a quarter full all the same, double it.
        """
        slots = int(self._states[index, k.N_DIRECTORY_MASK]) + 1
        enough = min(4 * slots, self._slots_enough(index))
        if slots < enough and self._may_grow((enough - slots) * DIRECTORY_FIELDS):
            old, directory = int(self._states[index, k.N_DIRECTORY]), self._memory.allocate(enough * DIRECTORY_FIELDS)
            state_kernels.move_keys(self._memory.words, self._tables, index, directory, enough - 1)
            self._memory.free(old, slots * DIRECTORY_FIELDS)
            return
        self._sweep(index)
        self._renew_keys(index, slots)
        if 4 * (self._states[index, k.N_LIVE] + 1) > slots:
            if not self._may_grow(slots * DIRECTORY_FIELDS):
                self._evict(index, int(self._states[index, k.N_COUNT]) // 2, slots)
            if 4 * (self._states[index, k.N_LIVE] + 1) > slots:
                self._renew_keys(index, 2 * slots)

    def _slots_enough(self, index: int) -> int:
        """Slots for the keys that a base window below can have."""
        carrier = self._carrier(index)
        return 0 if carrier is None else 2 << self.held(carrier[0]).bit_length()

    def _renew_keys(self, index: int, slots: int) -> None:
        """Move the live keys of a state to a directory of so many slots, without those that nothing has any more."""
        row = self._states[index]
        old, had = int(row[k.N_DIRECTORY]), int(row[k.N_DIRECTORY_MASK]) + 1
        stream, fields = self._carrier(index) or (-1, np.zeros(0, np.int64))
        directory = self._memory.allocate(slots * DIRECTORY_FIELDS)
        state_kernels.renew_keys(
            self._memory.words, self._tables, index, directory, slots - 1, stream, fields, self.watermark
        )
        self._memory.free(old, had * DIRECTORY_FIELDS)

    # -- Feedback -----------------------------------------------------------------------

    @property
    def _feedback(self) -> fb.Feedback | None:
        return self._assembly.feedback

    @property
    def _weighs_feedback(self) -> bool:
        return self._production is not None and self._production.when == "auto"

    @property
    def _gating(self) -> Gating | None:
        """Where programs have gates; None: nowhere."""
        production = self._production
        if production is None or (self._weighs_feedback and not (self._habit.asks or self._sleepers)):
            return None
        if self._weighs_feedback and not self._habit.asks:
            return Gating(0, self._sleepers, self._unchanging, self._nested_loops)
        return Gating(production.lattice, None, self._unchanging, self._nested_loops)

    def _weigh_feedback(self) -> None:
        """Decide, from time to time, where feedback pays (:mod:`thalweg.engine.thrift`)."""
        habit = self._habit
        if not self._weighs_feedback or self._counters[k.C_TUPLES] - habit.looked < PERIOD:
            return
        if self._straight or self._passes_over or self._counters[k.C_TUPLES] - habit.looked < self._all_held():
            return
        work = self.counts
        tests = 0 if self._feedback is None else int(self._feedback.tally[fb.T_TESTS])
        self._habit = reconsidered(habit, work, tests, self._idle_states(), self._pairs, self._promised)
        chosen: tuple[Node, ...] = ()
        if (self._habit.idle | habit.idle or self._sleepers) and not self._habit.asks:
            known = siblings(self.plan)
            asleep = {known[node] for node in self._sleepers}
            chosen = sleepers(
                known,
                [
                    node
                    for i, node in enumerate(self._nodes)
                    if (habit.idle | self._habit.idle if node in asleep else habit.idle & self._habit.idle) >> i & 1
                ],
            )
        is_other = set(chosen) != set(self._sleepers)
        gain = storing(work, habit.work) * self._share_within(chosen) if is_other and chosen else 1.0
        is_worth = is_other and self._habit.may_change(len(self.layouts), gain)
        if self._habit.asks != habit.asks or is_worth:
            self._habit = replace(self._habit, settled=self._habit.spent)
            self._sleepers = chosen
            self._end_feedback()
            self._install(self._assemble(self.plan, self._rank))
            self._begin_feedback()
            self._make_whole()

    def _all_held(self) -> int:
        """How many tuples all base windows hold."""
        return int((self._streams[:, k.S_NEXT] - self._streams[:, k.S_OLDEST]).sum())

    @property
    def _pairs(self) -> int:
        """How many pairs of streams have a class in common."""
        return sum(len(members) * (len(members) - 1) // 2 for members in self.graph.classes)

    def _share_within(self, nodes: Sequence[Node]) -> float:
        """Of the entries in all states, the share of those within some nodes."""
        within = [any(state <= node for node in nodes) for state in self._nodes]
        return float(self._states[within, k.N_COUNT].sum() / max(1, self._states[:, k.N_COUNT].sum()))

    def _idle_states(self) -> int:
        """The states that are complete and have no entry, as bits."""
        bits = 0
        for index, row in enumerate(self._states):
            if row[k.N_COMPLETE] == k.COMPLETE:
                entries = self._entries(index)
                if len(entries) and entries[-1, k.ENTRY_EXPIRY] <= self.watermark:
                    self._sweep(index)
                bits |= int(row[k.N_COUNT] == 0) << index
        return bits

    def _promised(self, now: float) -> float:
        """What a tuple would cost if joins asked for parts."""
        programs = self._compile(self.plan, self._rank, frozenset())
        if self._foreseen is None or self._foreseen[0] is not programs:
            self._foreseen = programs, find_demands(self.plan, self.graph, programs)
        return Promise(self.glimpse(SAMPLE), self.layouts, *self._foreseen).cost(now)

    def _make_whole(self) -> None:
        """Let states in which nothing is withheld any more become complete: as changes of plan do, or at once."""
        lasting = np.zeros(len(self._states), np.bool_)
        if self._feedback is not None:
            lasting = self._feedback.gaps[:, fb.O_KIND_COUNT] > 0
        if self._limit is not None:
            return
        missing = np.flatnonzero((self._states[:, k.N_COMPLETE] == k.INCOMPLETE) & ~lasting).tolist()
        is_aided = {index: self._completion != "moving_state" and self._carrier(index) is not None for index in missing}
        for index in missing:
            if is_aided[index]:
                self._rejuvenate(self._states[index], self._nodes[index])
        if any(is_aided.values()):
            self._finish_nearly_complete()  # most of what they had was live
        self._fill_states([index for index in missing if not is_aided[index]])

    def _begin_feedback(self) -> None:
        """Let the consumers of the plan that runs speak to their producers.

        Of a state in which something may be missing, only keys that something has probed are live from then on: what
        is not asked for is not stored. The others are as complete as they were.
        """
        feedback = self._feedback
        if feedback is None:
            return
        for index in np.flatnonzero(feedback.gaps[:, fb.O_KIND_COUNT]).tolist():
            row = self._states[index]
            if row[k.N_COMPLETE] != k.INCOMPLETE:
                count = int(row[k.N_COUNT])
                self._evict(index, count + 1, max(_FIRST_CAPACITY, 4 << count.bit_length()))
        feedback_tables.allocate(feedback, self._memory)
        fb.renew_filters(self._memory.words, self._tables, feedback.filters, self.watermark)

    def _end_feedback(self) -> None:
        """Forget all demands, and the entries that something may be missing beside."""
        if self._feedback is not None:
            for index in np.flatnonzero(self._feedback.gaps[:, fb.O_KIND_COUNT]).tolist():
                self._settle(index)
            feedback_tables.free(self._feedback, self._memory)
            self._tally += self._feedback.tally
            self._unstored += self._unstored_bytes()

    def _unstored_bytes(self) -> int:
        """What the tuples that this plan withheld would have taken in the states that they stopped before."""
        if self._feedback is None:
            return 0
        gates = np.flatnonzero(self._assembly.steps[:, k.X_OP] == k.GATE)
        stopped = self._done.rows[gates, k.W_LEFT_OUT]
        words = np.append(self._states[:, k.N_STRIDE], 0)[self._feedback.gates[:, fb.Q_STORES]]  # -1: no state
        return 8 * int((stopped * words).sum())

    def _settle(self, index: int) -> None:
        """Drop the entries of a state that may be short of others."""
        if self._feedback is None:
            return
        row = self._states[index]
        old, had = int(row[k.N_DIRECTORY]), int(row[k.N_DIRECTORY_MASK]) + 1
        keys = min(int(row[k.N_LIVE]), int(row[k.N_COUNT]))
        slots = min(had, max(_FIRST_CAPACITY, self._slots_enough(index), 4 << keys.bit_length()))
        directory = self._memory.allocate(slots * DIRECTORY_FIELDS)
        fb.settle(
            self._memory.words,
            self._tables,
            self._frames,
            self._feedback.gaps,
            index,
            directory,
            slots - 1,
            self.watermark,
        )
        self._memory.free(old, had * DIRECTORY_FIELDS)
        # What joined without feedback before needed far more room, and every entry's way out is as long as that.
        room = max(_FIRST_CAPACITY, 4 << int(row[k.N_COUNT]).bit_length())
        if room < row[k.N_CAPACITY]:
            self._resize(index, room)

    # -- Memory -------------------------------------------------------------------------

    def _words_used(self) -> int:
        windows = sum(map(self._window_words, range(len(self.layouts))))
        if self._feedback is not None:
            windows += feedback_tables.words(self._feedback)
        return windows + sum(map(self._state_words, range(len(self._nodes))))

    def _may_grow(self, words: int) -> bool:
        return self._limit is None or 8 * (self._words_used() + words) <= self._limit

    def _keep_within_limit(self) -> None:
        """Make the largest states smaller while they take more than the windows leave."""
        while not self._may_grow(0):
            grown = np.flatnonzero(self._states[:, k.N_CAPACITY] > _FIRST_CAPACITY).tolist()
            if not grown:
                return
            largest = max(grown, key=self._state_words)
            capacity = int(self._states[largest, k.N_CAPACITY]) // 2
            self._sweep(largest)
            self._evict(largest, capacity // 2, capacity)
            self._resize(largest, max(capacity, 1 << int(self._states[largest, k.N_COUNT]).bit_length()))
            if self._states[largest, k.N_CAPACITY] > capacity:
                return  # one key alone takes it all

    def _evict(self, index: int, most: int, slots: int) -> None:
        """Make cold keys of a state absent until it has about ``most`` entries; it stays incomplete from now on."""
        row = self._states[index]
        old, had = int(row[k.N_DIRECTORY]), int(row[k.N_DIRECTORY_MASK]) + 1
        directory = self._memory.allocate(slots * DIRECTORY_FIELDS)
        state_kernels.evict(self._memory.words, self._tables, self._frames, index, directory, slots - 1, most)
        if row[k.N_COMPLETE] == k.COMPLETE:
            row[k.N_BIRTH] = self._memory.allocate(self._birth_words)
        else:
            self._memory.free(old, had * DIRECTORY_FIELDS)
        row[k.N_COMPLETE] = k.INCOMPLETE

    # -- Completion ---------------------------------------------------------------------

    @property
    def _is_migrating(self) -> bool:
        """Whether a state could become complete."""
        return self._passes_over or bool((self._states[:, k.N_COMPLETE] >= k.GATHERING).any())

    def _detect_completion(self) -> None:
        """Find states that have become complete (JISC 4.3).

        A young state lacks nothing once all tuples from before its birth have left one of its windows; whether they
        have is asked when windows may have turned by half. JISC also counts down the distinct keys that a complete
        child had at the transition, so as to know it earlier. Here they are not counted, which would take as long as
        the window is large: more than it costs to be young for a turn. If windows turn more slowly, they are looked
        for: whether few keys of old tuples in a base window below are still absent. A base window is always complete
        and has every key that a child can have, so two incomplete children need not wait for each other. A look ends at
        the first keys too many; those of the last one are completed at once.

        Keys that no single stream carries are not looked for; and a state whose cold keys were made absent for want of
        memory stays as it is.
        """
        taken = int(self._counters[k.C_TUPLES])
        if (taken < self._due[0] and self.watermark < self._due[1]) or not self._is_migrating:
            return
        self._finish_old_enough()
        if taken >= self._look_at:
            self._finish_nearly_complete()
            self._wait_a_turn()
        self._wait_half_a_turn()

    def _begin_to_look(self) -> None:
        """States have become young: give windows time to turn."""
        self._wait_a_turn()
        self._wait_half_a_turn()

    def _wait_a_turn(self) -> None:
        """Do not look for absent keys before as many tuples have come as windows hold now."""
        self._look_at = int(self._counters[k.C_TUPLES]) + max(_PAUSE, self._all_held())

    def _wait_half_a_turn(self) -> None:
        """Do not ask whether windows have turned before half as many tuples have come, or half a RANGE has passed."""
        self._due = int(self._counters[k.C_TUPLES]) + self._all_held() // 2, self.watermark + self._shortest // 2

    def _finish_old_enough(self) -> None:
        """Find the young states of which a window has no tuple left from before their birth."""
        window_kernels.purge(self._memory.words, self._streams, self.watermark)
        young = np.flatnonzero(self._states[:, k.N_COMPLETE] >= k.GATHERING)
        births = self._memory.words[self._states[young, k.N_BIRTH, None] + np.arange(len(self.layouts))]
        for index in young[(self._streams[:, k.S_OLDEST] >= births).any(axis=1)].tolist():
            self._finish(index)
        self._probe_all()

    def _finish_nearly_complete(self) -> None:
        """Find the young states of which few keys are still absent, and complete those."""
        young = np.flatnonzero(self._states[:, k.N_COMPLETE] == k.YOUNG).tolist()
        for index in sorted(young, key=lambda i: len(self._nodes[i])):
            row, carrier = self._states[index], self._carrier(index)
            if carrier is None:
                continue
            keys = self._absent_keys(index, *carrier, min(_FEW_KEYS + int(row[k.N_LIVE]) // 4, _MANY_KEYS))
            if keys is not None:
                self._complete_keys(index, keys)
                if row[k.N_COMPLETE] == k.YOUNG:  # unless the memory for it ran out meanwhile
                    self._finish(index)

    def rehearse(self) -> None:
        """Do what joins come to only after a while, or under a memory limit, so that its kernels are compiled."""
        for index in np.flatnonzero(self._states[:, k.N_COMPLETE] == k.YOUNG).tolist():
            carrier = self._carrier(index)
            keys = None if carrier is None else self._absent_keys(index, *carrier, self.held(carrier[0]))
            if keys is not None:
                self._complete_keys(index, keys[:1])
            slots = int(self._states[index, k.N_DIRECTORY_MASK]) + 1
            self._renew_keys(index, slots)
            self._evict(index, 1, slots)

    def _finish(self, index: int) -> None:
        """Nothing is missing in a state any more."""
        self._close_directory(self._states[index])
        self._counters[k.C_FINISHED] += 1

    def _probe_all(self) -> None:
        """When no state gathers any more, let programs probe all of them.

        To complete the single key of a state that nothing but comparisons connect would be to compute all of it, while
        the tuple that asks for it waits. So programs passed it over.
        """
        if not self._passes_over or (self._states[:, k.N_COMPLETE] == k.GATHERING).any():
            return
        goal = self._goal
        if goal is not None:
            self._end_feedback()
            self._install(goal)
            self._begin_feedback()
            self._goal = None

    def _carrier(self, index: int) -> tuple[int, Int64s] | None:
        """The smallest base window of a stream that carries a state's whole key, and where its tuples have it."""
        streams = np.flatnonzero(self._carries[index])
        if not len(streams):
            return None
        held = self._streams[streams, k.S_NEXT] - self._streams[streams, k.S_OLDEST]
        stream = int(streams[held.argmin()])
        codes = self.layouts[stream].codes
        return stream, np.array([codes[c] for c in self._key_classes(index)], np.int64)

    def _absent_keys(self, index: int, stream: int, fields: Int64s, few: int) -> Int64s | None:
        """The keys in a base window that a young state may lack something of, as (hash, codes); None: more than few."""
        found = np.empty((few + 1, 1 + len(fields)), np.int64)
        places = np.zeros(2 << len(found).bit_length(), np.int64)
        count = state_kernels.absent_keys(
            self._memory.words,
            self._tables,
            index,
            stream,
            fields,
            self.watermark,
            found,
            places,
            _PATIENCE,
            few,
            *self._assembly.parts[index],
            np.zeros((1, self._frames.code.shape[1]), np.int64),
        )
        return None if count < 0 or count > few else found[:count]

    def _complete_keys(self, index: int, keys: Int64s) -> None:
        """Complete these keys, each given by its hash and its codes.

        Called key by key: a kernel that went through all of them would take as long to compile as the whole machine.
        """
        frames, classes = self._frames, list(self._key_classes(index))
        for key in keys:
            while 2 * (self._states[index, k.N_LIVE] + 1) > self._states[index, k.N_DIRECTORY_MASK]:
                self._make_room_for_keys(index)
            row = self._states[index]
            frames.waiting[0] = -1  # no probe waits below
            frames.program[1], frames.state[1], frames.key[1] = len(self.layouts) + index, index, key[0]
            frames.birth[1] = row[k.N_BIRTH] if row[k.N_COMPLETE] == k.YOUNG else -1
            frames.code[1, classes] = key[1:]
            frames.latest[1, 0], frames.expiry[1, 0] = self.watermark, FOREVER
            self._counters[k.C_COMPLETIONS] += 1
            self._run_program(1, len(self.layouts) + index)

    def _run_program(self, frame: int, program: int) -> None:
        """Let the machine run a program in a frame, and take no tuples."""
        first = self._assembly.programs[program, k.G_FIRST]
        registers = self._frames.registers
        registers[[k.R_FRAME, k.R_DEPTH, k.R_STEP]] = frame, -1, first
        self._done.rows[first, k.W_ENTERED] += 1
        registers[k.R_PHASE] = self._assembly.steps[first, k.X_OP]
        stop, store = self._run(0, straight=False)
        while stop != k.FINISHED:
            self._make_room_in(stop, store)
            stop, store = self._run(0, straight=False)

    def _fill_states(self, indices: Sequence[int]) -> None:
        """Compute all entries of incomplete states, from the bottom up (Moving State, JISC 3.2)."""
        for index in sorted(indices, key=lambda i: len(self._nodes[i])):
            row = self._states[index]
            if row[k.N_COMPLETE] == k.COMPLETE:
                continue
            row[k.N_COUNT] = 0
            state_kernels.relink(self._memory.words, self._tables, index)
            self._close_directory(row)
            frames = self._frames
            frames.program[0] = len(self.layouts) + len(self._nodes) + index
            frames.latest[0, 0], frames.expiry[0, 0] = self.watermark, FOREVER
            self._run_program(0, int(frames.program[0]))
            self._counters[k.C_FINISHED] += 1


def _room_of(row: Int64s) -> int:
    """The room that a state leaves to another: what it made use of, as far as it is prepared in no time."""
    used = max(_FIRST_CAPACITY, 1 << int(row[k.N_COUNT]).bit_length())
    return min(int(row[k.N_CAPACITY]), used, _MOST_ROOM)
