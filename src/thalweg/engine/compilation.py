"""Getting the kernels ready: compiled once per machine, then loaded from numba's cache on disk.

The first run must not look as if it hung, so a compilation that takes long says what it is.
"""

from __future__ import annotations

import functools
import pickle
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numba.core.dispatcher import Dispatcher

from thalweg.cql.query import AttributeClass, Output, Query, RangeWindow, RowsWindow, StreamRef, Window
from thalweg.engine.join.engine import JoinEngine
from thalweg.engine.kernels import (
    accounts,
    arrival,
    demands,
    eddy,
    feedback,
    filters,
    gaps,
    hashing,
    machine,
    predicates,
    probing,
    scanning,
    states,
    storing,
    straight,
    windows,
)
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.kernels.tables import ROW
from thalweg.engine.rows.layout import StreamLayout
from thalweg.plan.tree import TreePlan, parse_plan
from thalweg.policies import Policies
from thalweg.settings import Budget

_MODULES = (
    machine,
    straight,
    accounts,
    arrival,
    probing,
    scanning,
    storing,
    eddy,
    feedback,
    demands,
    gaps,
    filters,
    states,
    windows,
    predicates,
    hashing,
)
_STALE = (AttributeError, ImportError, pickle.UnpicklingError)
"""What reading a cache raises that names things which no longer exist."""
_PATIENCE_SECONDS = 1.5
"""Loading from the cache is faster than this; only compiling is not."""
_KEYS = 600
"""More than a new state has room for."""


@functools.cache
def ready_kernels(*, eddies: bool = False, feedback: bool = False, budget: bool = False) -> float:
    """Compile or load the join kernels, and return the seconds it took; later calls cost nothing.

    ``eddies``: those of engines that route their tuples as well; ``feedback``: those that produce on demand;
    ``budget``: those whose probes are paid for.
    """
    started = time.perf_counter()
    notice = threading.Timer(_PATIENCE_SECONDS, _say_compiling)
    notice.daemon = True
    notice.start()
    try:
        load_kernels(eddies=eddies, feedback=feedback, budget=budget)
    finally:
        notice.cancel()
    return time.perf_counter() - started


def load_kernels(*, eddies: bool = False, feedback: bool = False, budget: bool = False) -> None:
    """The same in silence, and in no other thread than the caller's."""
    try:
        _rehearse(eddies=eddies, feedback=feedback, budget=budget)
    except _STALE:
        # Compiled by another version of thalweg, whose types are gone: compile anew.
        for kernel in [item for module in _MODULES for item in vars(module).values()]:
            if isinstance(kernel, Dispatcher):
                kernel._cache.flush()  # type: ignore[attr-defined] # there is no public way
        _rehearse(eddies=eddies, feedback=feedback, budget=budget)


def _say_compiling() -> None:
    print(
        "thalweg: compiling the join kernels; this happens once per machine and takes some 20 seconds ...",
        file=sys.stderr,
        flush=True,
    )


def _rehearse(*, eddies: bool, feedback: bool, budget: bool) -> None:
    """Run the kernels that every join needs: a join of three streams, a ROWS window, and plan changes."""
    windows: tuple[Window, ...] = (RangeWindow(1), RangeWindow(1), RowsWindow(1))
    schema = pa.schema([])
    refs = tuple(StreamRef(name, name, schema, "t", window, 1) for name, window in zip("abc", windows, strict=True))
    attribute = AttributeClass(dict.fromkeys(range(3)), pa.int64())  # type: ignore[arg-type]
    query = Query("rehearsal", "", "join", Output.ISTREAM, refs, (), (attribute,))
    for each in (query, replace(query, streams=tuple(replace(ref, window=RangeWindow(1)) for ref in refs))):
        _run_through(each, Policies())
        if eddies:
            _run_through(each, Policies("stairs_jisc"))
        if feedback:
            _run_through(each, Policies(production="jit"))
        if budget:
            _run_through(each, Policies(budget=Budget()))
        if budget and feedback:
            _run_through(each, Policies(production="jit", budget=Budget()))
        if feedback and eddies:
            _run_through(each, Policies("cacq", "jit"))


def _run_through(query: Query, policies: Policies) -> None:
    trees = [parse_plan(text, query.aliases) for text in ("(a b) c", "(b c) a")]
    plans = [tree.keeping_all() for tree in trees if isinstance(tree, TreePlan)]
    engine = JoinEngine(query, plans[0], policies=policies)
    for plan in (*plans, plans[0].keeping_none()):
        engine.transition(plan)
        engine.offer([_tuples(layout) for layout in engine.layouts])
        for _ in engine.advance():
            pass
        engine.sizes()
        engine.rehearse()


def _tuples(layout: StreamLayout) -> Int64s:
    """One tuple of every key, all at once."""
    tuples = np.zeros((_KEYS, layout.offered), np.int64)
    tuples[:, ROW] = tuples[:, layout.codes[0]] = np.arange(_KEYS)
    tuples[:, layout.offered_mask] = 1
    return tuples
