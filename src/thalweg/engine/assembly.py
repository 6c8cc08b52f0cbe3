"""From probe programs to the numbers that the kernel runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.cql.query import Theta
from thalweg.engine.kernels import feedback as fb
from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Float64s, Int32s, Int64s
from thalweg.engine.layout import StreamLayout
from thalweg.plan.program import Demand, Emit, Gate, Instruction, Land, Probe, Program, Programs, Send, Store
from thalweg.plan.tree import Node

Path = tuple[int, tuple[int, ...]]
"""An access path of a base window: the stream, and the attribute classes it is looked up by."""

_OPERATORS = {
    "<": k.LESS,
    "<=": k.LESS_EQUAL,
    ">": k.GREATER,
    ">=": k.GREATER_EQUAL,
    "<>": k.NOT_EQUAL,
}


@dataclass(frozen=True, slots=True)
class Assembly:
    """Programs in the kernel's form, and what they refer to.

    Attributes:
        paths: the access paths, in the order of their rows (by stream).
        nodes: the kept states, in the order of their rows.
        path_fields, components, keys, rows, parts: (start, count) in ``lists``, per path or state.
        searching: the first of the programs that look for what a demand asks.
        rare: the keys of access paths that only feedback uses, which is seldom.
        feedback: where programs stop when there is no demand; its tables have no room yet.

    """

    paths: tuple[Path, ...]
    nodes: tuple[Node, ...]
    steps: Int32s
    programs: Int64s
    lists: Int64s
    path_fields: tuple[tuple[int, int], ...]
    components: tuple[tuple[int, int], ...]
    keys: tuple[tuple[int, int], ...]
    rows: tuple[tuple[int, int], ...]
    parts: tuple[tuple[int, int], ...]
    searching: int
    rare: tuple[tuple[int, ...], ...]
    feedback: fb.Feedback | None


class _Lists:
    """Short lists of numbers laid end to end."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def add(self, numbers: Iterable[int], width: int = 1) -> tuple[int, int]:
        start = len(self.numbers)
        self.numbers += numbers
        return start, (len(self.numbers) - start) // width


def assemble(
    programs: Programs,
    layouts: Sequence[StreamLayout],
    *,
    filter_bits: int | None = None,
    unchanging: Node = frozenset(),
) -> Assembly:
    """Lay out the programs of a plan as tables of numbers.

    ``filter_bits``: gates ask Bloom filters of that size. ``unchanging``: the streams to which nothing is added.
    """
    nodes = tuple(sorted(programs.keys, key=sorted))
    sequence = [*programs.heads, *(programs.completions[node] for node in nodes)]
    sequence += [programs.fills[node] for node in nodes if programs.fills]
    witnesses, used = len(sequence), _looked_up(sequence)
    sequence += [demand.witness for demand in programs.demands]
    sequence += programs.searches.values()
    rare = _looked_up(sequence[witnesses:])
    if filter_bits is None:
        rare |= {part for demand in programs.demands for part in _partners(demand, layouts) if part[1]}
    paths = tuple(sorted(used | rare))
    lists = _Lists()
    path_fields = tuple(lists.add(layouts[stream].codes[c] for c in key) for stream, key in paths)
    components = tuple(lists.add(sorted(node)) for node in nodes)
    keys = tuple(lists.add(programs.keys[node]) for node in nodes)
    rows = tuple(lists.add(_rows_components(node, layouts), width=2) for node in nodes)
    parts = _Parts(programs.keys, paths, layouts, lists)
    step_rows = _Steps(nodes, paths, layouts, lists, parts)

    steps: list[list[int]] = []
    table: list[list[int]] = []
    for i, program in enumerate(sequence):
        known: set[int] = set()
        if i < len(programs.heads):
            binds = lists.add(_binds(program.head, known, layouts), width=3)
        else:
            known |= set(program.given)
            binds = (0, 0)
        straight, key = 0, (0, 0)
        if i < len(programs.heads):
            straight, key = _straight(program, layouts), lists.add(_first_key(program, layouts))
        table.append([len(steps), *binds, straight, *key])
        steps += step_rows.of(program, known)
    own_parts = tuple(parts.of(node) for node in nodes)
    feedback = None
    if programs.demands or programs.searches:
        firsts = [row[k.G_FIRST] for row in table[: len(programs.heads)]]
        builder = _FeedbackBuilder(programs, layouts, lists, firsts)
        feedback = builder.build(paths, nodes, len(steps), witnesses, filter_bits, unchanging)
    return Assembly(
        paths,
        nodes,
        np.array(steps, np.int32).reshape(-1, k.STEP_FIELDS),
        np.array(table, np.int64).reshape(-1, k.PROGRAM_FIELDS),
        np.array(lists.numbers or [0], np.int64),
        path_fields,
        components,
        keys,
        rows,
        own_parts,
        witnesses,
        tuple(sorted({key for _, key in rare} - {key for _, key in used})),
        feedback,
    )


def _looked_up(programs: Iterable[Program]) -> set[Path]:
    """The access paths that programs use."""
    return {(min(s.target), s.key) for p in programs for s in p.probes if len(s.target) == 1 and not s.scans}


