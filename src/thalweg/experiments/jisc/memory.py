"""What a memory limit costs: throughput against the memory that the same join would take without one.

Windows take what they need, so a limit is felt by the states alone: their cold keys become absent, and are completed
again when something asks for them. Keys here are all as cold as each other, which is the hard case: whatever is made
absent will be asked for.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from thalweg.engine.join.engine import JoinEngine
from thalweg.experiments.experiment import Claim, Report, Row, at_most, rounded
from thalweg.experiments.jisc.driving import JISC, Drive
from thalweg.experiments.jisc.sizes import SEED, Limited
from thalweg.experiments.jisc.workloads import Uniform, pipeline
from thalweg.experiments.laps import Lap, race

PART = "memory limit: throughput of a pipeline"
UNLIMITED = "no limit"

_GLANCE = 1 << 11
"""Tuples between two looks at the memory, on a lap of its own: a look sweeps out what has expired."""


def throughput_within_limits(sizes: Limited, report: Report) -> tuple[list[Row], list[Claim]]:
    workload = Uniform(sizes.joins, sizes.window)
    start = sizes.warm_turns * workload.turn
    tuples = workload.tuples(np.random.default_rng(SEED), start + sizes.tuples)

    def drive(limit: int | None) -> Drive:
        return Drive(JISC, workload, pipeline(range(workload.streams)), tuples, memory_limit=limit)

    def peak(limit: int | None) -> tuple[int, int, int]:
        """The most bytes that windows and states took together, what windows took then, and the most reserved."""
        looks, reserved = [], 0
        watched = drive(limit)
        engine = cast("JoinEngine", watched.joiner)
        while watched.position < start + sizes.tuples:
            watched.to(min(watched.position + _GLANCE, start + sizes.tuples))
            reserved = max(reserved, engine.bytes_reserved)
            stores = engine.sizes()
            windows = sum(store.bytes for store in stores if len(store.node) == 1)
            looks.append((sum(store.bytes for store in stores), windows))
        return *max(looks), reserved

    report("memory limit: how much is taken without one")
    most, windows, reserved = peak(None)
    limits: dict[str, int | None] = {UNLIMITED: None}
    limits |= {f"{share:.0%}": round(share * most) for share in sizes.shares}

    def lap(name: str) -> Lap:
        limited = drive(limits[name])
        limited.to(start)
        return limited.to(start + sizes.tuples)

    laps = race(lap, list(limits), sizes.rounds, lambda text: report(f"memory limit: {text}"))
    rows: list[Row] = []
    over = []
    for name, limit in limits.items():
        report(f"memory limit: how much is taken, {name}")
        taken, _, held = (most, windows, reserved) if limit is None else peak(limit)
        over.append(0.0 if limit is None else taken / limit)
        rows.append(
            {
                "part": PART,
                "limit": name,
                "joins": sizes.joins,
                "window": sizes.window,
                "limit_bytes": limit,
                "peak_bytes": taken,
                "windows_bytes": windows,
                "reserved_bytes": held,
                "tuples": sizes.tuples,
                **laps[name].columns(sizes.tuples),
                "times_as_slow": rounded(laps[name].median / laps[UNLIMITED].median),
            }
        )
    return rows, [at_most("memory limit: the most that was taken / the limit", max(over), 1)]
