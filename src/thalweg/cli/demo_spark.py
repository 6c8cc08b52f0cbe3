"""The story of ``thalweg demo`` on Spark: a query runs, time passes, and at noon it is told another plan."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from thalweg.cli.console import grid, show
from thalweg.cli.demo_text import checksum, headline, introduce, same_rows
from thalweg.cli.progress import Follower, Totals
from thalweg.cli.render import counted, duration
from thalweg.cli.spark_console import spark_failures, start_spark
from thalweg.cli.watch import plans_text
from thalweg.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.query import StreamingQuery
    from rich.console import Console

    from thalweg.spark.app import App

_SLICES = 8
"""Of time, half of them before noon: enough to watch, few enough for a minute."""
_COLUMNS = "{:<10} {:>9} {:>12} {:>12} {:>10} {:>8} {:>8}   {}"
_OURS = re.compile(r"_spark_metadata|\.?part-.*|\.?_SUCCESS.*")
"""What an earlier demo leaves in its directory."""


def tell(console: Console, seconds: int, out: Path, *, debug: bool) -> bool:
    """Run everything and tell about it; whether the answer was that of a replay."""
    from thalweg.cli import demo_data as shop
    from thalweg.engine.compilation import ready_kernels

    _clear(out)
    streams = shop.streams(seconds)
    introduce(console, streams, seconds)
    with _scratch() as root, spark_failures():
        ready_kernels()
        spark = start_spark(None if debug else root / "spark.log", {})
        from thalweg.spark.app import App

        app = App(spark, directory=root / "app")
        query = _start(app, streams, root, out)
        try:
            _show_day(console, app, query, shop.slices(streams, seconds, _SLICES), root)
        finally:
            query.stop()
    return _compare(console, streams, out)


def _start(app: App, streams: Mapping[str, pa.Table], root: Path, out: Path) -> StreamingQuery:
    """The query as a user of Spark would start it, over directories that are still empty."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from thalweg.cli import demo_data as shop

    for name, table in streams.items():
        (root / name).mkdir()
        frame = app.spark.readStream.schema(from_arrow_schema(table.schema)).parquet(str(root / name))
        app.stream(name, frame, time="ts")
    answer = app.sql(shop.QUERY, {"plan": shop.BEFORE_NOON, "states": "all"})
    writer = answer.writeStream.format("parquet").option("checkpointLocation", str(root / "checkpoint"))
    return writer.start(str(out.absolute()))


def _show_day(console: Console, app: App, query: StreamingQuery, slices: list[dict[str, pa.Table]], root: Path) -> None:
    """Bring in the streams slice by slice, and at noon the other plan; a line about each."""
    from thalweg.cli import demo_data as shop

    headline(console, "The query runs on Spark")
    console.print(_COLUMNS.format("", "tuples in", "in windows", "in states", "completed", "results", "time", "plan"))
    follower = Follower(app, query)
    rebuilds = 0
    for number, slice_ in enumerate(slices):
        if number == len(slices) // 2:
            app.command("plan", plan=shop.AFTER_NOON)
            rebuilds += _show_step(console, query, follower, "new plan")
        for name, table in slice_.items():
            _put(table, root / name / f"{number:03}.parquet")
        rebuilds += _show_step(console, query, follower, "morning" if number < len(slices) // 2 else "afternoon")
    console.print(
        """
in windows: tuples of the four streams that are alive; nothing else is kept on disk.
in states: intermediate results. The change drops those of the old plan and
begins with none of the new one's; each key is completed from the windows when a
tuple first asks for it (completed). The query never stopped."""
    )
    if rebuilds:
        moves = "Once a bucket" if rebuilds == 1 else f"{rebuilds} times a bucket"
        console.print(f"({moves} came to another worker, which made its states anew from the windows.)")


def _show_step(console: Console, query: StreamingQuery, follower: Follower, name: str) -> int:
    """Wait until the query has taken what is there, and say what that led to; how often a bucket was built anew."""
    query.processAllAvailable()
    step = Totals()
    for report in follower.new_reports():
        step.add(report)
    if step.last is None:
        return 0
    last = step.last
    numbers = (step.rows_in, last.tuples, last.entries, step.completions, step.results)
    cells = [f"{number:,}" for number in numbers]
    console.print(_COLUMNS.format(name, *cells, duration(step.seconds), plans_text(last.plans)).rstrip())
    return step.rebuilds


def _put(table: pa.Table, file: Path) -> None:
    """A file that appears whole: the query reads its directory at any moment."""
    import pyarrow.parquet as pq

    hidden = file.with_name(f".{file.name}")
    pq.write_table(table, hidden)
    hidden.replace(file)


def _compare(console: Console, streams: Mapping[str, pa.Table], out: Path) -> bool:
    import pyarrow.parquet as pq

    from thalweg.cli import demo_data as shop
    from thalweg.replayer import run

    headline(console, "The answers")
    written = pq.read_table(out)
    replayed = run(shop.QUERY, streams).table
    table = grid("run", "rows", "checksum (of any order)", right={"rows"})
    table.add_row(f"on Spark, in {out}", f"{written.num_rows:,}", f"{checksum(written):016x}")
    table.add_row("in process, under one plan", f"{replayed.num_rows:,}", f"{checksum(replayed):016x}")
    show(console, table)
    same = same_rows(written, replayed)
    if same:
        rows = counted(written.num_rows, "row")
        console.print(f"\nThe same {rows}: a plan changes what an answer costs, not what it is.")
    else:
        console.print("\nThe answers differ. That is a defect.", style="bold red")
    return same


def _clear(out: Path) -> None:
    """Make room where an earlier demo wrote; nobody else's files are touched."""
    if not out.exists():
        return
    if not out.is_dir() or not all(_OURS.fullmatch(entry.name) for entry in out.iterdir()):
        raise InputError(f"{out} holds other things than the results of a demo. Choose another place: --out DIR.")
    shutil.rmtree(out)


@contextmanager
def _scratch() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="thalweg-demo-"))
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)  # Spark may still be leaving
