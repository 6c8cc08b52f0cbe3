"""The queries of a directory that share runs, on disk and without Spark: who is registered, and who may be.

::

    DIRECTORY/
      queries.json            what this module keeps
      control/                commands to the runs
      RUN/checkpoint          Spark's, of one run
      RUN/results             the outbox of that run: a directory of plain parquet for each of its queries

A run is one query of Spark. It serves all registered queries over one join. ``queries.json`` says what was asked for;
what a run has taken over is in its checkpoint. A query that is registered while a run goes on is sent to it as a
command. The file is written after that, so a crash in between leaves a query that runs and is not in the file: to
register it again is refused by the run, and puts it into the file.
"""

from __future__ import annotations

import base64
import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from thalweg import cql as language
from thalweg.cql.query import JoinSpec, Reader
from thalweg.errors import InputError, QueryError
from thalweg.spark.command_files import CommandFiles, files_of
from thalweg.spark.commands import new_command
from thalweg.spark.outbox.directory import Outbox
from thalweg.spark.shared_run import Registered, SharedRun, bind_one

VERSION = 1
_FILE = "queries.json"


@dataclass(frozen=True, slots=True)
class Run:
    """A run as the registry knows it.

    Attributes:
        name: by which commands know it.
        registered: its queries.
        catalog: the sources that their texts may name.
        carried: for each source, the columns that its rows have in the run.

    """

    name: str
    registered: tuple[Registered, ...]
    catalog: Mapping[str, language.Source]
    carried: Mapping[str, tuple[str, ...]]

    @property
    def shared(self) -> SharedRun:
        """What tells whether another query fits."""
        first = self.registered[0]
        join = bind_one(first.text, first.name, self.catalog).join
        return SharedRun(uuid.uuid4().hex, self.name, join, self._narrowed(join), self.catalog, self.registered)

    def _narrowed(self, join: JoinSpec) -> JoinSpec:
        """The join over the columns that are carried."""
        streams = (
            replace(each, schema=pa.schema([f for f in each.schema if f.name in self.carried[each.stream]]))
            for each in join.streams
        )
        return replace(join, streams=tuple(streams))

    def takes(self, registered: Registered) -> Reader | None:
        """A query as one more reader of this run; None: it joins something else. An error if it cannot be one."""
        shared = self.shared
        if not shared.joins_the_same(registered):
            return None
        group = shared.group((*self.registered, registered))
        return group.readers[-1]


class Registry:
    """The queries of a directory."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory).absolute()
        self.runs: list[Run] = []
        path = self.directory / _FILE
        if path.exists():
            self.runs = list(_parsed(path))

    @property
    def exists(self) -> bool:
        """Whether something was ever started here."""
        return bool(self.runs)

    @property
    def commands(self) -> CommandFiles:
        return files_of(self.directory)

    def checkpoint(self, run: str) -> str:
        return str(self.directory / run / "checkpoint")

    def results(self, run: str) -> Path:
        """Where the outbox of a run is."""
        return self.directory / run / "results"

    def outbox(self, run: str) -> Outbox:
        return Outbox(self.results(run))

    def owner(self, query: str) -> Run:
        """The run that a query belongs to; an error if there is none of this name."""
        for run in self.runs:
            if any(each.name == query for each in run.registered):
                return run
        names = ", ".join(each.name for run in self.runs for each in run.registered) or "none yet"
        raise QueryError(f"there is no query '{query}' in {self.directory}", None, f"Its queries are: {names}.")

    def has(self, query: str) -> bool:
        """Whether a query of this name is registered."""
        return any(each.name == query for run in self.runs for each in run.registered)

    def add_run(self, run: Run, schemas: Mapping[str, pa.Schema]) -> None:
        """A run begins: ``schemas`` are those of its queries."""
        self._open(run.name, schemas)
        self.runs.append(run)
        self._write()

    def register(self, name: str, text: str) -> str | None:
        """Send a query to the run whose join it shares; that run's name. None: there is none, so it needs its own.

        It enters with the next batch of that run but one, at the latest.
        """
        if self.has(name):
            raise QueryError(
                f"there is a query '{name}' in {self.directory} already",
                None,
                "Deregister it first, or choose another name.",
            )
        registered = Registered(name, text)
        for place, run in enumerate(self.runs):
            reader = run.takes(registered)
            if reader is None:
                continue
            self._open(run.name, {name: reader.schema})
            self.commands.send(new_command("enter", query=run.name, name=name, text=text))
            self.runs[place] = replace(run, registered=(*run.registered, registered))
            self._write()
            return run.name
        return None

    def deregister(self, name: str) -> str:
        """Tell the run of a query to let it go; that run's name. What was published for it stays."""
        run = self.owner(name)
        if len(run.registered) == 1:
            raise QueryError(
                f"'{name}' is the last query of '{run.name}'",
                None,
                "Stop that run instead, or register another query first: what windows hold is kept for queries.",
            )
        self.commands.send(new_command("leave", query=run.name, name=name))
        left = tuple(each for each in run.registered if each.name != name)
        self.runs[self.runs.index(run)] = replace(run, registered=left)
        self._write()
        return run.name

    def _open(self, run: str, schemas: Mapping[str, pa.Schema]) -> None:
        for name, schema in schemas.items():
            self.outbox(run).open_reader(name, schema)

    def _write(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"version": VERSION, "runs": [_run_json(run) for run in self.runs]}, indent=1)
        written = self.directory / f".{_FILE}.{uuid.uuid4().hex[:8]}"
        written.write_text(text)
        written.replace(self.directory / _FILE)


def _run_json(run: Run) -> dict[str, Any]:
    return {
        "name": run.name,
        "queries": [{"name": each.name, "text": each.text} for each in run.registered],
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


def _parsed(path: Path) -> Iterator[Run]:
    try:
        known = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}. It says which queries are registered.") from error
    if not isinstance(known, dict) or known.get("version") != VERSION:
        raise InputError(f"{path} is of another version of thalweg, or none of its files. Use another directory.")
    for run in known["runs"]:
        catalog = {
            name: language.Source(
                pa.ipc.read_schema(pa.py_buffer(base64.b64decode(each["schema"]))), each["time"], each["unusable"]
            )
            for name, each in run["streams"].items()
        }
        carried = {name: tuple(each["carried"]) for name, each in run["streams"].items()}
        yield Run(run["name"], tuple(Registered(q["name"], q["text"]) for q in run["queries"]), catalog, carried)


def names_of(runs: Sequence[Run]) -> list[str]:
    """The names of all queries."""
    return [each.name for run in runs for each in run.registered]
