"""Overload on Spark: input at twice and four times of what a job can do, and then half of it again.

Rows come as files while the job runs, and their event times are those of the clock. What the job can do is computed
from the prices that it has measured: the rate at which a trigger that refuses nothing takes as long as its target. A
faster stream also fills its windows more. So at four times the rate, sixteen times as many probes are wanted.
"""

from __future__ import annotations

import datetime as dt
import math
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from thalweg.engine.compilation import ready_kernels
from thalweg.experiments import machine
from thalweg.experiments.experiment import Claim, Report, Row, Scale, at_least, at_most, rounded
from thalweg.experiments.jaqpot.sizes import OVERLOAD, TRIGGERS
from thalweg.options import Options
from thalweg.spark.app import App
from thalweg.spark.prices import HEADROOM, Prices
from thalweg.spark.session import local_session

_STREAMS = ("a", "b", "c")
_SEED = 20_130_422
_PRICED = ("fixed", "row", "tuple", "probe", "result", "partitions")
_MEASURED = 15
"""Triggers before it is said what the job can do: the first ones start workers."""
_LEAST_LEFT = 0.1
"""Of a target, that a machine is taken to have for rows, however slow it is."""
_CATCHING_UP = 3
"""Triggers after which the full answer has to be back."""


@dataclass(frozen=True, slots=True)
class Overload:
    """How long, and what.

    Attributes:
        target: of a trigger, in seconds.
        window: of each stream, in seconds.
        keys: the values of the common key. A tuple finds a partner for each of the window's tuples over these.
        values: of the second key, which leaves few of these pairs.
        rate: rows per second of each stream to begin with.
        calm: seconds at the first rate, by which prices are measured, and at half of what the job can do.
        busy: seconds at each of the ``factors``.
        factors: of what the job can do.
        tick: seconds between two files.

    """

    target: float = 3.0
    window: int = 10
    keys: int = 20
    values: int = 2_000
    rate: int = 800
    calm: float = 40.0
    busy: float = 60.0
    factors: tuple[float, ...] = (2.0, 4.0)
    tick: float = 0.25

    @property
    def freshness(self) -> float:
        """That can be kept: a row waits for its trigger, and for the end of it."""
        return self.window + 2 * self.target

    @property
    def cql(self) -> str:
        window = f"[RANGE {self.window} SECONDS FRESHNESS {math.ceil(self.freshness)} SECONDS]"
        names = ", ".join(f"{name} {window}" for name in _STREAMS)
        where = "a.k = b.k AND b.k = c.k AND a.v = c.v"
        return f"SELECT a.id AS x, b.id AS y, c.id AS z FROM {names} WHERE {where}"  # noqa: S608 - no user's text


SIZES: dict[Scale, Overload] = {"quick": Overload(), "paper": Overload(calm=60.0, busy=180.0)}


class Producer(threading.Thread):
    """Writes files of rows, as many as its rate says."""

    def __init__(self, directory: Path, sizes: Overload) -> None:
        super().__init__(name="thalweg-producer", daemon=True)
        self.rate = float(sizes.rate)
        self._directory, self._sizes = directory, sizes
        self._rng = np.random.default_rng(_SEED)
        self._stopped = threading.Event()
        self._written = 0
        for name in _STREAMS:
            (directory / name).mkdir(parents=True)

    def run(self) -> None:
        reached, number = time.time(), 0
        while not self._stopped.wait(max(0.0, reached + self._sizes.tick - time.time())):
            for name in _STREAMS:
                self._write(name, number, reached, max(1, round(self.rate * self._sizes.tick)))
            reached, number = reached + self._sizes.tick, number + 1

    def _write(self, name: str, number: int, since: float, rows: int) -> None:
        times = np.sort(self._rng.integers(0, int(self._sizes.tick * 1e6), rows)) + int(since * 1e6)
        table = pa.table(
            {
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "k": self._rng.integers(0, self._sizes.keys, rows),
                "v": self._rng.integers(0, self._sizes.values, rows),
                "id": np.arange(self._written, self._written + rows),
            }
        )
        self._written += rows
        new = self._directory / name / f".{number}"
        pq.write_table(table, new)
        new.rename(self._directory / name / f"{number:06}.parquet")

    def stop(self) -> None:
        """Write no more."""
        self._stopped.set()
        self.join()


