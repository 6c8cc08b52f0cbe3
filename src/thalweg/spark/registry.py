"""The queries of a directory that share runs, on disk and without Spark: who is registered, and who may be.

::

    DIRECTORY/
      queries.json            what is registered (:mod:`~thalweg.spark.queries_file`)
      control/                commands to the runs
      RUN/checkpoint          Spark's, of one run
      RUN/results             the outbox of that run: a directory of plain parquet for each of its queries
      sinks/                  checkpoints of sinks

A run is one query of Spark. It serves all registered queries over one join. ``queries.json`` says what was asked for;
what a run has taken over is in its checkpoint. A query that is registered while a run goes on is sent to it as a
command. The file is written after that, so a crash in between leaves a query that runs and is not in the file: to
register it again is refused by the run, and puts it into the file.

Several processes may change what is registered: the one that runs the queries, and any number of shells. So each change
begins with the file as it is now, and nobody else changes it meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from thalweg import cql as language
from thalweg.errors import OptionError, QueryError
from thalweg.spark.command_files import CommandFiles, files_of
from thalweg.spark.commands import new_command
from thalweg.spark.outbox.directory import Outbox
from thalweg.spark.outbox.layout import folder_name
from thalweg.spark.queries_file import changing, read_runs, write_runs
from thalweg.spark.run import Run
from thalweg.spark.shared_run import Registered, bind_one


class Registry:
    """The queries of a directory."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        text = os.fspath(directory)
        if "://" in text:
            raise OptionError(f"the directory of the runs is a path that driver and workers share, not {text}")
        self.directory = Path(text).expanduser().absolute()
        self._is_changing = False

    @property
    def runs(self) -> list[Run]:
        """The runs as they are registered now."""
        return read_runs(self.directory) or []

    @property
    def exists(self) -> bool:
        """Whether something was ever started here."""
        return read_runs(self.directory) is not None

    @property
    def commands(self) -> CommandFiles:
        return files_of(self.directory)

    def checkpoint(self, run: str) -> str:
        return str(self.directory / run / "checkpoint")

    def sink_checkpoint(self, query: str) -> str:
        """Where a sink of a query remembers what it has written."""
        return str(self.directory / "sinks" / folder_name(query))

    def results(self, run: str) -> Path:
        """Where the outbox of a run is."""
        return self.directory / run / "results"

    def outbox(self, run: str) -> Outbox:
        return Outbox(self.results(run))

    def owner(self, query: str) -> Run:
        """The run that a query belongs to; an error if there is none of this name."""
        return self._owner(query, self.runs)

    def _owner(self, query: str, runs: Sequence[Run]) -> Run:
        for run in runs:
            if any(each.name == query for each in run.registered):
                return run
        raise QueryError(f"there is no query '{query}' in {self.directory}", None, known_names(names_of(runs)))

    def published(self, query: str) -> Path:
        """The outbox that has the results of a query; also of one that has left."""
        runs = self.runs
        for run in runs:
            if any(each.name == query for each in run.registered):
                return self.results(run.name)
        for run in runs:
            if query in self.outbox(run.name).readers():
                return self.results(run.name)
        return self.results(self._owner(query, runs).name)

    def failure(self, run: Run, registered: Registered) -> str | None:
        """Why a query has ended though it is registered: something cannot be computed for a row. None: it has not."""
        failure = self.outbox(run.name).failure(registered.name)
        if failure is None or failure.since < registered.since:
            return None  # or it was another one of this name
        return f"failed in batch {failure.batch} of {run.name}: {failure.reason}"

    def failure_of(self, query: str) -> str | None:
        """The same of a query by its name, if there is one."""
        return next(
            (self.failure(run, each) for run in self.runs for each in run.registered if each.name == query), None
        )

    # -- Changes ------------------------------------------------------------------------

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Nobody else changes what is registered meanwhile."""
        if self._is_changing:
            yield
            return
        with changing(self.directory):
            self._is_changing = True
            try:
                yield
            finally:
                self._is_changing = False

    def add_run(self, run: Run, schemas: Mapping[str, pa.Schema]) -> None:
        """A run begins: ``schemas`` are those of its queries."""
        with self.changing():
            runs = self.runs
            for each in run.registered:
                runs, _ = self._vacated(each.name, runs, None)
            self._open(run.name, schemas)
            write_runs(self.directory, [*runs, run])

    def free_name(self) -> str:
        """A name for one more run."""
        taken = {run.name for run in self.runs}
        return next(f"run{n}" for n in range(1, len(taken) + 2) if f"run{n}" not in taken)

    def register(self, name: str, text: str, catalog: Mapping[str, language.Source] | None = None) -> str | None:
        """Send a query to a run that it can share; that run's name. None: there is none, so it needs its own.

        It enters with the next batch of that run but one, at the latest. ``catalog`` has the streams that it may name;
        without one it has those of the runs. It takes the place of one of this name that has failed.
        """
        check_name(name)
        with self.changing():
            runs = self.runs
            self.check_new(name, runs)
            registered = Registered(name, text)
            streams = self._streams(registered, runs, catalog)
            for place, run in enumerate(runs):
                if not run.registered or run.apart(registered, streams) is not None:
                    continue
                reader = run.reader(registered)
                runs, since = self._vacated(name, runs, run.name)
                latest = self.outbox(run.name).latest()
                since = since if latest is None else max(since, latest + 1)
                self._open(run.name, {name: reader.schema})
                self.commands.send(new_command("enter", query=run.name, name=name, text=text))
                others = runs[place].registered
                runs[place] = replace(run, registered=(*others, replace(registered, since=since)))
                write_runs(self.directory, runs)
                return run.name
        return None

    def why_apart(self, name: str, text: str) -> list[str]:
        """Why no run of the directory can take a query: a reason for each run."""
        runs, registered = self.runs, Registered(name, text)
        streams = self._streams(registered, runs, None)
        reasons = (run.apart(registered, streams) for run in runs if run.registered)
        return [reason for reason in reasons if reason is not None] or [f"no run of {self.directory} has a query"]

    def deregister(self, name: str) -> str:
        """Tell the run of a query to let it go; that run's name. What was published for it stays.

        A run ends with its last query (:meth:`has_ended`). It stays in the file, for its results are there.
        """
        with self.changing():
            runs = self.runs
            run = self._owner(name, runs)
            [leaving] = [each for each in run.registered if each.name == name]
            if self.failure(run, leaving) is None and not run.is_alone:  # else the run was told when it failed
                self.commands.send(new_command("leave", query=run.name, name=name))
            left = tuple(each for each in run.registered if each.name != name)
            runs[runs.index(run)] = replace(run, registered=left)
            write_runs(self.directory, runs)
        return run.name

    def has_ended(self, name: str) -> bool:
        """Whether the last query of a run has been deregistered: then it is not started again."""
        return any(run.name == name and not run.registered for run in self.runs)

    def _streams(
        self, registered: Registered, runs: Sequence[Run], catalog: Mapping[str, language.Source] | None
    ) -> list[str]:
        """The streams that a text names; an error says what is wrong with it."""
        known = catalog if catalog is not None else {name: each for run in runs for name, each in run.catalog.items()}
        return [ref.stream for ref in bind_one(registered.text, registered.name, known).streams]

    def check_new(self, name: str, runs: Sequence[Run] | None = None) -> None:
        """Refuse a name that a query has which goes on."""
        for run in self.runs if runs is None else runs:
            if any(each.name == name and self.failure(run, each) is None for each in run.registered):
                raise QueryError(
                    f"there is a query '{name}' in {self.directory} already",
                    None,
                    "Deregister it first, or choose another name.",
                )

    def _vacated(self, name: str, runs: Sequence[Run], goes_to: str | None) -> tuple[list[Run], int]:
        """The runs without a query of this name that has failed, and since when its place is free there."""
        self.check_new(name, runs)
        vacated, since = list(runs), 0
        for place, run in enumerate(runs):
            others = tuple(each for each in run.registered if each.name != name)
            if len(others) == len(run.registered):
                continue
            failure = self.outbox(run.name).failure(name)
            if run.name == goes_to and failure is not None:
                since = failure.batch + 1
            elif not others:
                raise QueryError(
                    f"query '{name}' has failed and is the last one of '{run.name}', which the new one cannot share",
                    None,
                    "Deregister it first, or choose another name.",
                )
            vacated[place] = replace(run, registered=others)
        return vacated, since

    def _open(self, run: str, schemas: Mapping[str, pa.Schema]) -> None:
        for name, schema in schemas.items():
            self.outbox(run).open_reader(name, schema)


def check_name(name: str) -> None:
    """Refuse a name that a query cannot have: it is shown to people, and the name of a directory."""
    if not isinstance(name, str) or not name.strip():
        raise OptionError(f"a registered query has a name, as text, not {name!r}")
    if not name.isprintable() or name != name.strip():
        raise OptionError(
            f"a registered query cannot be called {name!r}: a name has no blanks at its ends, and no line breaks or "
            "other characters that cannot be shown. Choose another name."
        )
    folder_name(name)  # says so if it is too long


def names_of(runs: Sequence[Run]) -> list[str]:
    """The names of all queries."""
    return [each.name for run in runs for each in run.registered]


def known_names(names: Sequence[str]) -> str:
    """Which queries there are, for whoever named another."""
    return f"The registered queries are: {', '.join(names) or 'none yet'}."
