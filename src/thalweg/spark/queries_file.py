"""``queries.json``: which queries are registered in a directory, as text; and who may change that, or run them.

The file is replaced in one step, so whoever reads it finds it whole. Two locks lie beside it. One is held while the
file is read, changed and written. The other one is held by whoever runs the queries. The system frees both when a
process ends, however it ends.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from thalweg import cql as language
from thalweg.errors import InputError
from thalweg.spark.run import Run
from thalweg.spark.shared_run import Registered

VERSION = 3
_FILE = "queries.json"
_CHANGING, _RUNNING = ".changing.lock", ".running.lock"
_ATTEMPTS, _PAUSE_SECONDS = 5, 0.05


def read_runs(directory: Path) -> list[Run] | None:
    """The runs of a directory; None: there is no file."""
    path = directory / _FILE
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}. It says which queries are registered.") from error
    try:
        known = json.loads(text)
    except ValueError as error:
        raise InputError(f"{path} is no JSON: {error}. It says which queries are registered.") from error
    if not isinstance(known, dict) or known.get("version") != VERSION:
        raise InputError(f"{path} is of another version of thalweg, or none of its files. Use another directory.")
    return [_parsed(run) for run in known["runs"]]


def write_runs(directory: Path, runs: Sequence[Run]) -> None:
    """Replace the file."""
    text = json.dumps({"version": VERSION, "runs": [_run_json(run) for run in runs]}, indent=1)
    written = directory / f".{_FILE}.{uuid.uuid4().hex[:8]}"
    written.write_text(text, encoding="utf-8")
    written.replace(directory / _FILE)


@contextmanager
def changing(directory: Path) -> Iterator[None]:
    """Nobody else changes the file meanwhile; who wants to, waits."""
    directory.mkdir(parents=True, exist_ok=True)
    lock = os.open(directory / _CHANGING, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


class Running:
    """The right to run the queries of a directory: one at a time has it.

    Args:
        directory: of the runs.

    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock: int | None = None

    def take(self) -> str | None:
        """Take the right until :meth:`release`; else, who has it."""
        self._directory.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._directory / _RUNNING, os.O_RDWR | os.O_CREAT, 0o666)
        if not _locked(lock):
            holder = os.pread(lock, 200, 0).decode(errors="replace") or "another process"
            os.close(lock)
            return holder
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"process {os.getpid()} on {os.uname().nodename}".encode(), 0)
        self._lock = lock
        return None

    def release(self) -> None:
        """Let another one run them."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _locked(lock: int) -> bool:
    """Take a lock; somebody who only looks (:func:`is_running`) has it for an instant."""
    for attempt in range(_ATTEMPTS):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE_SECONDS if attempt + 1 < _ATTEMPTS else 0)
        else:
            return True
    return False


def is_running(directory: Path) -> bool:
    """Whether somebody runs the queries of a directory now."""
    try:
        lock = os.open(directory / _RUNNING, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _run_json(run: Run) -> dict[str, Any]:
    return {
        "name": run.name,
        "founder": run.founder,
        "buckets": run.buckets,
        "alone": run.is_alone,
        "queries": [{"name": each.name, "text": each.text, "since": each.since} for each in run.registered],
        "streams": {
            name: {
                "schema": base64.b64encode(source.schema.serialize().to_pybytes()).decode(),
                "time": source.time,
                "unusable": dict(source.unusable),
                "carried": list(run.carried.get(name, ())),
            }
            for name, source in run.catalog.items()
        },
    }


def _parsed(run: dict[str, Any]) -> Run:
    streams = run["streams"]
    catalog = {
        name: language.Source(
            pa.ipc.read_schema(pa.py_buffer(base64.b64decode(each["schema"]))), each["time"], each["unusable"]
        )
        for name, each in streams.items()
    }
    registered = tuple(Registered(each["name"], each["text"], each["since"]) for each in run["queries"])
    carried = {name: tuple(each["carried"]) for name, each in streams.items()}
    return Run(run["name"], run["founder"], run["buckets"], registered, catalog, carried, run["alone"])