@dataclass(slots=True)
class Phase:
    """A time of one rate."""

    name: str
    rate: float
    begun: float
    ended: float = math.inf


def overload_on_spark(sizes: Overload, report: Report) -> tuple[list[Row], list[Claim]]:
    """Triggers of a job whose input rises and falls."""
    report(f"{OVERLOAD}: Spark starts")
    ready_kernels(budget=True)
    spark = local_session(machine.cores())
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-", ignore_cleanup_errors=True) as scratch:
        producer = Producer(Path(scratch, "in"), sizes)
        app, query = _started(spark, sizes, Path(scratch))
        producer.start()
        try:
            phases, triggers = _play(app, query, producer, sizes, report)
        finally:
            query.stop()
            producer.stop()
    return _told(sizes, phases, triggers)


def _started(spark: SparkSession, sizes: Overload, scratch: Path) -> tuple[App, StreamingQuery]:
    app = App(spark, directory=scratch / "app")
    bound = math.ceil(2 * sizes.target / sizes.tick)
    for name in _STREAMS:
        rows = spark.readStream.schema("ts TIMESTAMP, k BIGINT, v BIGINT, id BIGINT")
        frame = rows.option("maxFilesPerTrigger", bound).parquet(str(scratch / "in" / name))
        app.stream(name, frame, time="ts", lateness="0 seconds")
    answer = app.sql(sizes.cql, Options(target_trigger=f"{sizes.target:g} seconds"), name="overload")
    writer = answer.writeStream.format("noop").option("checkpointLocation", str(scratch / "checkpoint"))
    return app, writer.start()


def _play(
    app: App, query: StreamingQuery, producer: Producer, sizes: Overload, report: Report
) -> tuple[list[Phase], list[Row]]:
    phases: list[Phase] = []
    triggers: dict[int, Row] = {}

    def during(name: str, rate: float, seconds: float, least: int = 1) -> None:
        report(f"{OVERLOAD}: {name}, {rate:,.0f} rows/s of each stream")
        producer.rate = rate
        phases.append(Phase(name, rate, time.time()))
        before = len(triggers)
        while time.time() < phases[-1].begun + seconds or len(triggers) < before + least:
            time.sleep(sizes.target / 3)
            if not query.isActive:
                query.awaitTermination()  # raises what ended it
            for each in query.recentProgress:
                if each.batchId not in triggers and "addBatch" in each.durationMs:
                    triggers[each.batchId] = _trigger(app, each)
        phases[-1].ended = time.time()

    during("measured", producer.rate, sizes.calm, _MEASURED)
    able = capacity(sizes, producer.rate, list(triggers.values()))
    during("calm", able / 2, sizes.calm)
    for factor in sizes.factors:
        during(f"{factor:g}x", factor * able, sizes.busy)
        during(f"after {factor:g}x", able / 2, sizes.calm)
    return phases, list(triggers.values())


def _trigger(app: App, progress: Any) -> Row:
    """What one trigger did."""
    metrics = app.metrics(progress=progress)
    spending = metrics["spending"]
    begun = dt.datetime.fromisoformat(progress.timestamp).timestamp()
    row: Row = {
        "part": TRIGGERS,
        "batch": progress.batchId,
        "begun": begun,
        "target": spending["target"],
        "seconds": progress.durationMs["triggerExecution"] / 1000,
        "rows": sum(metrics["tuples"].values()),
        "results": metrics["results"],
        "share": spending["share"],
        "error": spending["error"],
        **{name: spending[name] for name in ("needed", "granted", "wanted", "allowed", "refused")},
        **{f"price_{name}": spending["prices"][name] for name in _PRICED},
    }
    freshness = metrics["freshness"]["overload"].values()
    row["stale"] = sum(each["stale"] for each in freshness)
    row["oldest"] = max((each["max"] for each in freshness if each["max"] is not None), default=None)
    return row


