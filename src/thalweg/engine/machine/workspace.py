"""The arrays that the kernels work on, and what their rows mean: what all parts of a join share.

Windows, states, feedback and the machine each change rows of their own here. Nothing else is shared between them, so
each can be built and tested with a workspace and nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from thalweg.cql.query import Query
from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.machine.frames import new_frames
from thalweg.engine.machine.step_work import StepWork
from thalweg.engine.programs.assembly import Assembly, assemble
from thalweg.engine.programs.theta_tables import theta_tables
from thalweg.engine.rows.layout import StreamLayout, layouts
from thalweg.engine.storage.memory import Memory
from thalweg.engine.time_bounds import NEVER
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.program import Programs
from thalweg.plan.slices import Slicing, Span
from thalweg.plan.tree import Node

FIRST_CAPACITY = 1 << 7
"""Tuples or entries that a new window or state has room for: a page or two, doubled on demand."""


class Workspace:
    """One join's memory, tables and frames.

    Attributes:
        layouts: how the tuples of each stream look.
        first_capacity: tuples or entries that a new store has room for.
        keeps_masks: whether there are several distinct selections, so that tuples and entries keep which they pass.
        graph: which streams a predicate connects.
        memory: where tuples, entries and hash tables lie.
        assembly: the programs that run, as numbers.
        slices: how many slices the window with most of them has; ``streams`` has a row for so many of each stream.
        streams, paths, states: the rows of :class:`~thalweg.engine.kernels.tables.Tables` by those names.
        work: what the instructions of the programs have done.
        counters: what is counted beside it.
        frames: the machine's place.
        tables: all of the above as the kernels take them.

    """

    __image__: ClassVar = ("memory", "assembly", "streams", "paths", "states", "work", "counters", "frames")
    tables: k.Tables

    def __init__(self, query: Query, slicing: Slicing | None = None) -> None:
        self.layouts: tuple[StreamLayout, ...] = layouts(query, slicing)
        self.first_capacity = FIRST_CAPACITY
        self.keeps_masks = slicing is not None and slicing.selections > 1
        self.slices = max((len(layout.ends) for layout in self.layouts), default=1)
        self.graph = JoinGraph.of(query)
        n = len(self.layouts)
        self.memory = Memory()
        self.assembly: Assembly = assemble(Programs((), {}, {}, {}), self.layouts)
        self.streams = np.zeros((n * self.slices, k.STREAM_FIELDS), np.int64)
        self.paths = np.zeros((1, k.PATH_FIELDS), np.int64)
        self.states = np.zeros((0, k.STATE_FIELDS), np.int64)
        self.work = StepWork()
        self.counters = np.zeros(k.COUNTERS, np.int64)
        self.frames = new_frames(n, len(query.classes), 0)
        self.frames.registers[k.R_WATERMARK] = NEVER
        self._thetas = theta_tables(query.thetas, self.layouts)
        # Ages of static relations, which came before all time, are beyond FOREVER.
        spans: Sequence[Sequence[Span]] = [[None]] * n if slicing is None else slicing.reach
        reach = [[k.GREATEST if span is None else span for span in each] for each in spans]
        self._reach = np.array(reach, np.int64).reshape(n, -1)
        self.resume()

    def install(self, assembly: Assembly) -> None:
        """Work for these programs from now on; ``states`` has the rows of their states already."""
        self.assembly = assembly
        for row, components, keys, rows in zip(
            self.states, assembly.components, assembly.keys, assembly.rows, strict=True
        ):
            row[[k.N_COMPONENTS, k.N_COMPONENT_COUNT]] = components
            row[[k.N_KEY, k.N_KEY_COUNT]] = keys
            row[[k.N_ROWS, k.N_ROWS_COUNT]] = rows
        self.paths = np.zeros((max(1, len(assembly.paths) * self.slices), k.PATH_FIELDS), np.int64)
        self.work.begin(assembly, len(self.layouts))
        self.frames = new_frames(len(self.layouts), self.frames.code.shape[1], len(self.states), self.frames.registers)
        self._build_tables()

    def resume(self) -> None:
        """Derive what an image leaves out, after the rest was taken over from it."""
        self.work.read(self.assembly, len(self.layouts))
        self._build_tables()

    def _build_tables(self) -> None:
        self.tables = k.Tables(
            self.streams,
            self.paths,
            self.states,
            self.assembly.steps,
            self.work.rows,
            self.assembly.programs,
            self.assembly.lists,
            *self._thetas,
            self._reach,
        )

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The kept states, in the order of their rows."""
        return self.assembly.nodes

    def slices_of(self, stream: int) -> list[int]:
        """The rows of the slices of a stream's window."""
        n = len(self.layouts)
        return [stream + n * place for place in range(len(self.layouts[stream].ends))]

    def key_classes(self, index: int) -> tuple[int, ...]:
        """The attribute classes of a state's key."""
        start, count = self.assembly.keys[index]
        return tuple(int(c) for c in self.assembly.lists[start : start + count])

    @property
    def watermark(self) -> int:
        """No tuple before this time is to come, as far as those taken so far tell."""
        return int(self.frames.registers[k.R_WATERMARK])

    @property
    def taken(self) -> int:
        """How many tuples were taken."""
        return int(self.counters[k.C_TUPLES])

    def region(self, start: int, rows: int, width: int) -> Int64s:
        """A part of the memory as a table."""
        return self.memory.words[start : start + rows * width].reshape(rows, width)
