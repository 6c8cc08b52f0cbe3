"""Figure 10: how long the output waits for a change of plan, against the size of the windows.

The clock runs from the call that changes the plan until the first result is out, and counts processor time. Windows are
filled without joining, and the plan before keeps no state: whatever it kept, a change that leaves all states
incomplete could use none of it.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.migration.joiner import Joiner
from thalweg.errors import ThalwegError
from thalweg.experiments import answers
from thalweg.experiments.answers import Fingerprint
from thalweg.experiments.experiment import Claim, Report, Row, at_most, rounded
from thalweg.experiments.jisc.driving import JISC, MOVING_STATE, counted, open_policy
from thalweg.experiments.jisc.sizes import SEED, FirstOutput
from thalweg.experiments.jisc.workloads import Tuples, Uniform, all_incomplete, pipeline
from thalweg.plan.tree import TreePlan, left_deep

FIGURE_10 = {"hash": "figure 10a: time to the first result, hash", "nested loops": "figure 10b: nested loops"}


def time_to_first_output(sizes: FirstOutput, report: Report) -> tuple[list[Row], list[Claim]]:
    rows: list[Row] = []
    ratio = 1.0
    for window in sizes.windows:
        workload = Uniform(sizes.joins, window, sizes.method, "decks")
        tuples = workload.tuples(np.random.default_rng(SEED), workload.turn + sizes.changes + workload.streams)
        waits: dict[str, list[float]] = {}
        found: dict[str, list[Fingerprint]] = {}
        for name, changes in ((JISC, sizes.changes), (MOVING_STATE, sizes.slow)):
            report(f"figure 10, {sizes.method}, windows of {window:,}: {name}")
            waits[name], found[name], work = _waits(name, workload, tuples, changes)
            rows.append(
                {
                    "part": FIGURE_10[sizes.method],
                    "policy": name,
                    "joins": sizes.joins,
                    "window": window,
                    "changes": changes,
                    "cpu_seconds": rounded(statistics.median(waits[name])),
                    "fastest": rounded(min(waits[name])),
                    "slowest": rounded(max(waits[name])),
                    "results": sum(each.rows for each in found[name]),
                    **work,
                }
            )
        for one, other in zip(found[JISC], found[MOVING_STATE], strict=False):
            answers.check_fingerprints(one, other, (JISC, MOVING_STATE))
        ratio = statistics.median(waits[JISC]) / statistics.median(waits[MOVING_STATE])
    claim = (
        f"figure 10, {sizes.method}, windows of {sizes.windows[-1]:,}: jisc / moving_state, time to the first result"
    )
    return rows, [at_most(claim, ratio, sizes.bar)]


def _waits(
    policy: str, workload: Uniform, tuples: Tuples, changes: int
) -> tuple[list[float], list[Fingerprint], dict[str, int]]:
    """Seconds per change, the results of the tuples that came then, and the work of the last change."""
    waits = []
    found = []
    before = list(range(workload.streams))
    after = all_incomplete(before)
    work: dict[str, int] = {}
    for change in range(changes):
        joiner = open_policy(policy, workload, TreePlan(left_deep(before)))
        joiner.load(tuples.between(change, workload.turn + change), workload.turn + change)
        start = joiner.work
        seconds, results = _until_result(joiner, workload, pipeline(after), tuples, workload.turn + change)
        waits.append(seconds)
        found.append(answers.fingerprint(results))
        work = counted(start, joiner.work)
    return waits, found, work


def _until_result(
    joiner: Joiner, workload: Uniform, plan: TreePlan, tuples: Tuples, position: int
) -> tuple[float, Int64s]:
    """Change the plan and take tuples one by one until one has a result, as nearly every one does."""
    batches = [tuples.between(at, at + 1) for at in range(position, position + workload.streams)]
    started = time.process_time()
    joiner.transition(plan, workload.rank)
    for batch in batches:
        joiner.offer(batch)
        for block in joiner.advance():
            return time.process_time() - started, block[:, 2:].T.copy()
    raise ThalwegError(f"none of {workload.streams} tuples after a change of plan had a result")
