"""From probe programs to the numbers that the kernel runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.cql.query import Theta
from thalweg.engine.kernels import join as k
from thalweg.engine.layout import StreamLayout
from thalweg.plan.program import Program, Programs
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
        path_fields, components, keys, rows: (start, count) in ``lists``, per path or state.

    """

    paths: tuple[Path, ...]
    nodes: tuple[Node, ...]
    steps: k.Int64s
    programs: k.Int64s
    lists: k.Int64s
    path_fields: tuple[tuple[int, int], ...]
    components: tuple[tuple[int, int], ...]
    keys: tuple[tuple[int, int], ...]
    rows: tuple[tuple[int, int], ...]


class _Lists:
    """Short lists of numbers laid end to end."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def add(self, numbers: Iterable[int], width: int = 1) -> tuple[int, int]:
        start = len(self.numbers)
        self.numbers += numbers
        return start, (len(self.numbers) - start) // width


def assemble(programs: Programs, layouts: Sequence[StreamLayout]) -> Assembly:
    """Lay out the programs of a plan as tables of numbers."""
    nodes = tuple(sorted(programs.keys, key=sorted))
    index = {node: i for i, node in enumerate(nodes)}
    sequence = [*programs.heads, *(programs.completions[node] for node in nodes)]
    sequence += [programs.fills[node] for node in nodes if programs.fills]
    paths = tuple(
        sorted({(next(iter(s.target)), s.key) for p in sequence for s in p.steps if len(s.target) == 1 and not s.scans})
    )
    lists = _Lists()
    path_fields = tuple(lists.add(layouts[stream].codes[c] for c in key) for stream, key in paths)
    components = tuple(lists.add(sorted(node)) for node in nodes)
    keys = tuple(lists.add(programs.keys[node]) for node in nodes)
    rows = tuple(lists.add(_rows_components(node, layouts), width=2) for node in nodes)

    steps: list[list[int]] = []
    table: list[list[int]] = []
    for program in sequence:
        known: set[int] = set()
        if len(program.head) == 1:
            binds = lists.add(_binds(program.head, known, layouts), width=3)
        else:
            known |= set(program.given)
            binds = (0, 0)
        table.append([len(steps), len(program.steps), *binds, _straight(program, layouts)])
        steps += _steps(program, known, index, {path: i for i, path in enumerate(paths)}, layouts, lists)
    return Assembly(
        paths,
        nodes,
        np.array(steps, np.int64).reshape(-1, k.STEP_FIELDS),
        np.array(table, np.int64).reshape(-1, k.PROGRAM_FIELDS),
        np.array(lists.numbers or [0], np.int64),
        path_fields,
        components,
        keys,
        rows,
    )


def _straight(program: Program, layouts: Sequence[StreamLayout]) -> int:
    """The field of the one key by which a program looks up base windows and does nothing else; 0 if it does."""
    keys = {step.key for step in program.steps}
    straight = (
        not program.unordered
        and len(program.head) == 1
        and len(keys) == 1
        and all(len(s.key) == 1 == len(s.target) for s in program.steps)
        and not any(s.scans or s.checks or s.thetas or s.stores for s in program.steps)
    )
    return layouts[min(program.head)].codes.get(min(keys)[0], 0) if straight else 0


def _steps(
    program: Program,
    known: set[int],
    index: Mapping[Node, int],
    paths: Mapping[Path, int],
    layouts: Sequence[StreamLayout],
    lists: _Lists,
) -> Iterable[list[int]]:
    for step in program.steps:
        stream = min(step.target)
        is_state = len(step.target) > 1
        checks = lists.add(
            (n for c in step.checks for n in _carrier(c, step.target, layouts)),
            width=3,
        )
        thetas = lists.add(step.thetas)
        key = lists.add(step.key)
        binds = lists.add(_binds(step.target, set() if program.unordered else known, layouts), width=3)
        yield [
            index[step.target] if is_state else stream,
            int(is_state),
            paths.get((stream, step.key), 0) if not is_state else 0,
            layouts[stream].codes[step.key[0]] if not is_state and len(step.key) == 1 else 0,
            *key,
            *checks,
            *thetas,
            *binds,
            index[step.stores] if step.stores is not None else -1,
            int(step.scans),
        ]


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


def theta_tables(thetas: Sequence[Theta], layouts: Sequence[StreamLayout]) -> tuple[k.Int64s, k.Int64s, k.Float64s]:
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
