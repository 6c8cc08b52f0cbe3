"""Figure 8: sensors of a building, by groups that are close to each other (JAQPOT 5.2).

The paper joins five groups of the Intel Berkeley Research Lab's sensors, without saying on what. Here a result is five
readings of the same temperature, as exact as the sensors measure. The data are read from a file, or generated with the
same schema and statistics. Time is compressed, so that the paper's budgets are scarce: five days take seven minutes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from thalweg.errors import InputError
from thalweg.experiments.experiment import Claim, Report, Row, at_least, at_most, rounded
from thalweg.experiments.jaqpot.driving import ALL, Course
from thalweg.experiments.jaqpot.sizes import SEED, Sensors
from thalweg.experiments.jaqpot.staleness import Modelled, measured
from thalweg.experiments.jaqpot.workloads import Workload, numbered
from thalweg.experiments.workloads import MICROSECONDS

FIGURE_8 = "figure 8: sensors in a building"
GROUPS = "abcde"
PLAN = "((a b) (c d)) e"
POSITIONS = "mote_locs.txt"
"""The file beside the data with a line ``sensor x y`` for each sensor."""
COLUMNS = ("ts", "moteid", "temperature")

_RESOLUTION = 0.01
"""What temperatures are compared by: sensors measure multiples of 0.0098 °C."""
_MOST_MINUTES = 100

Positions = Mapping[int, tuple[float, float]]


def read(path: Path) -> tuple[pa.Table, Positions]:
    """The readings of a parquet file, and where the sensors are."""
    positions = path.parent / POSITIONS
    for each in (path, positions):
        if not each.is_file():
            raise InputError(f"the sensors' data are in a parquet file beside {POSITIONS}; there is no file {each}")
    table = pq.read_table(path)
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise InputError(f"{path} has no column {', '.join(missing)}; its columns are {', '.join(table.column_names)}")
    found: dict[int, tuple[float, float]] = {}
    for number, line in enumerate(positions.read_text(encoding="utf-8").splitlines(), start=1):
        fields = line.split()
        try:
            found[int(fields[0])] = (float(fields[1]), float(fields[2]))
        except (IndexError, ValueError):
            raise InputError(f"{positions}, line {number}: {line!r} is no sensor with its x and y") from None
    return table.select(list(COLUMNS)).sort_by("ts"), found


def generated(days: float, seed: int = SEED) -> tuple[pa.Table, Positions]:
    """Readings with the schema of the data, and their statistics: rates, gaps, days and nights, differences of sensors.

    A sensor reads every 31 s, and 35% of the readings are lost. The room is warmest in the afternoon; each sensor has a
    level and a daily swing of its own, and a noise that lasts. Humidity falls as temperature rises.
    """
    rng = np.random.default_rng(seed)
    sensors = range(1, 52)
    parts = []
    for sensor in sensors:
        epochs = np.flatnonzero(rng.random(round(days * 86_400 / _PERIOD)) < _RECEIVED)
        seconds = epochs * _PERIOD + rng.uniform(0, _PERIOD) + rng.normal(0, 0.2, len(epochs))
        swing = np.sin(2 * math.pi * (seconds / 86_400 - 0.375))
        lasting = _lasting(rng, len(epochs))
        exact = 22.0 + rng.normal(0, 0.5) + rng.uniform(2.5, 5.0) * swing + lasting
        temperature = np.round(exact / 0.0098) * 0.0098
        day = np.clip(swing + 0.3, 0, None)
        parts.append(
            pa.table(
                {
                    "ts": (np.clip(seconds, 0, None) * MICROSECONDS).astype("datetime64[us]"),
                    "epoch": epochs.astype(np.int32),
                    "moteid": np.full(len(epochs), sensor, np.int16),
                    "temperature": temperature,
                    "humidity": 38.7 - 1.6 * (temperature - 22.6) + rng.normal(0, 1.0) + lasting,
                    "light": np.round(day * rng.lognormal(6.0, 0.8) / 0.46 + 1) * 0.46,
                    "voltage": 2.62 + rng.normal(0, 0.05) + 0.003 * (temperature - 22.6),
                }
            )
        )
    positions = {
        sensor: (float(x), float(y)) for sensor, (x, y) in zip(sensors, rng.uniform(0, 40, (51, 2)), strict=True)
    }
    return pa.concat_tables(parts).sort_by("ts"), positions


_PERIOD = 31.0
_RECEIVED = 0.65


def _lasting(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Noise that lasts for hours."""
    steps = rng.normal(0, 0.03, count)
    found = np.empty(count)
    value = 0.0
    for i, step in enumerate(steps):
        value = 0.999 * value + step
        found[i] = value
    return found


