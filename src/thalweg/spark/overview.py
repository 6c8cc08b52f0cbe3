"""What is known of registered queries without Spark: runs, slices, results so far, shares of the cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from thalweg.plan.slices import chain_text, cost_shares, share
from thalweg.settings import Sharing
from thalweg.spark.queries_file import is_running
from thalweg.spark.registry import Registry
from thalweg.spark.run import Run


def overview(
    registry: Registry, told: Mapping[str, Mapping[str, Any]] | None = None, sharing: Sharing = "auto"
) -> list[dict[str, Any]]:
    """A dictionary for each query.

    Args:
        registry: of the directory.
        told: the metrics of runs that go on here, by their names.
        sharing: how queries share a join; see :class:`thalweg.Options`.

    """
    going = is_running(registry.directory)
    return [
        row
        for run in registry.runs
        for row in _of_run(run, registry, (told or {}).get(run.name), sharing, is_running=going)
    ]


def _of_run(
    run: Run, registry: Registry, told: Mapping[str, Any] | None, sharing: Sharing, *, is_running: bool
) -> Iterator[dict[str, Any]]:
    group = run.shared.group(run.registered)
    shared, costs = share(group, sharing, is_keyed=bool(group.join.classes)), cost_shares(group)
    outbox = registry.outbox(run.name)
    known = {each.name: each for each in run.registered}
    for reader in group.readers:
        failure = registry.failure(run, known[reader.name])
        row = {
            "query": reader.name,
            "run": run.name,
            "status": "failed" if failure is not None else "running" if is_running else "stopped",
            "failure": failure,
            "slices": {
                stream.alias: chain_text(ends)
                for stream, ends in zip(group.join.streams, shared.slicing.ends, strict=True)
            },
            "results_so_far": outbox.totals(reader.name).rows,
            "cost_share": costs[reader.name],
            "directory": str(outbox.places.reader(reader.name)),
            "text": known[reader.name].text,
        }
        if told is not None:
            row |= {"rows_in": sum(told["tuples"].values()), "results": told["queries"].get(reader.name, 0)}
        yield row
