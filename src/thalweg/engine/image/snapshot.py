"""What lasts of a tree of objects, as JSON and flat bytes, and back again.

A class declares in ``__image__`` which of its attributes last; the constructor derives everything else. Attributes
may be properties, where what lasts has another form in an image than in use. Objects are never
made from an image: they are there already, built for the same query, and take their attributes over in
place, so that whoever shares one still does. Three methods are called if a class has them:

- ``keep_in(directory)`` before: put what is large into files there, which others map;
- ``furnish(count)``: so many objects for its list of objects, where an image has more or fewer than are there;
- ``resume()`` after: derive anew what depends on the attributes.

An image names no Python type but the few records listed here, so reading one runs nothing that was written in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.engine.feedback.gates import Gates
from thalweg.engine.kernels.accounts import Accounts
from thalweg.engine.kernels.eddy import Eddy
from thalweg.engine.kernels.extrema import Heaps
from thalweg.engine.kernels.feedback_tables import Feedback
from thalweg.engine.kernels.sums import DoubleSums
from thalweg.engine.kernels.tables import Frames, Inbox
from thalweg.engine.programs.assembly import Assembly
from thalweg.engine.windows.access_paths import Heads
from thalweg.errors import ThalwegError
from thalweg.plan.difference import DifferencePlan
from thalweg.plan.tree import Join, Leaf, LinearPlan, TreePlan

_RECORDS: dict[str, type[Any]] = {
    record.__name__: record
    for record in (
        *(Accounts, Assembly, DoubleSums, Eddy, Feedback, Frames, Gates, Heads, Heaps, Inbox),
        *(DifferencePlan, Join, Leaf, LinearPlan, TreePlan),
    )
}
_ALIGNMENT = 64
"""Bytes that every array starts at a multiple of: a cache line, and what Arrow asks for."""
_LENGTH = 8
"""Bytes of the number that says how long the JSON is."""


class Mismatch(Exception):  # noqa: N818 - it ends the reading of an image, and nobody sees it
    """An image is not one of this object, or does not have its files."""


def is_imaged(value: object) -> bool:
    """Whether its class declares what lasts of it."""
    return hasattr(type(value), "__image__")


def lasting(value: object) -> list[str]:
    """The attributes that last, those of base classes first."""
    return [name for cls in reversed(type(value).__mro__) for name in vars(cls).get("__image__", ())]


class Snapshot:
    """What lasts of an object now.

    Attributes:
        files: the names of the files in ``directory`` that belong to it.

    """

    def __init__(self, directory: Path, root: object) -> None:
        self.files: set[str] = set()
        self._directory = directory
        self._blobs: list[memoryview] = []
        self._end = 0
        self._tree = self._object(root)

    def pieces(self) -> Iterator[memoryview]:
        """Its bytes, piece by piece."""
        text = json.dumps(self._tree, separators=(",", ":")).encode()
        yield memoryview(len(text).to_bytes(_LENGTH, "little") + text + bytes(-(_LENGTH + len(text)) % _ALIGNMENT))
        for blob in self._blobs:
            yield blob
            yield memoryview(bytes(-len(blob) % _ALIGNMENT))

    def _object(self, value: object) -> dict[str, Any]:
        if hasattr(value, "keep_in"):
            value.keep_in(self._directory)
        return {
            "object": type(value).__name__,
            "state": {name: self._node(getattr(value, name)) for name in lasting(value)},
        }

    def _node(self, value: object) -> Any:
        """JSON for a value: of a dict with one name that says what it is, of a scalar itself."""
        match value:
            case None | bool() | int() | str():
                return value
            case np.integer():
                return int(value)
            case np.ndarray() if value.dtype != np.object_:
                data = np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
                return {"array": [self._blob(data), value.dtype.str, value.shape]}
            case pa.Table():
                return {"table": self._table(value)}
            case pa.Array():
                return {"column": self._table(pa.table({"": value}))}
            case pa.Schema():
                return {"schema": self._table(value.empty_table())}
            case Path():
                self.files.add(value.name)
                return {"file": [value.name, value.stat().st_size]}
            case list() | tuple() if value and all(map(is_imaged, value)):
                return {"objects": [self._object(item) for item in value]}
            case list():
                return {"list": [self._node(item) for item in value]}
            case frozenset():
                return {"set": [self._node(item) for item in sorted(value)]}
            case dict():
                return {"map": [[self._node(key), self._node(item)] for key, item in value.items()]}
        if type(value).__name__ in _RECORDS:
            return {type(value).__name__: [self._node(item) for item in _fields(value)]}
        if type(value) is tuple:  # one with a name of its own would lose it
            return {"tuple": [self._node(item) for item in value]}
        if is_imaged(value):
            return self._object(value)
        raise ThalwegError(f"a {type(value).__name__} cannot be part of a bucket's image: only its own process has it")

    def _blob(self, data: memoryview) -> int:
        """Add bytes; returns where they begin, counted from the end of the JSON."""
        start = self._end
        self._blobs.append(data)
        self._end += len(data) + -len(data) % _ALIGNMENT
        return start

    def _table(self, table: pa.Table) -> tuple[int, int]:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        data = memoryview(sink.getvalue())
        return self._blob(data), len(data)


class Restoration:
    """What an object takes over from the bytes of a snapshot: checked as a whole before anything is changed."""

    def __init__(self, directory: Path, data: bytes, root: object) -> None:
        """Read it all; raises :class:`Mismatch` if it is not one of such an object."""
        length = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
        self._directory = directory
        self._data = memoryview(data)[length + -length % _ALIGNMENT :]
        self._changes: list[Callable[[], None]] = []
        self._object(json.loads(data[_LENGTH:length]), root)

    def apply(self) -> None:
        for change in self._changes:
            change()

    def _object(self, node: Any, value: object) -> None:
        names = lasting(value)
        if not isinstance(node, dict) or node.get("object") != type(value).__name__ or list(node["state"]) != names:
            raise Mismatch
        for name in names:
            self._attribute(node["state"][name], value, name)
        if hasattr(value, "resume"):
            self._changes.append(value.resume)

    def _attribute(self, node: Any, owner: object, name: str) -> None:
        if isinstance(node, dict) and "object" in node:
            self._object(node, getattr(owner, name))
        elif isinstance(node, dict) and "objects" in node:
            items = getattr(owner, name)
            if len(items) != len(node["objects"]):
                items = self._furnished(owner, name, len(node["objects"]))
            for item, its_node in zip(items, node["objects"], strict=True):
                self._object(its_node, item)
        else:
            value = self._value(node)
            self._changes.append(lambda: setattr(owner, name, value))

    def _furnished(self, owner: Any, name: str, count: int) -> Any:
        """As many objects as the image has, from an owner whose own number of them varies."""
        if not hasattr(owner, "furnish"):
            raise Mismatch
        items = owner.furnish(count)
        self._changes.append(lambda: setattr(owner, name, items))
        return items

    def _value(self, node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        ((kind, content),) = node.items()
        match kind:
            case "array":
                start, dtype, shape = content
                count = int(np.prod(shape))
                # A copy: what numpy makes of immutable bytes cannot be written, and is another type to numba.
                return np.frombuffer(self._data, dtype, count, start).reshape(shape).copy()
            case "table":
                return self._table(*content)
            case "column":
                return self._table(*content).column(0).combine_chunks()
            case "schema":
                return self._table(*content).schema
            case "file":
                return self._file(*content)
            case "map":
                return {self._value(key): self._value(item) for key, item in content}
        items = [self._value(item) for item in content]
        if kind == "list":
            return items
        if kind == "tuple":
            return tuple(items)
        return frozenset(items) if kind == "set" else _RECORDS[kind](*items)

    def _table(self, start: int, size: int) -> pa.Table:
        return pa.ipc.open_stream(pa.py_buffer(self._data[start : start + size])).read_all()

    def _file(self, name: str, size: int) -> Path:
        """A file that is there, and has not lost anything of what it had."""
        path = self._directory / name
        if not path.is_file() or path.stat().st_size < size:
            raise Mismatch
        return path


def _fields(record: Any) -> tuple[Any, ...]:
    return record if isinstance(record, tuple) else tuple(getattr(record, f.name) for f in fields(record))
