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
from thalweg.cli.demo_picture import NAME, Line, Panel, write_picture
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

_CUTS = 8
"""Of time, half of them before noon: enough to watch, few enough for a minute."""
_COLUMNS = "{:<10} {:>9} {:>12} {:>12} {:>10} {:>8} {:>8}   {}"
_RESULTS = "results"
_OURS = re.compile(rf"{re.escape(NAME)}|{_RESULTS}")
_PARTS = re.compile(r"_spark_metadata|\.?part-.*|\.?_SUCCESS.*")
"""What an earlier demo leaves in its directory, and in that of its results."""


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
        query = _start(app, streams, root, out / _RESULTS)
        try:
            keys = shop.keys_in_windows(streams, shop.NOON_US)
            steps = _show_day(console, app, query, shop.cut(streams, seconds, _CUTS), root, keys)
        finally:
            query.stop()
    same = _compare(console, streams, out / _RESULTS)
    console.print(f"\nA picture of the run: {_draw(out, streams, steps, seconds)}")
    return same


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


def _show_day(
    console: Console, app: App, query: StreamingQuery, cuts: list[dict[str, pa.Table]], root: Path, keys: int
) -> list[Totals]:
    """Bring in the streams cut by cut, and at noon the other plan; a line about each. What each cut led to."""
    from thalweg.cli import demo_data as shop

    headline(console, "The query runs on Spark")
    console.print(_COLUMNS.format("", "tuples in", "in windows", "in states", "completed", "results", "time", "plan"))
    follower = Follower(app, query)
    steps, rebuilds = [], 0
    for number, part in enumerate(cuts):
        if number == len(cuts) // 2:
            app.command("plan", plan=shop.AFTER_NOON)
            rebuilds += _show_step(console, query, follower, "new plan").rebuilds
        for name, table in part.items():
            _put(table, root / name / f"{number:03}.parquet")
        steps.append(_show_step(console, query, follower, "morning" if number < len(cuts) // 2 else "afternoon"))
        rebuilds += steps[-1].rebuilds
    console.print(
        f"""
in windows: tuples of the four streams that are alive; nothing else is kept on disk.
in states: intermediate results. The change drops those of the old plan. The new
plan's state c⋈o begins young: it stores new results, and lacks those that tuples
from before noon make.
completed: keys of c⋈o that an ad asked for, and that were computed from the
windows then. The windows had {keys:,} keys of c⋈o at noon; nobody computed the
others. The query never stopped."""
    )
    if rebuilds:
        moves = "Once a bucket" if rebuilds == 1 else f"{rebuilds} times a bucket"
        console.print(f"({moves} came to another worker, which made its states anew from the windows.)")
    return steps


def _show_step(console: Console, query: StreamingQuery, follower: Follower, name: str) -> Totals:
    """Wait until the query has taken what is there, and say what that led to."""
    query.processAllAvailable()
    step = Totals()
    for report in follower.new_reports():
        step.add(report)
    if step.last is None:
        return step
    last = step.last
    numbers = (step.rows_in, last.tuples, last.entries, step.completions, step.results)
    cells = [f"{number:,}" for number in numbers]
    console.print(_COLUMNS.format(name, *cells, duration(step.seconds), plans_text(last.plans)).rstrip())
    return step


def _put(table: pa.Table, file: Path) -> None:
    """A file that appears whole: the query reads its directory at any moment."""
    import pyarrow.parquet as pq

    hidden = file.with_name(f".{file.name}")
    pq.write_table(table, hidden)
    hidden.replace(file)


def _draw(out: Path, streams: dict[str, pa.Table], steps: list[Totals], seconds: int) -> Path:
    """Draw what the states held after each cut, with and without the change, and the keys completed in it."""
    from thalweg.cli import demo_data as shop
    from thalweg.cli.demo_replay import replayed

    span = seconds / len(steps)
    ends = [span * (number + 1) - seconds / 2 for number in range(len(steps))]
    held = [(end, float(step.last.entries if step.last else 0)) for end, step in zip(ends, steps, strict=True)]
    completed = [(end, float(step.completions)) for end, step in zip(ends, steps, strict=True)]
    unchanged = []
    for end in ends:
        run = replayed(shop.until(streams, shop.NOON_US + round(end * 1_000_000)), shop.BEFORE_NOON)
        entries = sum(state.tuples for state in run.result.summary.states if state.name not in shop.ALIASES)
        unchanged.append((end, float(entries)))
    lines = [Line("first plan, in process", "#57606a", unchanged, dashed=True), Line("on Spark", "#0969da", held)]
    panels = [
        Panel(f"intermediate results in states, every {span:g} s of the streams", lines),
        Panel(f"keys completed, every {span:g} s of the streams", [Line("on Spark", "#0969da", completed)]),
    ]
    return write_picture(out, "A plan change while the join runs on Spark", panels)


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
    results = out / _RESULTS
    if not (_holds_only(out, _OURS) and (not results.exists() or _holds_only(results, _PARTS))):
        raise InputError(f"{out} holds other things than the results of a demo. Choose another place: --out DIR.")
    shutil.rmtree(out)


def _holds_only(directory: Path, names: re.Pattern[str]) -> bool:
    return directory.is_dir() and all(names.fullmatch(entry.name) for entry in directory.iterdir())


@contextmanager
def _scratch() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="thalweg-demo-"))
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)  # Spark may still be leaving
