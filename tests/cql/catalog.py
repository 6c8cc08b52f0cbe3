"""The streams that the tests of this room know."""

from __future__ import annotations

import pyarrow as pa

from thalweg.cql import Source

CATALOG = {
    "trades": Source(
        pa.schema(
            [
                ("ts", pa.timestamp("us")),
                ("sym", pa.string()),
                ("px", pa.float64()),
                ("qty", pa.int32()),
                ("fee", pa.decimal128(10, 2)),
            ]
        ),
        "ts",
    ),
    "quotes": Source(
        pa.schema(
            [
                ("ts", pa.timestamp("us")),
                ("sym", pa.string()),
                ("bid", pa.float64()),
                ("size", pa.int64()),
                ("lim", pa.decimal128(12, 4)),
                ("wide", pa.decimal128(30, 5)),
            ]
        ),
        "ts",
    ),
    "news": Source(
        pa.schema(
            [
                ("at", pa.timestamp("ms", "Europe/Berlin")),
                ("sym", pa.dictionary(pa.int32(), pa.string())),
                ("title", pa.large_string()),
                ("tags", pa.list_(pa.string())),
                ("who", pa.struct([("name", pa.string()), ("age", pa.int32())])),
                ("hot", pa.bool_()),
            ]
        ),
        "at",
    ),
    "ticks": Source(pa.schema([("t", pa.int64()), ("k", pa.int32()), ("v", pa.int64()), ("u", pa.uint8())]), "t"),
    "days": Source(pa.schema([("day", pa.date32()), ("k", pa.int64()), ("n", pa.int16())]), "day"),
    "sectors": Source(pa.schema([("sym", pa.string()), ("sector", pa.string()), ("since", pa.timestamp("us"))]), None),
    "odd name": Source(pa.schema([("ts", pa.timestamp("us")), ("Group", pa.int64())]), "ts"),
}
