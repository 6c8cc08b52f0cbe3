"""The directory in which commands to running queries lie: a file for each, on any file system that Arrow reaches.

Beside it, in ``queries``, lie notes about the queries that read them.

A name begins with a number that is greater than those before, so names are in the order in which commands were sent,
by whatever machine. Files of other names count too, after these. Names with a leading dot or underscore do not.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
from pyarrow import fs

from thalweg.errors import InputError, OptionError
from thalweg.spark.commands import Command

MOST_BYTES = 1 << 16
"""Of a command: it is kept in Spark's offset log."""

_NOTES = "queries"
_NUMBERED = re.compile(r"([0-9]{12,18})-[0-9a-f]{8}\.json")
_OBJECT_STORES = ("s3", "gcs", "abfs")
"""Their objects appear when they are complete, and need no directories."""


@dataclass(frozen=True, slots=True)
class CommandFiles:
    """The command files of one directory; ``address`` is a path, or a URI that Arrow understands."""

    address: str

    @property
    def is_local(self) -> bool:
        return isinstance(_opened(self.address)[0], fs.LocalFileSystem)

    def prepare(self) -> None:
        """Make the directory, if its file system has directories."""
        files, path = _opened(self.address)
        if files.type_name not in _OBJECT_STORES:
            files.create_dir(path, recursive=True)

    def names(self) -> list[str]:
        """The names of all command files, in their order."""
        files, path = _opened(self.address)
        try:
            found = files.get_file_info(fs.FileSelector(path, allow_not_found=True))
        except (OSError, pa.ArrowException) as error:
            raise InputError(
                f"cannot look for commands in {self.address}: {error}. Mend that, and start the query again: it goes "
                "on from its checkpoint."
            ) from error
        names = [_name(info) for info in found if info.type == fs.FileType.File]
        return sorted((name for name in names if name[0] not in "._"), key=_order)

    def read(self, name: str) -> tuple[str, str | None] | None:
        """The text of a file, and what is wrong with it if it has none; None: it is no longer there."""
        try:
            name.encode()
        except UnicodeEncodeError:
            return "", "its name is not UTF-8 text. Rename the file."
        files, path = _opened(self.address)
        try:
            with files.open_input_stream(f"{path}/{name}", compression=None) as opened:
                body = opened.read(MOST_BYTES + 1)
        except FileNotFoundError:
            return None
        except (OSError, pa.ArrowException) as error:
            return "", f"the file cannot be read: {error}"
        if len(body) > MOST_BYTES:
            return "", f"the file has more than {MOST_BYTES:,} bytes"
        try:
            return body.decode("utf-8-sig"), None
        except UnicodeDecodeError as error:
            return "", f"the file is not UTF-8 text: see byte {error.start + 1}"

    def send(self, command: Command) -> str:
        """Put a command where queries read it; the name of its file."""
        body = f"{json.dumps(command)}\n".encode()
        if len(body) > MOST_BYTES:
            raise OptionError(f"command '{command['command']}' has {len(body):,} bytes, and may have {MOST_BYTES:,}")
        self.prepare()
        taken = [int(numbered[1]) for name in self.names() if (numbered := _NUMBERED.fullmatch(name))]
        name = f"{max(taken, default=0) + 1:012d}-{uuid.uuid4().hex[:8]}.json"
        files, path = _opened(self.address)
        written = name if files.type_name in _OBJECT_STORES else f".{name}"
        with files.open_output_stream(f"{path}/{written}", compression=None) as opened:
            opened.write(body)
        if written != name:
            files.move(f"{path}/{written}", f"{path}/{name}")
        return name

    def write_note(self, query: str, text: str) -> None:
        """Leave a note about a query, in the place of the one before."""
        files, path = self._notes()
        if files.type_name not in _OBJECT_STORES:
            files.create_dir(path, recursive=True)
        name = f"{quote(query, safe='')}.json"
        written = name if files.type_name in _OBJECT_STORES else f".{uuid.uuid4().hex[:8]}-{name}"
        with files.open_output_stream(f"{path}/{written}", compression=None) as opened:
            opened.write(text.encode())
        if written != name:
            files.move(f"{path}/{written}", f"{path}/{name}")

    def notes(self) -> list[str]:
        """The notes about queries."""
        files, path = self._notes()
        try:
            found = sorted(_name(info) for info in files.get_file_info(fs.FileSelector(path, allow_not_found=True)))
            return [
                files.open_input_stream(f"{path}/{name}", compression=None).read().decode(errors="replace")
                for name in found
                if name.endswith(".json") and name[0] not in "._"
            ]
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"cannot read which queries there are, in {path}: {error}") from error

    def _notes(self) -> tuple[fs.FileSystem, str]:
        files, path = _opened(self.address)
        return files, f"{path.rpartition('/')[0]}/{_NOTES}"


def files_of(directory: str | os.PathLike[str]) -> CommandFiles:
    """The command files of an app's directory; an error if its address is none."""
    text = str(directory)
    if "://" not in text:
        return CommandFiles(str(Path(text).absolute() / "control"))
    scheme, _, rest = text.partition("://")
    place, mark, options = rest.partition("?")
    files = CommandFiles(f"{scheme}://{place.rstrip('/')}/control{mark}{options}")
    try:
        _opened(files.address)
    except (OSError, pa.ArrowException) as error:
        raise OptionError(
            f"directory is '{text}': {error}. Give a path, or an address such as s3://bucket/folder that Arrow opens."
        ) from error
    return files


def writable_files_of(directory: str | os.PathLike[str]) -> CommandFiles:
    """The same, in a directory that is made if it is not there; an error if nothing can be written to it."""
    if not isinstance(directory, str | os.PathLike):
        raise OptionError(f"directory is a path or an address such as s3://bucket/folder, not {directory!r}")
    files = files_of(directory)
    try:
        files.prepare()
        if files.is_local and not os.access(_opened(files.address)[1], os.W_OK):
            raise PermissionError("no permission")
    except (OSError, pa.ArrowException) as error:
        raise OptionError(
            f"directory is '{directory}', and commands cannot be put there: {error}. Give a place that can be written."
        ) from error
    return files


@cache
def _opened(address: str) -> tuple[fs.FileSystem, str]:
    if "://" not in address:
        return fs.LocalFileSystem(), address
    files, path = fs.FileSystem.from_uri(address)
    return files, path


def _name(info: fs.FileInfo) -> str:
    try:
        return str(info.base_name)
    except UnicodeDecodeError as error:
        return error.object.decode("utf-8", "surrogateescape")


def _order(name: str) -> tuple[bool, int, str]:
    """Numbered names by their number, then all others.

    >>> sorted(["b", "000000000010-00000000.json", "000000000009-ffffffff.json"], key=_order)
    ['000000000009-ffffffff.json', '000000000010-00000000.json', 'b']
    """
    numbered = _NUMBERED.fullmatch(name)
    return numbered is None, 0 if numbered is None else int(numbered[1]), name
