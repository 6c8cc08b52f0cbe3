"""What a join has done since the start, from the counters of its parts."""

from __future__ import annotations

from thalweg.engine.feedback.memory import FeedbackMemory
from thalweg.engine.kernels import feedback_tables as fb
from thalweg.engine.machine.workspace import Workspace
from thalweg.engine.observations import Counts, Work


def work_done(workspace: Workspace, feedback: FeedbackMemory) -> Work:
    """All that is counted."""
    suspensions, resumptions, withheld, unprobed = feedback.tally[fb.T_SUSPENSIONS : fb.T_UNPROBED + 1].tolist()
    tuples, completions, finished, purged = workspace.counters.tolist()
    probes, candidates, stored, results, *completing = workspace.work.sums().tolist()
    return Work(
        tuples,
        probes,
        candidates,
        stored,
        completions,
        results,
        finished,
        completing_probes=completing[0],
        completing_candidates=completing[1],
        completing_stored=completing[2],
        purged=purged,
        suspensions=suspensions,
        resumptions=resumptions,
        withheld=withheld,
        unprobed=unprobed,
    )


def counts_of(workspace: Workspace) -> Counts:
    """The part of it that the cost model prices."""
    tuples, completions, *_ = workspace.counters.tolist()
    probes, candidates, stored, results, *_ = workspace.work.sums().tolist()
    return tuples, probes, candidates, stored, completions, results
