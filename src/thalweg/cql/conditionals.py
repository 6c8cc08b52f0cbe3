"""Spark's functions that choose among values, and casts in the form of functions, in process."""

from __future__ import annotations

import pyarrow as pa

from thalweg.cql.casts import cast
from thalweg.cql.number_functions import MANY, Builder, arguments
from thalweg.cql.operators import compare
from thalweg.cql.typed import TIMESTAMP, NotInProcessError, NoTypeError, Typed, coerce, widest


def condition(item: Typed) -> str:
    """An argument that must be true, false or NULL."""
    if item.kind != pa.bool_() and not pa.types.is_null(item.kind):
        raise NoTypeError("A condition is true or false.")
    return f"CAST({item.sql} AS BOOLEAN)" if pa.types.is_null(item.kind) else item.sql


def choice(branches: list[tuple[str, Typed]], default: Typed | None) -> Typed:
    """``CASE WHEN condition THEN value ... ELSE default END``."""
    values = [value for _, value in branches] + ([default] if default is not None else [])
    kind = widest(values)
    whens = " ".join(f"WHEN {when} THEN {coerce(value, kind)}" for when, value in branches)
    other = f" ELSE {coerce(default, kind)}" if default is not None else ""
    return Typed(f"(CASE {whens}{other} END)", kind)


def _coalesce(items: list[Typed]) -> Typed:
    kind = widest(items)
    return Typed(f"coalesce({', '.join(coerce(item, kind) for item in items)})", kind)


def _nvl2(items: list[Typed]) -> Typed:
    return choice([(f"{items[0].sql} IS NOT NULL", items[1])], items[2])


def _nullif(items: list[Typed]) -> Typed:
    same = compare("=", items[0], items[1])
    return Typed(f"(CASE WHEN {same.sql} THEN NULL ELSE {items[0].sql} END)", items[0].kind)


def _decode(items: list[Typed]) -> Typed:
    if len(items) == 2:
        raise NotInProcessError("DECODE of binary values is")
    sought, rest = items[0], items[1:]
    default = rest.pop() if len(rest) % 2 else Typed("NULL", pa.null())
    pairs = zip(rest[::2], rest[1::2], strict=True)
    return choice([(compare("IS NOT DISTINCT FROM", sought, key).sql, value) for key, value in pairs], default)


def _cast_to(kind: pa.DataType) -> Builder:
    return arguments(1, 1, lambda items: cast(items[0], kind))


CHOICES: dict[str, Builder] = {
    "coalesce": arguments(1, MANY, _coalesce),
    **dict.fromkeys(("nvl", "ifnull"), arguments(2, 2, _coalesce)),
    "nvl2": arguments(3, 3, _nvl2),
    "nullif": arguments(2, 2, _nullif),
    "decode": arguments(2, MANY, _decode),
    "equal_null": arguments(2, 2, lambda items: compare("IS NOT DISTINCT FROM", items[0], items[1])),
    "int": _cast_to(pa.int32()),
    "float": _cast_to(pa.float32()),
    "double": _cast_to(pa.float64()),
    "string": _cast_to(pa.string()),
    "boolean": _cast_to(pa.bool_()),
    "date": _cast_to(pa.date32()),
    "timestamp": _cast_to(TIMESTAMP),
}
