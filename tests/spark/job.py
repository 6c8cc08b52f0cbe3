"""A streaming job as a process of its own, to be killed: ``python -m tests.spark.job ROOT``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.spark.runs import BRIEF, FileRun
from thalweg.spark.session import local_session


def main(root: Path) -> None:
    given = json.loads((root / "job.json").read_text())
    spark = local_session(cores=2, **BRIEF, **given.get("settings", {}))
    running = FileRun(spark, root, given["cql"])
    metrics = running.run(given["options"])
    (root / f"metrics-{len(list(root.glob('metrics-*')))}.json").write_text(json.dumps(metrics, default=str))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
