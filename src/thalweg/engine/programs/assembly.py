"""From probe programs to the numbers that the kernel runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from thalweg.engine.kernels import feedback_tables as fb
from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.programs.assembly_lists import Lists, Path, partner_paths
from thalweg.engine.programs.feedback_assembly import FeedbackBuilder, Gaps
from thalweg.engine.programs.program_assembly import Parts, Steps, bindings, first_key, straight_field
from thalweg.engine.rows.layout import StreamLayout
from thalweg.plan.program import Program, Programs
from thalweg.plan.tree import Node


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
    steps: Int64s
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
        rare |= {part for demand in programs.demands for part in partner_paths(demand, layouts) if part[1]}
    paths = tuple(sorted(used | rare))
    lists = Lists()
    path_fields = tuple(lists.add(layouts[stream].codes[c] for c in key) for stream, key in paths)
    components = tuple(lists.add(sorted(node)) for node in nodes)
    keys = tuple(lists.add(programs.keys[node]) for node in nodes)
    rows = tuple(lists.add(_rows_components(node, layouts), width=2) for node in nodes)
    parts = Parts(programs.keys, paths, layouts, lists)
    gaps = Gaps(programs, nodes, lists)
    step_rows = Steps(nodes, paths, layouts, lists, parts, gaps)

    steps: list[list[int]] = []
    table: list[list[int]] = []
    for i, program in enumerate(sequence):
        known: set[int] = set()
        if i < len(programs.heads):
            binds = lists.add(bindings(program.head, known, layouts), width=3)
        else:
            known |= set(program.given)
            binds = (0, 0)
        straight, key = 0, (0, 0)
        if i < len(programs.heads):
            straight, key = straight_field(program, layouts), lists.add(first_key(program, layouts))
        table.append([len(steps), *binds, straight, *key])
        steps += step_rows.of(program, known)
    own_parts = tuple(parts.of(node) for node in nodes)
    feedback = None
    if programs.demands or programs.searches or any(gaps.kinds):
        firsts = [row[k.G_FIRST] for row in table[: len(programs.heads)]]
        builder = FeedbackBuilder(programs, layouts, lists, gaps, firsts)
        feedback = builder.build(paths, nodes, len(steps), witnesses, filter_bits, unchanging)
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
        own_parts,
        witnesses,
        tuple(sorted({key for _, key in rare} - {key for _, key in used})),
        feedback,
    )


def _looked_up(programs: Iterable[Program]) -> set[Path]:
    """The access paths that programs use."""
    return {(min(s.target), s.key) for p in programs for s in p.probes if len(s.target) == 1 and not s.scans}


def _rows_components(node: Node, layouts: Sequence[StreamLayout]) -> Iterable[int]:
    """(stream, field of the entry) of the components in ROWS windows."""
    for position, stream in enumerate(sorted(node)):
        if layouts[stream].rows:
            yield from (stream, k.COMPONENTS + position)
