"""What a checkpoint says about the query that wrote it, before anything is started from it.

Spark keeps the offsets of every batch in ``offsets``, and marks in ``commits`` those that have run. The offsets of the
stream of commands (:mod:`thalweg.spark.command_source`) hold a description of the query, and whether its input has
ended. So a checkpoint is asked here, by the driver, without reading any state.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from thalweg.spark.command_source import QUERY, Offset, has_ended
from thalweg.spark.description import Description

_OWN = {"known": str, "commands": str, QUERY: str, "starts": int}
"""What every offset of the stream of commands has. Offsets of other sources may have some of these names."""

_LOCAL = "file"

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
LOCAL_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""For checkpoints on a local disk. The usual one runs several programs, not two, for every file that it creates there.
That is a third of the fixed cost of a micro-batch. On other file systems, renaming a file may not be one step, and the
usual one knows better."""


class Memory(ABC):
    """What a checkpoint remembers, as of the first look at it; ``location`` is where it is."""

    def __init__(self, location: str) -> None:
        self.location = location

    @abstractmethod
    def _names(self, folder: str) -> list[str]:
        """The names of the files in one of its folders; [] if there is none."""

    @abstractmethod
    def _read(self, *names: str) -> str | None:
        """The text of a file; None if there is none."""

    def description(self) -> Description | None:
        """That of the query as of the last batch that has run, or, before there is one, was planned; None if new."""
        offset = self._committed or self._planned
        return None if offset is None else json.loads(offset[QUERY])

    @property
    def has_ended(self) -> bool:
        """Whether a batch that has run ended the input."""
        return self._ends(self._committed)

    @property
    def is_ending(self) -> bool:
        """Whether a batch that was planned, and has yet to run, ends the input."""
        return not self.has_ended and self._ends(self._planned)

    def _ends(self, offset: Offset | None) -> bool:
        return offset is not None and has_ended(offset, self._query_id)

    @cached_property
    def _committed(self) -> Offset | None:
        return self._offset(self._numbers("commits"))

    @cached_property
    def _planned(self) -> Offset | None:
        return self._offset(self._numbers("offsets"))

    @cached_property
    def _query_id(self) -> str | None:
        """Spark's id of the query, which commands may name."""
        known = _parsed(self._read("metadata") or "")
        return str(known["id"]) if isinstance(known, dict) and "id" in known else None

    def _offset(self, batches: Sequence[int]) -> Offset | None:
        """The offset of the stream of commands at the end of the last of these batches."""
        if not batches:
            return None
        for line in (self._read("offsets", str(max(batches))) or "").splitlines():
            offset = _parsed(line)
            if isinstance(offset, dict) and all(isinstance(offset.get(name), kind) for name, kind in _OWN.items()):
                return offset
        return None

    def _numbers(self, folder: str) -> list[int]:
        return [int(each) for each in self._names(folder) if each.isdecimal()]


class Checkpoint(Memory):
    """A checkpoint directory, wherever Hadoop can reach it."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        super().__init__(location)
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._directory = jvm.org.apache.hadoop.fs.Path(location)
        self._files = self._directory.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())

    @property
    def is_local(self) -> bool:
        """Whether it is on a disk of this machine."""
        return str(self._files.getUri().getScheme()) == _LOCAL

    def _names(self, folder: str) -> list[str]:
        path = self._path(folder)
        if not self._files.exists(path):
            return []
        return [str(status.getPath().getName()) for status in self._files.listStatus(path)]

    def _read(self, *names: str) -> str | None:
        path = self._path(*names)
        if not self._files.exists(path):
            return None
        opened = self._files.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(opened, "UTF-8"))
        finally:
            opened.close()

    def _path(self, *names: str) -> Any:
        path = self._directory
        for name in names:
            path = self._jvm.org.apache.hadoop.fs.Path(path, name)
        return path


class LocalCheckpoint(Memory):
    """A checkpoint directory on a disk of this machine, read without Spark."""

    def _names(self, folder: str) -> list[str]:
        path = Path(self.location, folder)
        return [file.name for file in path.iterdir()] if path.is_dir() else []

    def _read(self, *names: str) -> str | None:
        path = Path(self.location, *names)
        return path.read_text("utf-8") if path.is_file() else None


def _parsed(line: str) -> Any:
    """The JSON of a line; None if it has none, as the one with the version of the file."""
    try:
        return json.loads(line)
    except ValueError:
        return None


def choose_file_manager(sessions: Iterable[SparkSession], *, is_local: bool) -> None:
    """Have checkpoints written in the way that suits their place.

    ``sessions``: that of the query, then those of its sources, which write logs of their own into the checkpoint. In
    theirs nothing is set that was not: they may be the user's.
    """
    own, *others = sessions
    if is_local:
        if own.conf.get(FILE_MANAGER, None) is None:
            own.conf.set(FILE_MANAGER, LOCAL_FILES)
        return
    for session in (own, *others):
        if session.conf.get(FILE_MANAGER, None) == LOCAL_FILES:
            session.conf.unset(FILE_MANAGER)
