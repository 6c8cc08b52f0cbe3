"""Queries that share a run, as a process of its own, to be killed: ``python -m tests.spark.shared_job ROOT [MOMENT]``.

With a moment (:mod:`tests.spark.outbox_job`), it kills itself in the commit of a batch.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.spark.outbox_job import deadly
from tests.spark.runs import BRIEF
from tests.spark.shared_runs import NEWEST, SharedFiles
from thalweg.spark.session import local_session

WIDTH, SLICES = 8_000_000, 15
"""Of slices; each is a batch."""
PAIR = "FROM a, b WHERE a.k = b.k"
FIRST = {
    "short": f"SELECT a.id AS a, b.id AS b, {NEWEST} {PAIR} WINDOW RANGE 9 SECONDS",
    "long": f"SELECT b.id AS b, {NEWEST} {PAIR} AND a.id % 2 = 0 WINDOW RANGE 25 SECONDS",
}


def main(root: Path, moment: str | None = None) -> None:
    app = SharedFiles(root, width=WIDTH).app(local_session(cores=2, **BRIEF), files_per_trigger=1)
    if moment is not None:
        app.spark.dataSource.register(deadly(moment))
    for name, text in FIRST.items():
        app.register(name, text)
    app.start(root / "runs", trigger={"availableNow": True}).awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
