"""The join of one bucket: base windows, kept states, and the plan that runs on them.

Base windows are facts, states are caches (every key live or absent). The engine owns their
memory: it makes room when the kernel asks for it, and carries states over when the plan
changes. It knows nothing of column types, files or time zones: tuples come in as rows of
int64 words (:mod:`thalweg.engine.layout`) and results leave as row numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thalweg.cql.query import Query
from thalweg.engine.assembly import Assembly, Path, assemble, theta_tables
from thalweg.engine.instants import FOREVER, NEVER
from thalweg.engine.kernels import join as k
from thalweg.engine.layout import StreamLayout, layouts, row_numbers
from thalweg.engine.memory import Memory
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.program import Programs, Rank, compile_programs
from thalweg.plan.sampling import spread
from thalweg.plan.tree import Node, Plan

_FIRST_CAPACITY = 1 << 10
"""Tuples or entries that a new store has room for: a few pages, doubled on demand."""
_OUTPUT_BLOCK = 1 << 15
"""Results per block: large enough that taking a block costs nothing, small enough for the cache."""


@dataclass(frozen=True, slots=True)
class StoreSize:
    """What a base window (one stream) or a kept state holds.

    ``live_keys`` is None for base windows and for states whose keys are all live.
    """

    node: Node
    tuples: int
    live_keys: int | None
    bytes: int


@dataclass(frozen=True, slots=True)
class WindowGlimpse:
    """Some of the tuples that a base window holds and that can still be in a result.

    Attributes:
        words: those taken, as rows of the stream's layout.
        held: how many there are, about (exactly, where all were taken).
        arrived: how many tuples have ever come into the window.

    """

    words: k.Int64s
    held: float
    arrived: int


@dataclass(frozen=True, slots=True)
class Glimpse:
    """A look into every base window, at the time up to which tuples were processed (NEVER before the first)."""

    time: int
    windows: tuple[WindowGlimpse, ...] = ()


@dataclass(frozen=True, slots=True)
class Heads:
    """The hash heads of all access paths by one key: for each hash, one head per stream."""

    start: int
    mask: int
    streams: tuple[int, ...]

    @property
    def words(self) -> int:
        return (self.mask + 1) * len(self.streams)


@dataclass(frozen=True, slots=True)
class Work:
    """Work done since the start."""

    tuples: int
    probes: int
    candidates: int
    stored: int
    completions: int
    results: int

    @property
    def counts(self) -> tuple[int, ...]:
        """All of them, in this order."""
        return (self.tuples, self.probes, self.candidates, self.stored, self.completions, self.results)


class JoinEngine:
    """Runs one query's joins under a plan that may change between any two tuples.

    Calls come in this order, over and over: :meth:`offer` new tuples, :meth:`advance` through
    them; :meth:`transition` at any point between two calls of advance.
    """

    __image__: ClassVar = (
        "plan",
        "_assembly",
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
        "_horizon",
    )

    def __init__(self, query: Query, plan: Plan, rank: Rank | None = None, *, timed: bool = True) -> None:
        self.graph = JoinGraph.of(query)
        self.layouts: tuple[StreamLayout, ...] = layouts(query)
        self._memory = Memory()
        n = len(self.layouts)
        self._thetas = theta_tables(query.thetas, self.layouts)
        self._streams = np.zeros((n, k.STREAM_FIELDS), np.int64)
        self._horizon = FOREVER
        self._timed = timed
        self._straight = False
        self._partitions = [0] * n
        self._links: list[dict[tuple[int, ...], int]] = [{} for _ in range(n)]
        self._heads: dict[tuple[int, ...], Heads] = {}
        self._frames = _frames(n, len(query.classes), 0)
        self._frames.registers[k.R_WATERMARK] = NEVER
        self._inbox = k.Inbox(np.zeros(0, np.int64), np.zeros((n, 2), np.int64))
        self._output = np.empty((n + 2, _OUTPUT_BLOCK), np.int64)
        self._deaths = np.empty((0, 3), np.int64)
        self._counters = np.zeros(k.COUNTERS, np.int64)
        for stream, layout in enumerate(self.layouts):
            self._streams[stream, k.S_PREFIX] = layout.width
            self._streams[stream, k.S_LIFETIME] = layout.lifetime
            self._streams[stream, k.S_ROWS] = layout.rows
            self._streams[stream, k.S_MASK] = _FIRST_CAPACITY - 1
        self._assembly: Assembly = assemble(Programs((), {}, {}), self.layouts)
        self._states = np.zeros((0, k.STATE_FIELDS), np.int64)
        self.transition(plan, rank)

    # -- Running ------------------------------------------------------------------------

    def offer(self, batches: Sequence[k.Int64s], watermark: int | None = None) -> None:
        """Hand over new tuples, per stream in time order (a matrix of its layout's words).

        ``watermark``: no tuple before this time will be offered after these. Without one the tuples come in
        total order over all calls.
        """
        words = [batch.reshape(-1) for batch in batches]
        ends = np.cumsum([len(w) for w in words])
        self._inbox = k.Inbox(np.concatenate(words), np.stack([ends - [len(w) for w in words], ends], axis=1))
        if self._horizon < FOREVER:
            self._frames.registers[k.R_WATERMARK] = max(self._horizon, int(self._frames.registers[k.R_WATERMARK]))
        self._horizon = FOREVER if watermark is None else min(watermark, FOREVER - 1)
        tuples = 0
        for stream, (layout, batch) in enumerate(zip(self.layouts, batches, strict=True)):
            if layout.partition is not None and len(batch):
                tuples += len(batch)
                self._reserve_partitions(stream, int(batch[:, layout.partition].max()) + 1)
        known = self._deaths[: self._frames.registers[k.R_DEATHS]]
        self._deaths = np.concatenate([known, np.empty((tuples, 3), np.int64)])

    def load(self, batches: Sequence[k.Int64s], watermark: int) -> None:
        """Fill the RANGE windows of a new engine with tuples whose results were found before.

        A restart is a change from the empty plan: base windows are there, and every key of every state is absent.
        """
        for stream, (layout, batch) in enumerate(zip(self.layouts, batches, strict=True)):
            joining = batch[batch[:, k.ROW] >= 0]
            held = joining[np.argsort(joining[:, k.T], kind="stable")]
            row = self._streams[stream]
            capacity = max(int(row[k.S_MASK]) + 1, 1 << len(held).bit_length())
            self._relocate(stream, capacity, int(row[k.S_STRIDE]))
            self._window(stream)[: len(held), : layout.width] = held
            row[k.S_OLDEST], row[k.S_NEXT] = 0, len(held)
            self._index(stream)
        self._states[:, k.N_COMPLETE] = 0
        self._horizon = min(watermark, FOREVER - 1)

    def advance(self, limit: int | None = None) -> Iterator[k.Int64s]:
        """Process up to ``limit`` of the offered tuples; yields blocks of results.

        A block has a row per result: its time, its expiry, and the row number of each stream's tuple. It is
        good until the next one is asked for. (Times and expiries of an engine that is not ``timed`` mean
        nothing, unless the tuples came out of order.)
        """
        done = int(self._counters[k.C_TUPLES])
        end = np.iinfo(np.int64).max if limit is None else done + limit
        crowded, burst = False, 1
        while True:
            left = end - int(self._counters[k.C_TUPLES])
            stop, store = self._run(min(left, burst) if crowded else left, straight=self._straight and not crowded)
            if crowded and stop == k.FINISHED and left > burst:
                crowded = False
                continue
            if stop == k.CROWDED:
                # Crowds come together: leave ever longer stretches to the general machine.
                crowded, burst = True, min(2 * burst, 4096)
                continue
            if stop in (k.FINISHED, k.OUTPUT_FULL):
                count = int(self._frames.registers[k.R_OUTPUTS])
                if count:
                    yield self._output[:, :count].T
                    self._frames.registers[k.R_OUTPUTS] = 0
                if stop == k.FINISHED:
                    return
            elif stop == k.WINDOW_FULL:
                self._widen(store)
            elif stop == k.STATE_FULL:
                self._make_room(store)
            else:
                self._make_room_for_keys(store)

    def _run(self, limit: int, *, straight: bool) -> tuple[int, int]:
        """The kernel for the programs at hand; (what it stopped for, which store)."""
        if straight:
            return k.run_straight(
                self._memory.words,
                self._streams,
                self._path_rows,
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
        return k.run(
            self._memory.words,
            self._memory.floats,
            self._tables,
            self._frames,
            self._inbox,
            self._output,
            self._deaths,
            self._counters,
            self._horizon,
            limit,
        )

    def take_deaths(self) -> k.Int64s:
        """(stream, row, time) of the tuples that left ROWS windows since this was last asked."""
        deaths = self._deaths[: self._frames.registers[k.R_DEATHS]].copy()
        self._frames.registers[k.R_DEATHS] = 0
        return deaths

    @property
    def work(self) -> Work:
        return Work(*(int(count) for count in self._counters))

    def oldest_rows(self) -> list[int]:
        """Per stream, a row number below which no tuple is held any more."""
        rows = []
        for stream, row in enumerate(self._streams):
            held = self._window(stream)[np.arange(row[k.S_OLDEST], row[k.S_NEXT]) & row[k.S_MASK], k.ROW]
            rows.append(int(row_numbers(held).min(initial=np.iinfo(np.int64).max)))
        return rows

    def glimpse(self, most: int) -> Glimpse:
        """A look at up to ``most`` tuples of every base window: it takes the same time whatever they hold."""
        time = int(self._frames.registers[k.R_WATERMARK])
        windows = []
        for stream, layout in enumerate(self.layouts):
            row = self._streams[stream]
            oldest, following = int(row[k.S_OLDEST]), int(row[k.S_NEXT])
            words = self._window(stream)[spread(oldest, following, most) & int(row[k.S_MASK])]
            joining = words[:, k.ROW] >= 0
            if layout.rows:
                joining &= words[:, layout.width + k.ALIVE] == k.JOINING
            elif layout.lifetime < FOREVER:
                joining &= words[:, k.T] > time - layout.lifetime
            taken = words[joining, : layout.width]
            held = (following - oldest) * len(taken) / max(1, len(words))
            windows.append(WindowGlimpse(taken, held, following - int(row[k.S_RENUMBERED])))
        return Glimpse(time, tuple(windows))

    def sizes(self) -> list[StoreSize]:
        """What every base window and kept state holds."""
        sizes = []
        for stream, row in enumerate(self._streams):
            words = (int(row[k.S_MASK]) + 1) * int(row[k.S_STRIDE])
            words += sum(self._heads[key].mask + 1 for key in self._links[stream])
            words += self._partitions[stream] * k.PARTITION_FIELDS
            held = int(row[k.S_NEXT] - row[k.S_OLDEST])
            sizes.append(StoreSize(frozenset((stream,)), held, None, 8 * words))
        for index, node in enumerate(self._nodes):
            self._sweep(index)
            row = self._states[index]
            words = int(row[k.N_CAPACITY]) * (int(row[k.N_STRIDE]) + 2)
            words += (int(row[k.N_DIRECTORY_MASK]) + 1) * k.DIRECTORY_FIELDS
            live = None if row[k.N_COMPLETE] else int(row[k.N_LIVE])
            sizes.append(StoreSize(node, int(row[k.N_COUNT]), live, 8 * words))
        return sizes

    # -- Plans --------------------------------------------------------------------------

    def transition(self, plan: Plan, rank: Rank | None = None) -> None:
        """Run under another plan from the next tuple on (JISC 4.1).

        States that both plans keep stay as they are, each key with its status; those of
        the old plan alone are dropped; those of the new one alone start with every key
        absent, to be completed when probed. A state that the new plan probes by another key
        is indexed anew if it was complete, and else starts absent. While nothing has arrived,
        nothing is missing.
        """
        programs = compile_programs(plan, self.graph, rank)
        assembly = assemble(programs, self.layouts)
        old = {node: self._states[i] for i, node in enumerate(self._nodes)}
        old_keys = {node: self._key_classes(i) for i, node in enumerate(self._nodes)}
        empty = bool((self._streams[:, k.S_NEXT] == self._streams[:, k.S_OLDEST]).all())
        states = np.zeros((len(assembly.nodes), k.STATE_FIELDS), np.int64)
        rekeyed = []
        for i, node in enumerate(assembly.nodes):
            if node in old:
                states[i] = old.pop(node)
                if old_keys[node] != programs.keys[node]:
                    if states[i, k.N_COMPLETE]:
                        rekeyed.append(i)
                    else:
                        self._free_state(states[i])
                        states[i] = self._new_state(node, complete=False)
            else:
                states[i] = self._new_state(node, complete=empty)
            states[i, [k.N_COMPONENTS, k.N_COMPONENT_COUNT]] = assembly.components[i]
            states[i, [k.N_KEY, k.N_KEY_COUNT]] = assembly.keys[i]
            states[i, [k.N_ROWS, k.N_ROWS_COUNT]] = assembly.rows[i]
        for row in old.values():
            self._free_state(row)
        self._states = states
        self._assembly = assembly
        self.plan = plan
        self._install_paths()
        self._frames = _frames(len(self.layouts), self._frames.code.shape[1], len(states), self._frames.registers)
        for i in rekeyed:
            self._rekey(i)
        self._straight = self._is_straight()

    def resume(self) -> None:
        """Derive what an image leaves out, after the rest was taken over from it.

        The assembled programs are part of it, since the same plan can be compiled in more than one way.
        """
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
    def _unburied(self) -> k.Int64s:
        """The deaths that nobody has asked for, and room for those of the tuples to come."""
        known = int(self._frames.registers[k.R_DEATHS])
        return self._deaths if len(self._unprocessed.tuples) else self._deaths[:known]

    @_unburied.setter
    def _unburied(self, deaths: k.Int64s) -> None:
        self._deaths = deaths

    @property
    def _nodes(self) -> tuple[Node, ...]:
        return self._assembly.nodes

    @property
    def _paths(self) -> tuple[Path, ...]:
        return self._assembly.paths

    def _key_classes(self, index: int) -> tuple[int, ...]:
        start, count = self._assembly.keys[index]
        return tuple(int(c) for c in self._assembly.lists[start : start + count])

    def _install_paths(self) -> None:
        """Give every access path of the new programs its link field and hash heads.

        Paths by the same classes share a region of heads, in which those of one key are
        neighbours. What the old programs used in the same way stays as it is.
        """
        paths = self._assembly.paths
        self._path_rows = np.zeros((max(1, len(paths)), k.PATH_FIELDS), np.int64)
        self._build_tables()
        for stream, layout in enumerate(self.layouts):
            mine = [key for owner, key in paths if owner == stream]
            links = {key: link for key, link in self._links[stream].items() if key in mine}
            free = iter(sorted(set(range(len(mine))) - set(links.values())))
            links |= {key: next(free) for key in mine if key not in links}
            self._links[stream] = links
            row = self._streams[stream]
            row[k.S_PATH] = next((i for i, (owner, _) in enumerate(paths) if owner == stream), 0)
            row[k.S_PATHS] = len(mine)
            stride = layout.first_link + max([0, *links.values()]) + 1
            if row[k.S_STRIDE] < stride:
                self._relocate(stream, int(row[k.S_MASK]) + 1, stride)
        for i, (stream, key) in enumerate(paths):
            layout = self.layouts[stream]
            self._path_rows[i, k.P_LINK] = layout.first_link + self._links[stream][key]
            self._path_rows[i, [k.P_FIELDS, k.P_COUNT]] = self._assembly.path_fields[i]
        old, self._heads = self._heads, {}
        for key in dict.fromkeys(key for _, key in paths):
            streams = tuple(stream for stream, other in paths if other == key)
            kept = old.pop(key, None)
            if kept is not None and kept.streams == streams:
                self._heads[key] = kept
                self._place_heads(key)
            else:
                if kept is not None:
                    self._memory.free(kept.start, kept.words)
                self._allocate_heads(key, streams)
        for dropped in old.values():
            self._memory.free(dropped.start, dropped.words)

    def _allocate_heads(self, key: tuple[int, ...], streams: tuple[int, ...]) -> None:
        """Hash heads for the paths by ``key``, four times as many as the largest window has room for."""
        mask = 4 * int(self._streams[list(streams), k.S_MASK].max()) + 3
        self._heads[key] = Heads(self._memory.allocate((mask + 1) * len(streams)), mask, streams)
        self._place_heads(key)
        for stream in streams:
            k.relink_path(self._memory.words, self._tables, stream, self._paths.index((stream, key)))

    def _place_heads(self, key: tuple[int, ...]) -> None:
        heads = self._heads[key]
        for i, stream in enumerate(heads.streams):
            row = self._path_rows[self._paths.index((stream, key))]
            row[[k.P_HEADS, k.P_SPAN, k.P_MASK]] = heads.start + i, len(heads.streams), heads.mask

    def _build_tables(self) -> None:
        self._tables = k.Tables(
            self._streams,
            self._path_rows,
            self._states,
            self._assembly.steps,
            self._assembly.programs,
            self._assembly.lists,
            *self._thetas,
        )

    # -- Base windows -------------------------------------------------------------------

    def _window(self, stream: int) -> k.Int64s:
        row = self._streams[stream]
        capacity, stride = int(row[k.S_MASK]) + 1, int(row[k.S_STRIDE])
        return self._memory.words[row[k.S_REGION] : row[k.S_REGION] + capacity * stride].reshape(capacity, stride)

    def _relocate(self, stream: int, capacity: int, stride: int) -> None:
        """Move a base window to a region of another size; its access paths are built separately."""
        row = self._streams[stream]
        old_start, old_stride, old_mask = int(row[k.S_REGION]), int(row[k.S_STRIDE]), int(row[k.S_MASK])
        region = self._memory.allocate(capacity * stride)
        held = np.arange(row[k.S_OLDEST], row[k.S_NEXT])
        kept = min(stride, old_stride)
        tuples = self._window(stream)[held & old_mask, :kept]
        row[k.S_REGION], row[k.S_STRIDE], row[k.S_MASK] = region, stride, capacity - 1
        self._window(stream)[held & (capacity - 1), :kept] = tuples
        if old_stride:
            self._memory.free(old_start, (old_mask + 1) * old_stride)

    def _index(self, stream: int) -> None:
        """Build the access paths of a window anew after it moved; with more hash heads if it outgrew them."""
        for key in self._links[stream]:
            heads = self._heads[key]
            if heads.mask < self._streams[stream, k.S_MASK]:
                self._memory.free(heads.start, heads.words)
                self._allocate_heads(key, heads.streams)
            else:
                k.relink_path(self._memory.words, self._tables, stream, self._paths.index((stream, key)))

    def _widen(self, stream: int) -> None:
        """Make room in a base window: drop what died in its middle, or double it."""
        row = self._streams[stream]
        capacity = int(row[k.S_MASK]) + 1
        if row[k.S_ROWS] and 2 * self._count_alive(stream) <= capacity:
            self._renumber(stream)
        else:
            self._relocate(stream, 2 * capacity, int(row[k.S_STRIDE]))
        self._index(stream)

    def _count_alive(self, stream: int) -> int:
        row = self._streams[stream]
        held = np.arange(row[k.S_OLDEST], row[k.S_NEXT]) & row[k.S_MASK]
        return int((self._window(stream)[held, self.layouts[stream].width + k.ALIVE] != k.DEAD).sum())

    def _renumber(self, stream: int) -> None:
        """Close the gaps that dead tuples left in a partitioned ROWS window.

        One silent partition would otherwise hold on to everything that came after its tuples.
        """
        holding = [i for i, node in enumerate(self._nodes) if stream in node]
        for index in holding:
            self._sweep(index)
        row = self._streams[stream]
        window = self._window(stream)
        held = np.arange(row[k.S_OLDEST], row[k.S_NEXT])
        alive = held[window[held & row[k.S_MASK], self.layouts[stream].width + k.ALIVE] != k.DEAD]
        tuples = window[alive & row[k.S_MASK]]
        first = int(row[k.S_NEXT])
        renumbered = np.arange(first, first + len(alive))
        window[renumbered & row[k.S_MASK]] = tuples
        row[k.S_OLDEST], row[k.S_NEXT] = first, first + len(alive)
        row[k.S_RENUMBERED] += len(alive)
        k.rejoin_partitions(self._memory.words, self._tables, stream, self._partitions[stream])
        for index in holding:
            component = k.COMPONENTS + sorted(self._nodes[index]).index(stream)
            entries = self._entries(index)
            entries[:, component] = renumbered[np.searchsorted(alive, entries[:, component])]

    def _reserve_partitions(self, stream: int, count: int) -> None:
        have = self._partitions[stream]
        if count <= have:
            return
        row = self._streams[stream]
        room = max(2 * have, count, 16)
        region = self._memory.allocate(room * k.PARTITION_FIELDS)
        old = int(row[k.S_PARTITIONS])
        words = self._memory.words
        words[region : region + have * k.PARTITION_FIELDS] = words[old : old + have * k.PARTITION_FIELDS]
        if have:
            self._memory.free(old, have * k.PARTITION_FIELDS)
        row[k.S_PARTITIONS] = region
        self._partitions[stream] = room

    # -- States -------------------------------------------------------------------------

    def _new_state(self, node: Node, *, complete: bool) -> k.Int64s:
        row = np.zeros(k.STATE_FIELDS, np.int64)
        row[k.N_STRIDE] = k.COMPONENTS + len(node)
        row[k.N_CAPACITY] = _FIRST_CAPACITY
        row[k.N_MASK] = 2 * _FIRST_CAPACITY - 1
        row[k.N_DIRECTORY_MASK] = _FIRST_CAPACITY - 1
        row[k.N_COMPLETE] = complete
        row[k.N_REGION] = self._memory.allocate(_FIRST_CAPACITY * int(row[k.N_STRIDE]))
        row[k.N_HEADS] = self._memory.allocate(2 * _FIRST_CAPACITY, -1)
        row[k.N_DIRECTORY] = self._memory.allocate(_FIRST_CAPACITY * k.DIRECTORY_FIELDS)
        return row

    def _free_state(self, row: k.Int64s) -> None:
        self._memory.free(int(row[k.N_REGION]), int(row[k.N_CAPACITY] * row[k.N_STRIDE]))
        self._memory.free(int(row[k.N_HEADS]), int(row[k.N_MASK]) + 1)
        self._memory.free(int(row[k.N_DIRECTORY]), (int(row[k.N_DIRECTORY_MASK]) + 1) * k.DIRECTORY_FIELDS)

    def _entries(self, index: int) -> k.Int64s:
        row = self._states[index]
        count, stride = int(row[k.N_COUNT]), int(row[k.N_STRIDE])
        return self._memory.words[row[k.N_REGION] : row[k.N_REGION] + count * stride].reshape(count, stride)

    def _sweep(self, index: int) -> None:
        k.sweep(self._memory.words, self._tables, index, int(self._frames.registers[k.R_WATERMARK]))

    def _make_room(self, index: int) -> None:
        """Drop expired entries; double the state if that does not free half of it."""
        self._sweep(index)
        row = self._states[index]
        capacity, stride = int(row[k.N_CAPACITY]), int(row[k.N_STRIDE])
        if 2 * row[k.N_COUNT] <= capacity:
            return
        region = self._memory.allocate(2 * capacity * stride)
        heads = self._memory.allocate(4 * capacity)
        entries = self._entries(index)
        self._memory.words[region : region + entries.size] = entries.reshape(-1)
        self._memory.free(int(row[k.N_REGION]), capacity * stride)
        self._memory.free(int(row[k.N_HEADS]), int(row[k.N_MASK]) + 1)
        row[k.N_REGION], row[k.N_CAPACITY] = region, 2 * capacity
        row[k.N_HEADS], row[k.N_MASK] = heads, 4 * capacity - 1
        k.relink(self._memory.words, self._tables, index)

    def _make_room_for_keys(self, index: int) -> None:
        """Forget live keys without entries; double the directory if it stays more than a quarter full."""
        row = self._states[index]
        self._sweep(index)
        slots = int(row[k.N_DIRECTORY_MASK]) + 1
        if 4 * (row[k.N_LIVE] + 1) > slots:
            self._memory.free(int(row[k.N_DIRECTORY]), slots * k.DIRECTORY_FIELDS)
            row[k.N_DIRECTORY] = self._memory.allocate(2 * slots * k.DIRECTORY_FIELDS)
            row[k.N_DIRECTORY_MASK] = 2 * slots - 1
            self._sweep(index)  # enters the keys of all entries

    def _rekey(self, index: int) -> None:
        """Give the entries of a complete state the key by which its new sibling probes it."""
        self._sweep(index)
        entries = self._entries(index)
        classes = self._key_classes(index)
        codes = np.zeros((len(entries), max(1, len(self.graph.classes))), np.int64)
        for attribute in classes:
            stream = min(s for s in self._nodes[index] if attribute in self.layouts[s].codes)
            component = entries[:, k.COMPONENTS + sorted(self._nodes[index]).index(stream)]
            window = self._window(stream)
            slots = component & int(self._streams[stream, k.S_MASK])
            codes[:, attribute] = window[slots, self.layouts[stream].codes[attribute]]
        start, count = self._assembly.keys[index]
        k.key_entries(entries, codes, self._assembly.lists, start, count)
        k.relink(self._memory.words, self._tables, index)


def _frames(streams: int, classes: int, states: int, registers: k.Int64s | None = None) -> k.Frames:
    """Room for the new tuple's frame and one per state above it."""
    frames = states + 1
    return k.Frames(
        registers=np.zeros(k.REGISTERS, np.int64) if registers is None else registers,
        program=np.zeros(frames, np.int64),
        depth=np.zeros(frames, np.int64),
        state=np.zeros(frames, np.int64),
        key=np.zeros(frames, np.int64),
        cursor=np.zeros((frames, streams), np.int64),
        probe=np.zeros((frames, streams), np.int64),
        latest=np.zeros((frames, streams + 1), np.int64),
        expiry=np.zeros((frames, streams + 1), np.int64),
        bound=np.zeros((frames, streams), np.int64),
        code=np.zeros((frames, max(1, classes)), np.int64),
    )