def _partners(demand: Demand, layouts: Sequence[StreamLayout]) -> list[Path]:
    """The windows that a demand asks, each with the classes of the key that it carries."""
    return [(stream, tuple(c for c in demand.key if c in layouts[stream].codes)) for stream in demand.others]


class _Parts:
    """What base windows can tell about keys of states (:func:`thalweg.engine.kernels.windows.vacancy`)."""

    def __init__(
        self,
        keys: Mapping[Node, tuple[int, ...]],
        paths: Sequence[Path],
        layouts: Sequence[StreamLayout],
        lists: _Lists,
    ) -> None:
        self._keys = keys
        self._rows = {path: i for i, path in enumerate(paths)}
        self._layouts = layouts
        self._lists = lists
        self._known: dict[tuple[Node, Node | None, int | None], tuple[int, int]] = {}

    def of(self, node: Node, sure: Node | None = None, near: int | None = None) -> tuple[int, int]:
        """(start, count) of the parts of a state's key, less those of the state whose key is being completed.

        A new tuple of the stream ``near`` asks the windows first whose hash heads are beside its own, in a cache line
        that it has just touched.
        """
        known = self._known.get((node, sure, near))
        if known is None:
            certain = () if sure is None else self._of(sure)
            parts = [part for part in self._of(node) if part not in certain]
            if near is not None:
                parts.sort(key=lambda part: abs(part[0] - near))
            rows = [(part[0], self._rows[part], *self._lists.add(part[1])) for part in parts]
            placed = self._lists.add((n for row in rows for n in row), width=k.PART_WIDTH)
            known = self._known[node, sure, near] = placed
        return known

    def _of(self, node: Node) -> list[Path]:
        carried = ((s, tuple(c for c in self._keys[node] if c in self._layouts[s].codes)) for s in sorted(node))
        return [part for part in carried if part in self._rows]


