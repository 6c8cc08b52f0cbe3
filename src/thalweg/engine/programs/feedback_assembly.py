"""From demands, gates and gaps to the numbers that the kernel runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.engine.kernels import feedback_tables as fb
from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.programs.assembly_lists import Lists, Path, carrier, partner_paths
from thalweg.engine.rows.layout import StreamLayout
from thalweg.plan.program import Emit, Gap, Gate, Instruction, Probe, Program, Programs, Store
from thalweg.plan.tree import Node


class Gaps:
    """Where something is missing if a program stops, as lists of numbers.

    Attributes:
        kinds: per state, the different classes by which something can be missing, and where they are listed.

    """

    def __init__(self, programs: Programs, nodes: Sequence[Node], lists: Lists) -> None:
        self._nodes = nodes
        self._lists = lists
        self.kinds = [[(classes, lists.add(classes)) for classes in programs.gaps(node)] for node in nodes]

    def of(self, gaps: Sequence[Gap]) -> tuple[int, int]:
        """(start, count) of these."""
        numbers: list[int] = []
        for node, classes in gaps:
            state = self._nodes.index(node)
            kind = [known for known, _ in self.kinds[state]].index(classes)
            numbers += [state, kind, *self.kinds[state][kind][1]]
        return self._lists.add(numbers, width=fb.GAP_FIELDS)


class FeedbackBuilder:
    """Demands, gates and gaps as tables of numbers; see :class:`thalweg.engine.kernels.feedback_tables.Feedback`."""

    def __init__(
        self,
        programs: Programs,
        layouts: Sequence[StreamLayout],
        lists: Lists,
        gaps: Gaps,
        firsts: Sequence[int],
    ) -> None:
        self.programs = programs
        self.gaps = gaps
        self.layouts = layouts
        self.lists = lists
        self.firsts = firsts
        self.filters: Sequence[Path] = ()

    def build(
        self,
        paths: Sequence[Path],
        nodes: Sequence[Node],
        steps: int,
        witnesses: int,
        filter_bits: int | None,
        unchanging: Node,
    ) -> fb.Feedback:
        n = len(self.layouts)
        demands = np.zeros((len(self.programs.demands), fb.DEMAND_FIELDS), np.int64)
        if filter_bits is not None:
            keyed = [demand for demand in self.programs.demands if demand.key]
            self.filters = sorted({partner for demand in keyed for partner in partner_paths(demand, self.layouts)})
        for i, demand in enumerate(self.programs.demands):
            is_filtered = filter_bits is not None and bool(demand.key)
            where = self.filters if is_filtered else paths
            partners = [
                [stream + n * ring, place + len(paths) * ring if place >= 0 else -1, *self.lists.add(classes)]
                for stream, classes in partner_paths(demand, self.layouts)
                for place in [where.index((stream, classes)) if classes else -1]
                for ring in range(1 if is_filtered else len(self.layouts[stream].ends))
            ]
            demands[i, fb.D_STRIDE] = fb.V_NEXT + len(partners)
            demands[i, [fb.D_KEY, fb.D_KEY_COUNT]] = self.lists.add(demand.key)
            demands[i, fb.D_PROGRAM] = witnesses + i
            demands[i, [fb.D_PARTNERS, fb.D_PARTNER_COUNT]] = self.lists.add(
                (number for partner in partners for number in partner), width=fb.PARTNER_FIELDS
            )
            demands[i, fb.D_STATE] = -1 if demand.state is None else nodes.index(demand.state)
            demands[i, fb.D_IS_FILTERED] = is_filtered
            demands[i, fb.D_IS_FINAL] = set(demand.others) <= unchanging
        gaps = np.zeros((len(nodes), fb.STATE_GAP_FIELDS), np.int64)
        for i, node in enumerate(nodes):
            gaps[i, [fb.O_KINDS, fb.O_KIND_COUNT]] = self.lists.add(
                (number for _, place in self.gaps.kinds[i] for number in place), width=2
            )
            gaps[i, fb.O_CARRIERS], _ = self.lists.add(self._carriers(node))
            gaps[i, fb.O_SEARCH] = -1
            if node in self.programs.searches:
                gaps[i, fb.O_SEARCH] = witnesses + len(demands) + list(self.programs.searches).index(node)
        is_told = (demands[:, fb.D_IS_FILTERED] > 0) | (demands[:, fb.D_STATE] >= 0)
        gates, asked = self._gates(steps, nodes, is_told)
        filters = np.zeros((len(self.filters), fb.FILTER_FIELDS), np.int64)
        stream_filters = np.zeros((n, 2), np.int64)
        for i, (stream, classes) in enumerate(self.filters):
            filters[i, [fb.F_STREAM, fb.F_MASK]] = stream, filter_bits - 1 if filter_bits else 0
            filters[i, [fb.F_FIELDS, fb.F_FIELD_COUNT]] = self.lists.add(self.layouts[stream].codes[c] for c in classes)
            if not stream_filters[stream, 1]:
                stream_filters[stream, 0] = i
            stream_filters[stream, 1] += 1
        met, tally = np.zeros(n + 1, np.int64), np.zeros(fb.TALLIES, np.int64)
        return fb.Feedback(demands, gates, asked, gaps, filters, stream_filters, met, tally)

    def _carriers(self, node: Node) -> Iterable[int]:
        for attribute in self.programs.keys[node]:
            _, stream, field = carrier(attribute, node, self.layouts)
            yield from (attribute, stream, k.COMPONENTS + sorted(node).index(stream), field)

    def _gates(
        self,
        steps: int,
        nodes: Sequence[Node],
        is_told: NDArray[np.bool_],
    ) -> tuple[Int64s, Int64s]:
        """The rows of gates, in the order of their instructions; and which of them a failing probe asks about."""
        rows: list[list[int]] = []
        table = np.zeros((steps, fb.ASKED_FIELDS), np.int64)
        for first, program in zip(self.firsts, self.programs.heads, strict=True):
            mine: list[tuple[int, Gate]] = []
            step = -1
            for place, each in enumerate(program.instructions, start=first):
                if isinstance(each, Probe):
                    step = place
                if not isinstance(each, Gate):
                    continue
                if not is_told[each.demand]:
                    mine.append((len(rows), each))
                depth = fb.ANYWHERE if program.unordered and each.depth >= 0 else each.depth
                stored = _stored_behind(program.instructions[place - first :]) if step >= 0 else None
                rows.append(
                    [
                        each.demand,
                        step,
                        depth,
                        each.size,
                        *self.gaps.of(each.gaps),
                        -1 if stored is None else nodes.index(stored),
                    ]
                )
            places = [place for place, each in enumerate(program.instructions, start=first) if isinstance(each, Probe)]
            for depth, place in enumerate(places):
                asked = [
                    (gate.size, gate.depth, row)
                    for row, gate in mine
                    if (gate.depth < depth or program.unordered) and self._is_ahead(gate, program, depth)
                ]
                table[place] = self.lists.add(row for *_, row in sorted(asked))
        return np.array(rows, np.int64).reshape(-1, fb.GATE_FIELDS), table

    def _is_ahead(self, gate: Gate, program: Program, depth: int) -> bool:
        """Whether a probe at which a part would find its partner comes next, or later if something was joined by now.

        What one join was given in vain, those above it may not want either: the sooner all of them are asked, the less
        of the kind is produced. The first probe produces nothing, so if it fails, nobody needs to be asked. (The probes
        of an eddy come in any order.)
        """
        others = set(self.programs.demands[gate.demand].others)
        last = depth + 1 if depth == 0 or program.unordered else None
        return any(probe.target & others for probe in program.probes[depth:last])


def _stored_behind(instructions: Sequence[Instruction]) -> Node | None:
    """The state that a tuple is stored in by these instructions before it is probed with, if it is."""
    for each in instructions:
        if isinstance(each, Store):
            return each.state
        if isinstance(each, Probe | Emit):
            return None
    return None
