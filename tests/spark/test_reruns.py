"""What a restart of a checkpoint finds of its own, and leaves: one copy of everything."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from tests.spark.runs import FileRun, write_stream
from tests.spark.test_app import JOIN, at, two_streams


def query_id(root: Path) -> str:
    return str(json.loads((root / "checkpoint" / "metadata").read_text())["id"])


def forget_last_commit(root: Path) -> None:
    """As if the driver had been killed just before it committed the last batch, to the sink and as a whole."""
    commits = root / "checkpoint" / "commits"
    last = max((path.name for path in commits.glob("[0-9]*")), key=int)
    for place in (commits, root / "out" / "_spark_metadata"):
        (place / last).unlink()
        (place / f".{last}.crc").unlink(missing_ok=True)


def engines(spark: SparkSession) -> set[str]:
    """The checkpoints whose engines lie on this host."""
    local = Path(spark.sparkContext.getConf().get("spark.local.dir") or "")
    return {path.name for path in local.glob("blockmgr-*/thalweg/*")}


def test_rows_kept_out_by_a_batch_that_is_run_again_are_there_once(spark: SparkSession, tmp_path: Path) -> None:
    fine = pa.table({"ts": at(10, 11), "k": [1, 2]})
    write_stream(tmp_path / "in" / "a", [fine, pa.table({"ts": at(3, 4, 12), "k": [1, 2, 3]})])
    write_stream(tmp_path / "in" / "b", [fine, pa.table({"ts": at(12), "k": [2]})])
    running = FileRun(spark, tmp_path, "SELECT a.k FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k")
    running.run({"late_rows": "table", "buckets": 2})
    late = tmp_path / "an app" / "late"
    files = sorted(path for path in late.rglob("*") if path.is_file())
    assert files
    assert all(path.name.startswith(query_id(tmp_path)) for path in files)
    forget_last_commit(tmp_path)
    again, _ = running.run({"late_rows": "table", "buckets": 2})
    assert again["late"] == again["late_so_far"] == {"a": 2}
    assert sorted(path for path in late.rglob("*") if path.is_file()) == files
    assert [row.k for row in running.app().late_rows("a").orderBy("k").collect()] == [1, 2]


def test_engines_of_a_restart_lie_where_the_former_ones_lay(spark: SparkSession, tmp_path: Path) -> None:
    two_streams(tmp_path)
    others = engines(spark)
    running = FileRun(spark, tmp_path, JOIN)
    running.run({"buckets": 2})
    assert engines(spark) - others == {query_id(tmp_path)}
    forget_last_commit(tmp_path)
    again, started = running.run({"buckets": 2, "states": "none"})
    assert again["rebuilds"] == 2  # options may have changed
    assert again["results"] == 6
    assert (started["results"], started["rebuilds"]) == (0, 0)  # a run always says that it has begun
    assert engines(spark) - others == {query_id(tmp_path)}
