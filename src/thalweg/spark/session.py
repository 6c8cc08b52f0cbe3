"""A Spark session on this machine alone, set up for joins of streams."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from thalweg.errors import OptionError
from thalweg.spark.checkpoint import FILE_MANAGER, LOCAL_FILES
from thalweg.spark.java import use_java

Setting = str | int | float | bool

_CHATTY = "pyspark.sql.streaming.transform_with_state_driver_worker"
_LOGGING = Path(__file__).with_name("log4j2.properties")


def local_session(cores: int | None = None, **conf: Setting) -> SparkSession:
    """A Spark session in this process, on ``cores`` of the machine's cores (all, unless given).

    ``conf`` holds further Spark settings, ``local_session(**{"spark.ui.enabled": True})``, and overrules ours.
    A session that runs already is returned as it is.
    """
    if cores is not None and cores < 1:
        raise OptionError(f"a session needs at least one core, not {cores}")
    for name in conf:
        if not name.startswith("spark."):
            raise OptionError(f"{name!r} is not a Spark setting; their names begin with 'spark.'")
    if (running := _running()) is not None:
        return running
    use_java()
    scratch = Path(tempfile.mkdtemp(prefix="thalweg-spark-"))
    atexit.register(_leave, scratch)
    settings: dict[str, Setting | None] = {**_settings(cores, scratch), **conf}
    # Left to itself, Spark runs workers with whatever python3 is first on the path.
    python = os.environ.get("PYSPARK_PYTHON", sys.executable)
    if str(settings["spark.master"]).startswith("local"):
        python = _quiet_python(python, scratch)
    with _environment("PYSPARK_PYTHON", python):
        session = SparkSession.builder.config(map=settings).getOrCreate()
    _end_quietly(session.sparkContext)
    return session


def _end_quietly(context: SparkContext) -> None:
    """Have nothing printed if Java ends before PySpark has stopped listening for what is added up there.

    Then nothing is lost: whoever still needs Java has an error of its own.
    """
    server: Any = context._accumulatorServer  # one of two kinds of server
    told = server.handle_error

    def handle_error(request: object, address: object) -> None:
        if not isinstance(sys.exception(), EOFError):
            told(request, address)

    server.handle_error = handle_error


def _quiet_python(python: str, scratch: Path) -> str:
    """A command that runs ``python``, without what Spark's worker for stateful operators prints while it starts.

    That is a page for every query, which Spark copies to the error output. Errors are not in it.
    """
    command = scratch / "bin" / "python"
    command.parent.mkdir()
    run = f'exec {shlex.quote(python)} "$@"'
    command.write_text(f'#!/bin/sh\n[ "$2" = {_CHATTY} ] && {run} >/dev/null\n{run}\n')
    command.chmod(0o700)
    return str(command)


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """A variable of the environment that is another for a while."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _running() -> SparkSession | None:
    if SparkContext._active_spark_context is None:  # a stopped context's session would still count as active
        return None
    try:
        return SparkSession.active()
    except PySparkRuntimeError:  # a context without a session
        return None


def _settings(cores: int | None, scratch: Path) -> dict[str, str]:
    return {
        "spark.app.name": "thalweg",
        # A task that fails, for a worker that was killed, say, is run again, as it would be on a cluster.
        "spark.master": f"local[{cores or '*'},4]",
        # Nothing listens beyond this machine, and no name has to resolve.
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # The log level must be set before Spark logs anything; this option leaves extraJavaOptions to the caller.
        "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # A checkpoint that is not on a local disk turns this off again.
        FILE_MANAGER: LOCAL_FILES,
        # Talk to Python workers goes back and forth many times in a micro-batch; this way is shorter.
        "spark.python.unix.domain.socket.enabled": "true",
        # Workers begin with libraries and kernels loaded.
        "spark.python.daemon.module": "thalweg.spark.daemon",
        # Nothing is left behind in the working directory.
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        # Times mean the same on every machine.
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # transformWithState runs on RocksDB alone; with a changelog, a batch writes what it changed and no more.
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }


def _leave(scratch: Path) -> None:
    """Stop what still runs, so that nothing writes to ``scratch`` any more, and remove it."""
    try:
        if (session := _running()) is not None:
            for query in session.streams.active:
                query.stop()
            session.stop()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)  # what cannot be removed here is the system's to clean
