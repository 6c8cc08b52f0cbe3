"""Streams whose keys change in the middle, and streams that only make noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

STAR = """
    SELECT h.n AS h, a.n AS a, b.n AS b, c.n AS c
    FROM hub h [RANGE 1 SECOND], a [RANGE 1 SECOND], b [RANGE 1 SECOND], c [RANGE 1 SECOND]
    WHERE h.x = a.x AND h.y = b.y AND h.z = c.z
"""
"""A hub that meets each of its satellites by another key: the order in which it asks them matters."""

CHAIN = """
    SELECT a.n AS a, b.n AS b, c.n AS c
    FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND], c [RANGE 1 SECOND]
    WHERE a.x = b.x AND b.y = c.y
"""

KEYS = ("x", "y", "z")
Phase = Mapping[str, int]
"""How many different values each key has."""


def streams(
    rng: np.random.Generator, rates: Mapping[str, float], phases: Sequence[Phase], seconds: float
) -> dict[str, pa.Table]:
    """Each stream at its rate, tuples per second; every phase takes so many seconds."""
    tables = {}
    for name, rate in rates.items():
        times, keys = [], {key: [] for key in KEYS}
        for number, phase in enumerate(phases):
            count = int(rng.poisson(rate * seconds))
            times.append(np.sort(rng.integers(0, int(seconds * 1e6), count)) + int(number * seconds * 1e6))
            for key in KEYS:
                keys[key].append(rng.integers(0, phase[key], count))
        ts = np.concatenate(times)
        columns = {key: np.concatenate(parts) for key, parts in keys.items()}
        tables[name] = pa.table({"ts": pa.array(ts, pa.timestamp("us")), **columns, "n": np.arange(len(ts))})
    return tables


def turning_star(seed: int = 1, seconds: float = 20.0) -> dict[str, pa.Table]:
    """First the hub hardly meets ``a`` and meets many ``c``, then the reverse."""
    rates = {"hub": 800.0, "a": 100.0, "b": 100.0, "c": 100.0}
    phases = [{"x": 1000, "y": 60, "z": 15}, {"x": 15, "y": 60, "z": 1000}]
    return streams(np.random.default_rng(seed), rates, phases, seconds)


def steady_star(seed: int = 1, seconds: float = 40.0) -> dict[str, pa.Table]:
    """The same all the time, but for noise; and two satellites are as good as each other."""
    rates = {"hub": 800.0, "a": 100.0, "b": 100.0, "c": 100.0}
    return streams(np.random.default_rng(seed), rates, [{"x": 60, "y": 60, "z": 50}], seconds)


def dependent_star(seed: int = 1, seconds: float = 30.0) -> dict[str, pa.Table]:
    """One in ten hub tuples meets ten of ``a`` and then also ten of ``b``; all meet two of ``c``."""
    rng = np.random.default_rng(seed)
    rates = {"hub": 800.0, "a": 100.0, "b": 100.0, "c": 100.0}
    tables = streams(rng, rates, [{"x": 10, "y": 10, "z": 50}], seconds)
    hub = tables["hub"]
    cold = rng.random(len(hub)) >= 0.1
    for key in ("x", "y"):
        values = np.where(cold, -1, hub.column(key).to_numpy())
        hub = hub.set_column(hub.column_names.index(key), key, pa.array(values))
    return {**tables, "hub": hub}


def bursty_star(seed: int = 1, seconds: float = 60.0) -> dict[str, pa.Table]:
    """Hub tuples hardly meet any, but in a few tenths of a second, now and then, each meets five of every satellite."""
    rng = np.random.default_rng(seed)
    rates = {"hub": 800.0, "a": 100.0, "b": 100.0, "c": 100.0}
    tables = streams(rng, rates, [{"x": 400, "y": 400, "z": 400}], seconds)
    tenths = tables["hub"]["ts"].cast(pa.int64()).to_numpy() // 100_000
    in_burst = (rng.random(1 + int(tenths.max())) < 0.04)[tenths]
    for name, keys in (("hub", KEYS), ("a", "x"), ("b", "y"), ("c", "z")):
        table = tables[name]
        for key in keys:
            is_hot = in_burst if name == "hub" else rng.random(len(table)) < 0.4
            values = np.where(is_hot, 400 + rng.integers(0, 8, len(table)), table[key].to_numpy())
            table = table.set_column(table.column_names.index(key), key, pa.array(values))
        tables[name] = table
    return tables
