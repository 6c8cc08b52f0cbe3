"""Schemas given as text."""

from __future__ import annotations

import pyarrow as pa
import pytest
import typer

from thalweg.cli.schema import parse_schema


def test_all_types() -> None:
    text = (
        "a BOOLEAN, b TINYINT, c smallint, d INT, e BIGINT, f FLOAT, g DOUBLE, h DECIMAL(12, 3), i DECIMAL,"
        "j STRING, k VARCHAR(20), `l m` BINARY, n DATE, o TIMESTAMP, p TIMESTAMP_NTZ, q NUMERIC( 5 ), größe LONG "
    )
    assert parse_schema("s", text) == pa.schema(
        {
            "a": pa.bool_(),
            "b": pa.int8(),
            "c": pa.int16(),
            "d": pa.int32(),
            "e": pa.int64(),
            "f": pa.float32(),
            "g": pa.float64(),
            "h": pa.decimal128(12, 3),
            "i": pa.decimal128(10, 0),
            "j": pa.string(),
            "k": pa.string(),
            "l m": pa.binary(),
            "n": pa.date32(),
            "o": pa.timestamp("us", "UTC"),
            "p": pa.timestamp("us"),
            "q": pa.decimal128(5, 0),
            "größe": pa.int64(),
        }
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("k", "s: cannot read 'k'. Write columns like"),
        ("k BIGINT ts TIMESTAMP", "s: cannot read 'k BIGINT ts TIMESTAMP'"),
        ("k BIGINT, 7 INT", "s: cannot read '7 INT'"),
        ("k BIGINT); DROP TABLE x", "cannot read"),
        ("k BIGNT", "s: 'BIGNT' is no type. Types are"),
        ("k BIGINT, k INT", "s: column 'k' is there twice"),
        ("k DECIMAL(39)", "1 to 38 digits, not 39"),
        ("k DECIMAL(5, 6)", "at most as many after the point"),
    ],
)
def test_a_schema_that_is_none(text: str, problem: str) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        parse_schema("s", text)
    assert problem in str(caught.value)
