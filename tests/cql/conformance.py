"""The table of expressions on which Spark, ``thalweg.App`` and replay are compared, for value and type.

Every operator and function that is computed in process is applied to columns of every type, whose rows hold values at
the edges. ``fixtures/spark_values.jsonl`` has what plain Spark SQL says to each: the type, and a value or an error
for every row. ``python -m tests.spark.record`` records it anew, and writes ``docs/functions.md``.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa

RECORDED = Path(__file__).parent / "fixtures" / "spark_values.jsonl"
ERROR = "error"
"""What is recorded for a row, or instead of a type, that is an error in Spark."""

UTC = datetime.UTC
TIMES = [
    datetime.datetime(2020, 2, 29, 13, 4, 5, 678901),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 500000),
    None,
    datetime.datetime(1970, 1, 1),
    datetime.datetime(9000, 12, 31, 23, 59, 59),
]
COLUMNS: dict[str, pa.Array] = {
    "t": pa.array([7, -128, None, 127, 0], pa.int8()),
    "h": pa.array([300, -32768, None, 32767, 0], pa.int16()),
    "i": pa.array([3, -(2**31), None, 2**31 - 1, 0], pa.int32()),
    "l": pa.array([3_000_000_000, -(2**63), None, 2**63 - 1, 0], pa.int64()),
    "f": pa.array([1.25, -0.0, None, math.nan, math.inf], pa.float32()),
    "x": pa.array([2.5, -0.0, None, math.nan, -1e300], pa.float64()),
    "v": pa.array([1.005, -2.5, None, 123456789.125, 1.5e-7], pa.float64()),
    "d": pa.array(
        [Decimal("12.35"), Decimal("-99999999.99"), None, Decimal("99999999.99"), Decimal("0.00")], pa.decimal128(10, 2)
    ),
    "e": pa.array(
        [Decimal("0.125"), Decimal("-99.999"), None, Decimal("3.000"), Decimal("0.005")], pa.decimal128(5, 3)
    ),
    "w": pa.array(
        [Decimal("1.5"), Decimal("-7"), None, Decimal(10**19), Decimal("0.000000000000000001")], pa.decimal128(38, 18)
    ),
    "s": pa.array(["Spark SQL", " 12 ", None, "", "2020-02-29"], pa.string()),
    "u": pa.array(["aä%_\\b", "12.7", None, "Straße\n", "true"], pa.string()),
    "b": pa.array([True, False, None, True, False], pa.bool_()),
    "y": pa.array([b"Spark", b"\x00", None, b"", b"12"], pa.binary()),
    "q": pa.array([d and d.date() for d in TIMES], pa.date32()),
    "z": pa.array([d and d.replace(tzinfo=UTC) for d in TIMES], pa.timestamp("us", "UTC")),
    "m": pa.array(TIMES, pa.timestamp("us")),
}
ROWS = pa.table(COLUMNS)
UNARY = {
    "ilxvdwsq": (
        *("abs", "ceil", "ceiling", "floor", "round", "sign", "signum", "sqrt", "cbrt", "exp", "ln", "log", "log2"),
        *("log10", "degrees", "radians", "isnan", "bit_count", "factorial", "sin", "cos", "tan", "cot", "asin", "acos"),
        *("atan", "sinh", "cosh", "tanh", "-", "~"),
    ),
    "suyid": (
        *("lower", "lcase", "upper", "ucase", "initcap", "length", "len", "char_length", "character_length"),
        *("bit_length", "trim", "ltrim", "rtrim", "reverse", "ascii", "chr", "char", "space", "md5", "sha1"),
    ),
    "qzmsi": (
        *("year", "quarter", "month", "day", "dayofmonth", "dayofyear", "weekofyear", "hour", "minute", "second"),
        *("last_day", "to_date", "unix_micros", "unix_millis", "unix_seconds", "unix_date"),
    ),
    "sib": ("int", "float", "double", "string", "boolean", "date", "timestamp", "NOT "),
}
"""Functions of one argument, by the columns that they are applied to."""
CASTS = (
    *("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)", "DECIMAL(38, 18)", "DECIMAL(3, 0)"),
    *("STRING", "BOOLEAN", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"),
)
BINARY = ("+", "-", "*", "/", "%", "DIV", "=", "<", "<=>", "&", "|", "^")
PAIRS = (
    *("tt", "hi", "il", "ll", "if", "lx", "ff", "fx", "xx", "xv", "di", "dl", "dd", "de", "ed", "dx", "dw", "ww"),
    *("qq", "zz", "mm", "zm", "qz", "qi", "ss", "si", "sq", "bb", "yy", "bi"),
)
WRITTEN = (
    # what the language has besides
    *("d + 1", "d * 2", "d / 3", "d % 3", "d DIV 2", "2 - d", "i + 1.5", "i / 2", "i % 2", "i DIV 2", "l DIV -1"),
    *(
        "1 DIV i",
        "5 % i",
        "1 / i",
        "NULL / i",
        "mod(i, 2)",
        "div(i, 2)",
        "x > 1",
        "d > 1.5",
        "d = 12.35",
        "i IN (3, 0, NULL)",
    ),
    *(
        "d IN (1, 12.35)",
        "x BETWEEN -1 AND i",
        "s BETWEEN 'A' AND 'Z'",
        "i IS NULL",
        "i IS NOT NULL",
        "b IS TRUE",
        "b AND i > 0",
    ),
    *(
        "b OR 1 / i > 0",
        "i <> 0 AND 1 / i > 0",
        "i IS DISTINCT FROM 3",
        "equal_null(i, 3)",
        "s || u",
        "s || i",
        "s || d",
    ),
    *("CASE WHEN b THEN i ELSE d END", "CASE i WHEN 3 THEN 'a' WHEN 0 THEN 'b' END", "if(b, i, l)", "if(b, 1, x)"),
    *(
        "coalesce(i, l, 5)",
        "coalesce(t, d)",
        "nvl(s, u)",
        "ifnull(i, 0)",
        "nvl2(i, s, u)",
        "nullif(i, 3)",
        "nullif(d, 0)",
    ),
    *("decode(i, 3, 'three', 0, 'none', 'other')", "decode(i, NULL, 'null')", "greatest(i, l)", "greatest(x, v, i)"),
    *(
        "least(d, e)",
        "least(s, u)",
        "greatest(q, z)",
        "pi()",
        "power(x, 2)",
        "pow(v, 0.5)",
        "power(1.0D, x)",
        "atan2(x, v)",
    ),
    *(
        "log(2, i)",
        "log(x, v)",
        "round(v, 2)",
        "round(d, 1)",
        "round(e, 5)",
        "round(v, 20)",
        "round(i, -1)",
        "bround(v, 1)",
    ),
    # texts
    *("substring(s, 3, -1)", "substring(s, 0, 2)", "substring(s, -3)", "substring(s, -20, 15)", "substring(s, i)"),
    *(
        "substr(u, 2, 3)",
        "substring(s FROM 2 FOR 3)",
        "left(s, 2)",
        "left(s, -1)",
        "right(s, 2)",
        "right(s, i)",
        "left(u, 3)",
    ),
    *(
        "lpad(s, 12, '?!')",
        "rpad(s, 4, 'x')",
        "lpad(s, 12)",
        "rpad(s, 12, '')",
        "lpad(s, -1)",
        "repeat(s, 2)",
        "repeat(s, -1)",
    ),
    *(
        "concat(s, u)",
        "concat(s, i, d, v, b, q, m)",
        "concat_ws('-', s, u, 'x')",
        "replace(s, 'S', 'xy')",
        "replace(s, '', 'x')",
    ),
    *(
        "replace(s, 'a')",
        "translate(s, 'ark', '12')",
        "instr(s, 'a')",
        "instr(s, '')",
        "instr(u, 'b')",
        "locate('a', s)",
    ),
    *("locate('S', s, 2)", "locate('S', s, 0)", "locate('S', s, NULL)", "position('a' IN s)", "charindex('k', s)"),
    *("startswith(s, 'Sp')", "endswith(s, 'L')", "contains(s, 'ark')", "contains(s, '')", "levenshtein(s, 'Sparks')"),
    *(
        "levenshtein(s, u)",
        "split_part(s, ' ', 1)",
        "split_part(s, ' ', -1)",
        "split_part(s, ' ', 9)",
        "split_part(s, ' ', 0)",
    ),
    *("split_part(s, '', 1)", "s LIKE 'S%'", "u LIKE '%\\\\%%'", "u LIKE '%ß_'", "s NOT LIKE '_12_'", "s ILIKE 's%'"),
    *(
        "u LIKE 'aä#%%' ESCAPE '#'",
        "like(s, 'S%')",
        "ilike(s, '%sql')",
        "s RLIKE 'S.*L$'",
        "u RLIKE 'e$'",
        "u RLIKE 'ß.?$'",
    ),
    *("rlike(s, '^ ?[0-9]+')", "regexp_like(s, '[a-r]{2}')", "s RLIKE '(?i)SPARK'", "regexp_replace(s, '(S)', '$1x')"),
    *(
        "regexp_extract(s, '(\\\\w+)', 1)",
        "sha2(s, 256)",
        "sha2(s, 512)",
        "overlay(s PLACING '_' FROM 6)",
        "chr(256)",
        "chr(-1)",
    ),
    *(
        "chr(65)",
        "trim(BOTH 'S' FROM s)",
        "trim(LEADING ' 1' FROM s)",
        "trim(TRAILING 'L' FROM s)",
        "initcap('hELLO  wORLD-x')",
    ),
    *("initcap('ß')", "upper('ß')", "upper('éà')", "lower('ÀΣ')", "reverse('é')", "bit_length(u)", "shiftleft(i, 1)"),
    # times
    *(
        "m - INTERVAL 5 SECONDS",
        "z + INTERVAL 1 DAY",
        "q + INTERVAL 1 DAY",
        "q + INTERVAL 24 HOURS",
        "q - INTERVAL 1 MONTH",
    ),
    *("m + INTERVAL 1 YEAR", "z - m", "INTERVAL 90 SECONDS", "INTERVAL 1 WEEK", "2 * INTERVAL 1 HOUR", "abs(z - m)"),
    *(
        "z - m < INTERVAL 1 SECOND",
        "q - q = INTERVAL 0 DAYS",
        "q - 1",
        "q + i",
        "q = '2020-02-29'",
        "z > '1970-01-01 00:00:00'",
    ),
    *("date_trunc('HOUR', m)", "date_trunc('WEEK', z)", "date_trunc('QUARTER', q)", "date_trunc('MILLISECOND', m)"),
    *(
        "date_trunc('NONSENSE', m)",
        "datediff(q, DATE '1970-01-01')",
        "datediff(z, m)",
        "add_months(q, 1)",
        "add_months(q, -i)",
    ),
    *(
        "add_months(q, 12)",
        "make_date(2020, 13, 1)",
        "make_date(i, 2, 28)",
        "make_date(2020, 2, i)",
        "to_date(s, 'yyyy-MM-dd')",
    ),
    *(
        "to_date('2020-01-05', 'yyyy-MM-dd')",
        "date_format(m, 'yyyy-MM-dd HH:mm:ss.SSS')",
        "date_format(q, 'dd/MM/yyyy')",
    ),
    *("date_format(m, 'EEEE')", "unix_timestamp(z)", "to_timestamp(s)", "date_add(q, 1)", "extract(HOUR FROM z)"),
    # literals and casts
    *(
        "1",
        "3000000000",
        "-2147483648",
        "1.50",
        "0.05",
        "1e3",
        "1L",
        "2.5D",
        "1.5BD",
        "NULL",
        "X'41'",
        "DATE '2020-01-01'",
    ),
    *(
        "TIMESTAMP '1969-12-31 23:59:59.5'",
        "TIMESTAMP_NTZ '2020-01-01 00:00:00'",
        "CAST('12.7' AS INT)",
        "CAST('+5 ' AS INT)",
    ),
    *("CAST('1e2' AS DECIMAL(5, 1))", "CAST('x' AS DOUBLE)", "CAST('-inf' AS DOUBLE)", "CAST('Yes' AS BOOLEAN)"),
    *("CAST('2020-02-30' AS DATE)", "CAST('2020-1-2' AS DATE)", "CAST(1e10 AS STRING)", "CAST(1.0E-5D AS STRING)"),
    *(
        "CAST(0.1F AS DOUBLE)",
        "CAST(1e300D AS FLOAT)",
        "CAST(12.35 AS DECIMAL(3, 1))",
        "TRY_CAST('x' AS INT)",
        "TRY_CAST(l AS INT)",
    ),
    *(
        "TRY_CAST(v AS INT)",
        "TRY_CAST('yes' AS BOOLEAN)",
        "TRY_CAST(s AS DATE)",
        "2147483647 + 1",
        "-i",
        "i * 2",
        "abs(l)",
    ),
    # Spark alone
    *(
        "array(i, 1)",
        "struct(i, s)",
        "named_struct('a', i)",
        "get_json_object(s, '$.a')",
        "from_json(s, 'a INT')",
        "hash(i)",
    ),
    *(
        "try_divide(1, i)",
        "element_at(array(1, 2), 1)",
        "array(1, 2)[0]",
        "transform(array(1, 2), k -> k + 1)",
        "bround(d)",
    ),
)


def expressions() -> Iterator[str]:
    """Every expression of the table, once."""
    made: dict[str, None] = {}
    for columns, names in UNARY.items():
        for name, column in product(names, columns):
            made[f"{name}{column}" if name in ("-", "~", "NOT ") else f"{name}({column})"] = None
    for kind in CASTS:
        made.update({f"CAST({column} AS {kind})": None for column in COLUMNS})
    for operator in BINARY:
        made.update({f"{left} {operator} {right}": None for left, right in PAIRS})
    made.update(dict.fromkeys(WRITTEN))
    yield from made


@dataclass(frozen=True)
class Record:
    """What plain Spark SQL says: ``kind`` is a type or ERROR, ``values`` has a text, None or ERROR for every row."""

    expression: str
    kind: str
    values: tuple[Any, ...]

    @property
    def fails(self) -> bool:
        return self.kind == ERROR or {ERROR: True} in self.values


def recorded() -> list[Record]:
    lines = map(json.loads, RECORDED.read_text().splitlines())
    return [Record(line["expression"], line["type"], tuple(line["values"])) for line in lines]


def written(value: Any) -> Any:
    """A value as it is recorded: None, or a text in which values that differ differ."""
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat()
    if isinstance(value, bytearray):
        value = bytes(value)
    return value if value is None else repr(value)