class _FeedbackBuilder:
    """Demands, gates and gaps as tables of numbers; see :class:`thalweg.engine.kernels.feedback.Feedback`."""

    def __init__(
        self,
        programs: Programs,
        layouts: Sequence[StreamLayout],
        lists: _Lists,
        firsts: Sequence[int],
    ) -> None:
        self.programs = programs
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
            self.filters = sorted({partner for demand in keyed for partner in _partners(demand, self.layouts)})
        for i, demand in enumerate(self.programs.demands):
            is_filtered = filter_bits is not None and bool(demand.key)
            where = self.filters if is_filtered else paths
            partners = [
                [stream, where.index((stream, classes)) if classes else -1, *self.lists.add(classes)]
                for stream, classes in _partners(demand, self.layouts)
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
        kinds = [[(classes, self.lists.add(classes)) for classes in self.programs.gaps(node)] for node in nodes]
        for i, node in enumerate(nodes):
            gaps[i, [fb.O_KINDS, fb.O_KIND_COUNT]] = self.lists.add(
                (number for _, place in kinds[i] for number in place), width=2
            )
            gaps[i, fb.O_CARRIERS], _ = self.lists.add(self._carriers(node))
            gaps[i, fb.O_SEARCH] = -1
            if node in self.programs.searches:
                gaps[i, fb.O_SEARCH] = witnesses + len(demands) + list(self.programs.searches).index(node)
        is_told = (demands[:, fb.D_IS_FILTERED] > 0) | (demands[:, fb.D_STATE] >= 0)
        gates, asked = self._gates(steps, nodes, kinds, is_told)
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
            _, stream, field = _carrier(attribute, node, self.layouts)
            yield from (attribute, stream, k.COMPONENTS + sorted(node).index(stream), field)

    def _gates(
        self,
        steps: int,
        nodes: Sequence[Node],
        kinds: Sequence[Sequence[tuple[tuple[int, ...], tuple[int, int]]]],
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
                gaps: list[int] = []
                for node, classes in each.gaps:
                    state = nodes.index(node)
                    kind = [known for known, _ in kinds[state]].index(classes)
                    gaps += [state, kind, *kinds[state][kind][1]]
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
                        *self.lists.add(gaps, width=fb.GAP_FIELDS),
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


def _straight(program: Program, layouts: Sequence[StreamLayout]) -> int:
    """The field of the one key by which a program looks up base windows and does nothing else; 0 if it does."""
    *probes, last = program.instructions
    keys = {probe.key for probe in program.probes}
    straight = (
        isinstance(last, Emit)
        and len(program.head) == 1
        and len(keys) == 1
        and all(isinstance(p, Probe) and len(p.key) == 1 == len(p.target) for p in probes)
        and not any(p.scans or p.checks or p.thetas for p in program.probes)
    )
    return layouts[min(program.head)].codes.get(min(keys)[0], 0) if straight else 0


def _first_key(program: Program, layouts: Sequence[StreamLayout]) -> list[int]:
    """The fields of the head's tuple by which the first probe is looked up; none if it is not."""
    first = program.instructions[0]
    if not isinstance(first, Probe) or first.scans:
        return []
    return [layouts[min(program.head)].codes[c] for c in first.key]


class _Steps:
    """Instructions as rows. Programs share probes from the join on where they meet, and so do their rows."""

    def __init__(
        self,
        nodes: Sequence[Node],
        paths: Sequence[Path],
        layouts: Sequence[StreamLayout],
        lists: _Lists,
        parts: _Parts,
    ) -> None:
        self._states = {node: i for i, node in enumerate(nodes)}
        self._paths = {path: i for i, path in enumerate(paths)}
        self._layouts = layouts
        self._lists = lists
        self._parts = parts
        self._gates = 0
        self._rows: dict[tuple[Probe, frozenset[int], Node | None, int | None], tuple[list[int], frozenset[int]]] = {}

    def of(self, program: Program, known: Iterable[int]) -> Iterable[list[int]]:
        """The rows of a program that begins with the values of some classes known."""
        sure = program.head if program.given else None
        met = frozenset() if program.unordered else frozenset(known)
        near = min(program.head) if sure is None else None
        for each in program.instructions:
            if isinstance(each, Probe):
                asked = each, met, sure, near
                row = self._rows.get(asked)
                if row is None:
                    row = self._rows[asked] = self._row(*asked)
                met = met if program.unordered else row[1]
                near = None
                yield row[0]
            else:
                yield self._plain_row(each)
        if not program.instructions or not isinstance(program.instructions[-1], Emit):
            yield _operands(k.BACK)

    def _plain_row(self, instruction: Instruction) -> list[int]:
        match instruction:
            case Store(state, always):
                return _operands(k.STORE, self._states[state], int(always))
            case Gate():
                self._gates += 1
                return _operands(k.GATE, self._gates - 1)
            case Send():
                return _operands(k.SEND)
            case Land():
                return _operands(k.LAND)
            case _:
                return _operands(k.EMIT)

    def _row(
        self, probe: Probe, met: frozenset[int], sure: Node | None, near: int | None
    ) -> tuple[list[int], frozenset[int]]:
        """A probe as a row, and the classes known after it."""
        stream = min(probe.target)
        is_state = len(probe.target) > 1
        known = set(met)
        checks = self._lists.add((n for c in probe.checks for n in _carrier(c, probe.target, self._layouts)), width=3)
        thetas = self._lists.add(probe.thetas)
        key = self._lists.add(probe.key)
        binds = self._lists.add(_binds(probe.target, known, self._layouts), width=3)
        row = [
            k.PROBE,
            self._states[probe.target] if is_state else stream,
            int(is_state),
            self._paths.get((stream, probe.key), 0) if not is_state else 0,
            self._layouts[stream].codes[probe.key[0]] if not is_state and len(probe.key) == 1 else 0,
            *key,
            *checks,
            *thetas,
            *binds,
            int(probe.scans),
            *(self._parts.of(probe.target, sure, near) if is_state else (0, 0)),
        ]
        return row, frozenset(known)


def _operands(operation: int, *operands: int) -> list[int]:
    """The row of an instruction with few operands."""
    return [operation, *operands, *[0] * (k.STEP_FIELDS - 1 - len(operands))]


def _binds(target: Node, known: set[int], layouts: Sequence[StreamLayout]) -> list[int]:
    """(class, stream, field) of the classes whose value ``target`` makes known."""
    numbers: list[int] = []
    for stream in sorted(target):
        for attribute, field in layouts[stream].codes.items():
            if attribute not in known:
                known.add(attribute)
                numbers += [attribute, stream, field]
    return numbers


def _carrier(attribute: int, node: Node, layouts: Sequence[StreamLayout]) -> tuple[int, int, int]:
    stream = min(s for s in node if attribute in layouts[s].codes)
    return attribute, stream, layouts[stream].codes[attribute]


def _rows_components(node: Node, layouts: Sequence[StreamLayout]) -> Iterable[int]:
    """(stream, field of the entry) of the components in ROWS windows."""
    for position, stream in enumerate(sorted(node)):
        if layouts[stream].rows:
            yield from (stream, k.COMPONENTS + position)


def theta_tables(thetas: Sequence[Theta], layouts: Sequence[StreamLayout]) -> tuple[Int64s, Int64s, Float64s]:
    """(rows, integer offsets, float offsets) of the theta predicates."""
    rows = np.zeros((len(thetas), k.THETA_FIELDS), np.int64)
    integers = np.zeros(len(thetas), np.int64)
    floats = np.zeros(len(thetas), np.float64)
    for i, theta in enumerate(thetas):
        if theta.offset is None:
            kind = k.COMPARE
        elif pa.types.is_floating(theta.type):
            kind = k.SUBTRACT_FLOATS
            floats[i] = theta.offset
        else:
            kind = k.SUBTRACT_INTEGERS
            integers[i] = theta.offset
        left, right = theta.left.stream, theta.right.stream
        rows[i] = [
            kind,
            _OPERATORS[theta.op],
            int(theta.absolute),
            left,
            layouts[left].operands[i, 0],
            right,
            layouts[right].operands[i, 1],
        ]
    return rows, integers, floats
