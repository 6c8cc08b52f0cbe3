"""What is known of registered queries without Spark: runs, slices, results so far, shares of the cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from thalweg.plan.slices import chain_text, cost_shares, share
from thalweg.settings import Sharing
from thalweg.spark.queries_file import is_running
from thalweg.spark.registry import Registry
from thalweg.spark.run import Run
from thalweg.spark.shared_run import Registered


def overview(
    registry: Registry,
    told: Mapping[str, Mapping[str, Any]] | None = None,
    sharing: Sharing = "auto",
    ended: Mapping[str, str | None] | None = None,
) -> list[dict[str, Any]]:
    """A dictionary for each query.

    Args:
        registry: of the directory.
        told: the metrics of runs that go on here, by their names, with the ``trigger_seconds`` of their last batches.
        sharing: how queries share a join; see :class:`thalweg.Options`.
        ended: of runs that were started here and do not go on, by their names, the errors that ended them, or None.

    """
    going, over = is_running(registry.directory), ended or {}
    rows = []
    for run in registry.runs:
        goes_on = going and run.name not in over
        of_run = list(_of_run(run, registry, (told or {}).get(run.name), sharing, is_running=goes_on))
        if (error := over.get(run.name)) is not None:
            of_run = [row if row["failure"] else row | _failed_with_its_run(run, error) for row in of_run]
        rows += of_run
    return rows


def _failed_with_its_run(run: Run, error: str) -> dict[str, Any]:
    return {"status": "failed", "failure": f"ended with {run.name}: {error}"}


def _of_run(
    run: Run, registry: Registry, told: Mapping[str, Any] | None, sharing: Sharing, *, is_running: bool
) -> Iterator[dict[str, Any]]:
    failures = {each.name: registry.failure(run, each) for each in run.registered}
    going = [each for each in run.registered if failures[each.name] is None]
    if run.is_alone:
        slices, costs = dict[str, str](), {each.name: 1.0 for each in run.registered}
    else:
        slices, costs = _shared(run, going or run.registered, sharing)
    outbox = registry.outbox(run.name)
    for each in run.registered:
        failure = failures[each.name]
        row = {
            "query": each.name,
            "run": run.name,
            "status": "failed" if failure is not None else "running" if is_running else "stopped",
            "failure": failure,
            "slices": slices,
            "results_so_far": outbox.totals(each.name).rows,
            "cost_share": costs[each.name] if failure is None else 0.0,
            "directory": str(outbox.places.reader(each.name)),
            "text": each.text,
        }
        if told is not None:
            results = told["results"] if run.is_alone else told["queries"].get(each.name, 0)
            row |= {"rows_in": sum(told["tuples"].values()), "results": results}
            if "trigger_seconds" in told:
                row |= {f"{name}_per_s": row[name] / told["trigger_seconds"] for name in ("rows_in", "results")}
        yield row


def _shared(run: Run, queries: Sequence[Registered], sharing: Sharing) -> tuple[dict[str, str], dict[str, float]]:
    """How some queries of a run share it: the slices of each window, and the cost."""
    group = run.shared.group(queries)
    shared = share(group, sharing, is_keyed=bool(group.join.classes))
    chains = zip(group.join.streams, shared.slicing.ends, strict=True)
    return {stream.alias: chain_text(ends) for stream, ends in chains}, cost_shares(group)
