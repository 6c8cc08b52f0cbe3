"""Random streams: few instants with ties and bursts, small key domains, NULLs, duplicates, empty tables.

A row is one drawn integer whose digits choose its time and its values from small pools.
One draw per row keeps generation fast, and a row shrinks to the first entry of each pool.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal
from math import inf, nan, prod

from tests.cases import TIME, Stream
from tests.expressions import Value
from tests.properties.pick import Pick

FAMILIES: dict[str, tuple[str, ...]] = {
    "int": ("int64", "int32", "int16"),
    "string": ("string",),
    "binary": ("binary",),
    "decimal": ("decimal(10,2)", "decimal(12,4)"),
    "double": ("double", "float"),
    "number": ("int64", "double", "int32"),
    "date": ("date",),
    "timestamp": ("timestamp",),
    "bool": ("bool",),
}
"""Types that may stand on both sides of a comparison."""

_KEYS: dict[str, tuple[Value, ...]] = {
    "int16": (0, 1, 2, -1, 32_767),
    "int32": (0, 1, 2, -1, 2_147_483_647),
    "int64": (0, 1, 2, -1, 9_007_199_254_740_993),
    "double": (0.0, 1.0, -0.0, nan, -1.5, inf),
    "float": (0.0, 1.0, -0.0, nan, -1.5, inf),
    "decimal(10,2)": tuple(map(Decimal, ("0.00", "1.50", "-2.25", "99999999.99"))),
    "decimal(12,4)": tuple(map(Decimal, ("0.0000", "1.5000", "-2.2500", "1.5050"))),
    "string": ("a", "b", "", "ab", "Ä ç"),
    "binary": (b"a", b"", b"\x00", b"a\xff"),
    "bool": (False, True),
    "date": tuple(datetime.date(2024, 2, 28) + datetime.timedelta(days) for days in (0, 1, 2, -9999)),
}

_NUMBERS: dict[str, tuple[Value, ...]] = {
    "int16": (0, 1, 2, 3, 4, 5, -3),
    "int32": (0, 1, 2, 3, 4, 5, -3),
    "int64": (0, 1, 2, 3, 4, 5, -3),
    "double": (0.0, 0.5, 1.0, 2.0, 2.25, -0.0, nan, 3.5, inf),
    "float": (0.0, 0.5, 1.0, 2.0, 2.25, -0.0, nan, 3.5, inf),
    "decimal(10,2)": tuple(map(Decimal, ("0.00", "0.50", "1.00", "2.25", "-1.75"))),
    "decimal(12,4)": tuple(map(Decimal, ("0.0000", "0.5000", "1.0001", "2.2500", "-1.7500"))),
}
"""Values to add and compare; halves and quarters, so that sums of doubles have no rounding to argue about."""

ROWS_PER_STREAM = {1: 40, 2: 30, 3: 18, 4: 13, 5: 10, 6: 8}
"""How many rows at most, by the number of joined streams: it bounds the cross product."""


@dataclass(frozen=True)
class Clock:
    """The instants at which tuples may come: few, so that ties and exact distances are common."""

    unit: int
    instants: tuple[int, ...]
    spans: tuple[int, ...]

    @staticmethod
    def drawn(pick: Pick, joined: int) -> Clock:
        unit = pick.one(1_000_000, 1, 1_000, 60_000_000, 86_400_000_000)
        instants = [pick.one(0, 1_700_000_000_000_000, -5_000_000)]
        for gap in pick.numbers(4, least=pick.one(0, 5, 8), most=12):
            instants.append(instants[-1] + (1, 2, 3, 5)[gap] * unit)
        # The more streams, the wider the windows: otherwise almost no combination would be alive at once.
        return Clock(unit, tuple(instants), (8, 3, 1, 5, 13, 21, 34) if joined < 4 else (13, 8, 21, 34, 3))

    def span(self, pick: Pick) -> int:
        """A length that instants can be exactly apart, or one microsecond beside it."""
        return max(1, pick.one(*self.spans) * self.unit + pick.one(0, 0, 0, 1, -1))


@dataclass(frozen=True)
class Column:
    """A column in all its streams: its family of types and the number of distinct values."""

    name: str
    family: str
    domain: int
    nullable: bool
    numeric: bool = False

    def pool(self, type_: str, clock: Clock) -> tuple[Value, ...]:
        values = clock.instants if type_ == "timestamp" else (_NUMBERS if self.numeric else _KEYS)[type_]
        return (*values[: self.domain], *((None,) if self.nullable else ()))


def a_stream(
    pick: Pick, name: str, columns: tuple[Column, ...], clock: Clock, joined: int, *, disorder: bool, full: bool
) -> Stream:
    """One stream with these columns; sorted by time unless ``disorder``."""
    types = [pick.one(*FAMILIES[column.family]) for column in columns]
    pools = [column.pool(type_, clock) for column, type_ in zip(columns, types, strict=True)]
    times: tuple[Value, ...] = (*clock.instants, None) if pick.chance(8) else clock.instants
    order = pick.one("jittered", "jittered", "shuffled") if disorder else "sorted"
    limit = 0 if pick.chance(60) else ROWS_PER_STREAM[joined]
    least = limit // 2 if full else 0
    radices = (len(times), *map(len, pools), 3)
    rows = []
    for number in pick.numbers(prod(radices), least, limit):
        moment, *places, lag = _digits(number, radices)
        values = [pool[place] for pool, place in zip(pools, places, strict=True)]
        arrival = {"sorted": moment, "jittered": moment + lag, "shuffled": 0}[order]
        rows.append((arrival, (times[moment], *values)))
    rows.sort(key=lambda row: row[0])
    named = ((TIME, "timestamp"), *((column.name, type_) for column, type_ in zip(columns, types, strict=True)))
    return Stream(name, named, tuple(row for _, row in rows), pick.one("us", "us", "ns", "UTC"))


def _digits(number: int, radices: tuple[int, ...]) -> list[int]:
    digits = []
    for radix in radices:
        number, digit = divmod(number, radix)
        digits.append(digit)
    return digits