def capacity(sizes: Overload, rate: float, triggers: Sequence[Row]) -> float:
    """The rows per second of each stream at which a trigger that refuses nothing takes as long as it may.

    Wanted probes per row grow with the rate, since the windows do.
    """
    told = [each for each in triggers if each["rows"]][-5:]
    fixed, row, taking, probe, result = (_number(told[-1][f"price_{name}"]) for name in _PRICED[:-1])
    prices = Prices(fixed, row, taking, probe, result)
    partitions = float(told[-1]["price_partitions"] or 1) or 1.0
    whole = [each for each in told if not each["refused"]] or told
    per_row = statistics.median(
        (_number(each["wanted"]) + prices.result_in_probes * _number(each["results"])) / _number(each["rows"])
        for each in whole
    )
    left = max(_LEAST_LEFT * sizes.target, HEADROOM * sizes.target - prices.fixed)
    streams = len(_STREAMS)
    linear = (prices.row + prices.tuple / partitions) * streams * sizes.target
    squared = prices.probe / partitions * per_row / rate * streams * sizes.target
    return (math.sqrt(linear**2 + 4 * squared * left) - linear) / (2 * squared)


def _told(sizes: Overload, phases: Sequence[Phase], triggers: Sequence[Row]) -> tuple[list[Row], list[Claim]]:
    """A row for each phase, and the claims."""
    rows: list[Row] = []
    claims: list[Claim] = []
    able = next(phase.rate for phase in phases if phase.name == "calm") * 2
    stale = 0
    for phase, before in zip(phases[1:], phases, strict=False):
        mine = [each for each in triggers if each["rows"] and phase.begun <= _number(each["begun"]) < phase.ended]
        seconds = [_number(each["seconds"]) for each in mine]
        if not mine:
            continue  # a trigger was longer than the phase
        within = sum(each <= 1.2 * sizes.target for each in seconds) / len(seconds)
        whole = _back_after(mine)
        found, full = (sum(_number(each["results"]) / by for each, by in _shares(mine, wants)) for wants in (0, 1))
        stale += sum(int(_number(each["stale"])) for each in mine)
        rows.append(
            {
                "part": OVERLOAD,
                "phase": phase.name,
                "rows_per_second": rounded(phase.rate * len(_STREAMS)),
                "of_capacity": rounded(phase.rate / able),
                "triggers": len(mine),
                "median_seconds": rounded(statistics.median(seconds)),
                "longest_seconds": rounded(max(seconds)),
                "within_1.2x": rounded(within),
                "share": rounded(found / full) if full else None,
                "probes_allowed": rounded(
                    sum(_number(each["allowed"]) for each in mine) / max(1.0, sum(_number(e["wanted"]) for e in mine))
                ),
                "oldest": max((_number(each["oldest"]) for each in mine), default=None),
                "stale": sum(int(_number(each["stale"])) for each in mine),
                "whole_after": whole,
            }
        )
        if phase.name in (f"{factor:g}x" for factor in sizes.factors):
            claims.append(at_least(f"at {phase.name} the input: share of triggers within 1.2x of target", within, 0.95))
        if before.name in (f"{factor:g}x" for factor in sizes.factors):
            measured = math.inf if whole is None else whole
            claims.append(at_most(f"after {before.name}: triggers until all is found", measured, _CATCHING_UP))
    claims.append(at_most("results that were stale", stale, 0))
    return [*rows, *triggers], claims


def _shares(triggers: Sequence[Row], wants: int) -> list[tuple[Row, float]]:
    """Triggers whose share is known, with what to divide their results by for those found, or for all."""
    return [(each, _number(each["share"]) if wants else 1.0) for each in triggers if each["share"]]


def _back_after(triggers: Sequence[Row]) -> int | None:
    """After how many triggers nothing is refused any more; None: never."""
    refused = [place for place, each in enumerate(triggers) if each["refused"]]
    if not refused:
        return 0
    return refused[-1] + 1 if refused[-1] + 1 < len(triggers) else None


def _number(value: object) -> float:
    return 0.0 if value is None else float(value)  # type: ignore[arg-type] # rows hold plain numbers