def groups_of(positions: Positions) -> dict[int, int]:
    """The group of each sensor: strips of the building from west to east, with about as many sensors each."""
    ordered = sorted(positions, key=lambda sensor: (*positions[sensor], sensor))
    strips = np.array_split(np.array(ordered), len(GROUPS))
    return {int(sensor): number for number, strip in enumerate(strips) for sensor in strip}


def workload_of(readings: pa.Table, positions: Positions, sizes: Sensors) -> Workload:
    """The streams of the groups, and their join."""
    sensors = readings["moteid"].to_numpy()
    unknown = sorted(set(np.unique(sensors).tolist()) - set(positions))
    if unknown:
        raise InputError(f"{POSITIONS} says nothing of the sensors {', '.join(map(str, unknown))}")
    groups = groups_of({sensor: positions[sensor] for sensor in np.unique(sensors).tolist()})
    group = np.array([groups.get(sensor, 0) for sensor in range(int(sensors.max()) + 1)])[sensors]
    times = readings["ts"].to_numpy().astype("datetime64[us]").astype(np.int64)
    times = (times - times[0]) // sizes.compressed
    values = np.round(readings["temperature"].to_numpy() / _RESOLUTION).astype(np.int64)
    tables = {}
    for number, name in enumerate(GROUPS):
        mine = np.flatnonzero(group == number)
        if len(mine) < sizes.window:
            raise InputError(f"a group of sensors has {len(mine)} readings, and its window holds {sizes.window}")
        tables[name] = numbered(pa.table({"ts": times[mine], "t": values[mine]}))
    equal = tuple((("a", "t"), (other, "t")) for other in GROUPS[1:])
    return Workload(tables, (sizes.window,) * len(GROUPS), "rows", equal, PLAN, int(times[-1] + 1) / MICROSECONDS)


def modelled(workload: Workload) -> Modelled:
    """The join in the numbers of the model of the paper's states: selectivities of the joins, measured of windows."""
    values = [table["t"].to_numpy() for table in workload.tables.values()]
    sums = np.zeros((4, 2))
    for time in np.linspace(workload.filled, workload.seconds, _SAMPLES) * MICROSECONDS:
        ends = [int(np.searchsorted(times, time)) for times in workload.times]
        held = [each[max(0, end - size) : end] for each, end, size in zip(values, ends, workload.windows, strict=True)]
        top = max(int(each.max()) for each in held) + 1
        low = min(int(each.min()) for each in held)
        a, b, c, d, e = (np.bincount(each - low, minlength=top - low).astype(float) for each in held)
        for place, (left, right) in enumerate(((a, b), (c, d), (a * b, c * d), (a * b * c * d, e))):
            sums[place] += (left @ right, left.sum() * right.sum())
    rates = [len(table) / workload.seconds for table in workload.tables.values()]
    return measured(rates, workload.windows[0], (sums[:, 0] / sums[:, 1]).tolist())


_SAMPLES = 50


def on_sensors(workload: Workload, sizes: Sensors, source: str, report: Report) -> tuple[list[Row], list[Claim]]:
    """Run all policies with each of the paper's budgets."""
    minutes = min(_MOST_MINUTES, max(1, math.ceil(workload.seconds / 60)))
    course = Course(workload, tuple(60.0 * (minute + 1) for minute in range(minutes)))
    rows: list[Row] = []
    claims: list[Claim] = []
    stale = 0
    for budget in sizes.budgets:
        totals: dict[str, int] = {}
        for policy in ALL:
            report(f"figure 8, {budget} probes/s: {policy}")
            found = course.run(policy, budget)
            totals[policy] = found.total
            stale += found.stale
            rows += [
                {
                    "part": FIGURE_8,
                    "data": source,
                    "budget": budget,
                    "policy": policy,
                    "minute": minute + 1,
                    "results": results,
                    "probes_per_s": rounded(found.probes / workload.seconds),
                }
                for minute, results in enumerate(found.results.cumsum().tolist())
            ]
        best = max(total for policy, total in totals.items() if policy != "jaqpot")
        claim = f"figure 8, {budget} probes/s: results, jaqpot / the best rival"
        claims.append(at_least(claim, totals["jaqpot"] / max(1, best), 0.97))
    return rows, [*claims, at_most("figure 8: stale results at 1.5 times the windows", stale, 0)]
