"""What has to be measured in a process of its own: start-up, peak memory, the uncompiled twin, Spark.

:func:`ask` starts a fresh interpreter that performs one of ``TASKS`` and answers as JSON. Workloads
travel as their parameters and a seed, and are generated again on the other side.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import chain
from typing import Any

from thalweg.errors import ThalwegError

Answer = dict[str, Any]

_IMPORT = """
import sys, time
start = time.perf_counter()
import thalweg
seconds = time.perf_counter() - start
import json
roots = sorted({name.partition(".")[0] for name in sys.modules})
kernels = sorted(name for name in sys.modules if name.startswith("thalweg.engine.kernels"))
print(json.dumps({"seconds": seconds, "modules": roots + kernels}))
"""


def ask(task: str, arguments: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Answer:
    """Perform a task in a fresh process; ``wall_seconds`` is its whole life as seen from here."""
    return _run(["-m", __name__, task], json.dumps(arguments), environment)


def import_cost() -> Answer:
    """Seconds that a bare ``import thalweg`` takes in a fresh process, and what it loads."""
    return _run(["-c", _IMPORT], "", None)


def _run(command: list[str], text: str, environment: Mapping[str, str] | None) -> Answer:
    start = time.perf_counter()
    process = subprocess.run(  # noqa: S603 - our own interpreter and module
        [sys.executable, *command],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    seconds = time.perf_counter() - start
    if process.returncode != 0:
        raise ThalwegError(f"a process of the experiment failed: {process.stderr.strip() or process.returncode}")
    answer: Answer = json.loads(process.stdout)
    return {**answer, "wall_seconds": seconds}


def workload_arguments(workload: Any, seed: int) -> dict[str, Any]:
    """What a child needs to generate the same arrivals."""
    return {"workload": asdict(workload), "seed": seed}


def _replay(arguments: Mapping[str, Any]) -> Answer:
    """Replay a workload; with NUMBA_DISABLE_JIT set, this is the plain-Python twin."""
    import numpy as np

    from thalweg.experiments import answers
    from thalweg.experiments.workloads import Workload
    from thalweg.replayer import run

    workload = Workload(**arguments["workload"])
    arrivals = workload.arrivals(np.random.default_rng(arguments["seed"]))
    cpu_start, start = time.process_time(), time.perf_counter()
    table = run(workload.cql, arrivals, time="ts").table
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    fingerprint = answers.fingerprint(answers.ids_of(table))
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "fingerprint": list(fingerprint)}


def _feed(arguments: Mapping[str, Any]) -> Answer:
    """Feed a workload to a bucket batch by batch, drop every result, and see how much memory that took."""
    import numpy as np

    from thalweg import cql
    from thalweg.cql.group import Group
    from thalweg.engine.bucket import open_bucket
    from thalweg.engine.compilation import ready_kernels
    from thalweg.engine.rows.batch import Batch
    from thalweg.experiments import answers, machine
    from thalweg.experiments.workloads import SCHEMA, Workload
    from thalweg.plan.join_graph import JoinGraph
    from thalweg.plan.search import choose_plan, rank
    from thalweg.plan.statistics import Statistics

    workload = Workload(**arguments["workload"])
    (query,) = cql.bind(workload.cql, {name: cql.Source(SCHEMA, "ts") for name in workload.names})
    graph, statistics = JoinGraph.of(query), Statistics.default(query)
    ready_kernels()
    bucket = open_bucket(Group.of(query), choose_plan(graph, statistics, "auto"), rank(graph, statistics))
    fingerprint = answers.NOTHING
    state_bytes = 0
    start_bytes = machine.peak_memory()
    span = arguments["span_us"]
    for number, tables in enumerate(workload.slices(np.random.default_rng(arguments["seed"]), span), start=1):
        times = [table["ts"].to_numpy().astype(np.int64) for table in tables.values()]
        watermark = number * span
        bucket.offer([Batch(table, each) for table, each in zip(tables.values(), times, strict=True)], watermark)
        for _, answer in chain(bucket.advance(), bucket.settle(watermark)):
            fingerprint = fingerprint.joined(answers.fingerprint(answers.ids_of(answer)))
        state_bytes = max(state_bytes, sum(size.bytes for size in bucket.sizes()))
    for _, answer in bucket.close():
        fingerprint = fingerprint.joined(answers.fingerprint(answers.ids_of(answer)))
    return {
        "fingerprint": list(fingerprint),
        "state_bytes": state_bytes,
        "start_bytes": start_bytes,
        "peak_bytes": machine.peak_memory(),
    }


def _spark(arguments: Mapping[str, Any]) -> Answer:
    """Run queries on a Spark that starts and ends with this process."""
    from thalweg.experiments.spark.processes import perform

    return perform(arguments)


TASKS: dict[str, Callable[[Mapping[str, Any]], Answer]] = {"replay": _replay, "feed": _feed, "spark": _spark}


def main() -> None:
    """Read the arguments of the task named on the command line, perform it, print its answer."""
    print(json.dumps(TASKS[sys.argv[1]](json.load(sys.stdin)), default=str))  # timestamps among the metrics


if __name__ == "__main__":
    main()
