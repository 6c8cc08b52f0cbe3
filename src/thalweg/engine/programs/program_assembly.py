"""From the instructions of a program to rows of the kernel's table of steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from thalweg.engine.kernels import tables as k
from thalweg.engine.programs.assembly_lists import Lists, Path, carrier
from thalweg.engine.programs.feedback_assembly import Gaps
from thalweg.engine.rows.layout import StreamLayout
from thalweg.plan.program import Emit, Gate, Instruction, Land, Pay, Probe, Program, Send, Store
from thalweg.plan.tree import Node


class Parts:
    """What base windows can tell about keys of states (:func:`thalweg.engine.kernels.windows.vacancy`)."""

    def __init__(
        self,
        keys: Mapping[Node, tuple[int, ...]],
        paths: Sequence[Path],
        layouts: Sequence[StreamLayout],
        lists: Lists,
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
        whole = (s for s in sorted(node) if not self._layouts[s].is_sliced)  # each slice would have to be asked
        carried = ((s, tuple(c for c in self._keys[node] if c in self._layouts[s].codes)) for s in whole)
        return [part for part in carried if part in self._rows]


class Steps:
    """Instructions as rows. Programs share probes from the join on where they meet, and so do their rows."""

    def __init__(
        self,
        nodes: Sequence[Node],
        paths: Sequence[Path],
        layouts: Sequence[StreamLayout],
        lists: Lists,
        parts: Parts,
        gaps: Gaps,
    ) -> None:
        self._gaps = gaps
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
            case Pay(account, gaps):
                return _operands(k.PAY, account, *self._gaps.of(gaps))
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
        checks = self._lists.add((n for c in probe.checks for n in carrier(c, probe.target, self._layouts)), width=3)
        thetas = self._lists.add(probe.thetas)
        key = self._lists.add(probe.key)
        binds = self._lists.add(bindings(probe.target, known, self._layouts), width=3)
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


def bindings(target: Node, known: set[int], layouts: Sequence[StreamLayout]) -> list[int]:
    """(class, stream, field) of the classes whose value ``target`` makes known."""
    numbers: list[int] = []
    for stream in sorted(target):
        for attribute, field in layouts[stream].codes.items():
            if attribute not in known:
                known.add(attribute)
                numbers += [attribute, stream, field]
    return numbers


def straight_field(program: Program, layouts: Sequence[StreamLayout]) -> int:
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


def first_key(program: Program, layouts: Sequence[StreamLayout]) -> list[int]:
    """The fields of the head's tuple by which the first probe is looked up; none if it is not."""
    first = program.instructions[0]
    if not isinstance(first, Probe) or first.scans:
        return []
    return [layouts[min(program.head)].codes[c] for c in first.key]
