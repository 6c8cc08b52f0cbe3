"""Which expressions a query may use: those that mean the same in Spark and in DuckDB.

A query runs in process, where DuckDB evaluates its expressions, and on Spark; and its
answer is a function of the input. So functions are listed, not guessed: everything else
is refused by name, and functions that change from call to call are refused with the reason.
"""

from __future__ import annotations

import difflib

from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

from thalweg.cql.expression_grammar import FUNCTION_MARK, WINDOW_WORDS
from thalweg.cql.locations import SourceText
from thalweg.errors import BindError, UnsupportedError

AGGREGATES = ("count", "sum", "min", "max", "avg")
RESULT_TIME = "result_time"

_MATH = (
    *(
        "abs",
        "ceil",
        "ceiling",
        "floor",
        "round",
        "sign",
        "signum",
        "sqrt",
        "cbrt",
        "exp",
        "ln",
        "log",
        "log2",
        "log10",
    ),
    *("power", "pow", "mod", "div", "factorial", "greatest", "least", "pi", "degrees", "radians", "isnan", "bit_count"),
    *("sin", "cos", "tan", "cot", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "shiftleft", "shiftright"),
)
_CONDITIONAL = ("case", "if", "coalesce", "nvl", "nvl2", "ifnull", "nullif", "decode", "equal_null")
_STRINGS = (
    *("lower", "lcase", "upper", "ucase", "initcap", "length", "len", "char_length", "character_length", "bit_length"),
    *("trim", "ltrim", "rtrim", "lpad", "rpad", "left", "right", "substring", "substr", "overlay", "split_part"),
    *("concat", "concat_ws", "replace", "translate", "reverse", "repeat", "space", "ascii", "chr", "char"),
    *("instr", "locate", "position", "charindex", "startswith", "endswith", "contains", "levenshtein"),
    *("like", "ilike", "rlike", "regexp_like", "regexp_extract", "regexp_replace", "md5", "sha1", "sha2"),
)
_CASTS = ("cast", "try_cast", "int", "float", "double", "string", "boolean", "date", "timestamp")
_TIMES = (
    *("year", "quarter", "month", "day", "dayofmonth", "dayofyear", "weekofyear", "hour", "minute", "second"),
    *("date_trunc", "datediff", "last_day", "add_months", "make_date", "to_date", "date_format"),
    *("unix_micros", "unix_millis", "unix_seconds", "unix_date"),
)
FUNCTIONS = frozenset((*_MATH, *_CONDITIONAL, *_STRINGS, *_CASTS, *_TIMES))
"""Functions that a query may call, besides the aggregates and RESULT_TIME()."""

_VOLATILE = frozenset(
    {
        *("rand", "random", "randn", "randstr", "uniform", "shuffle", "uuid", "gen_random_uuid", "nextval"),
        *("now", "current_timestamp", "current_date", "curdate", "current_time", "localtimestamp", "localtime"),
        *("getdate", "sysdate", "systimestamp", "today", "unix_timestamp", "current_timezone"),
        *("current_user", "user", "session_user", "current_catalog", "current_database", "current_schema", "version"),
        *("monotonically_increasing_id", "spark_partition_id", "input_file_name"),
    }
)
_VOLATILE_NODES = (
    *(exp.Rand, exp.Randn, exp.Uuid, exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.CurrentDatetime),
    *(exp.CurrentUser, exp.SessionUser, exp.Localtime, exp.Localtimestamp),
)
_OTHER_AGGREGATES = frozenset(
    {
        *("mean", "std", "stddev", "variance", "median", "mode", "percentile", "first", "last", "any_value", "every"),
        *("some", "any", "count_if", "bool_and", "bool_or", "collect_list", "collect_set", "array_agg", "listagg"),
        *("max_by", "min_by", "approx_count_distinct", "grouping", "grouping_id", "count_distinct"),
    }
)
_STRUCTURE: tuple[type[exp.Expr], ...] = (
    *(exp.Column, exp.Identifier, exp.Dot, exp.Literal, exp.Null, exp.Boolean, exp.Interval, exp.Var, exp.Paren),
    *(exp.And, exp.Or, exp.Not, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.DPipe),
    *(exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot, exp.BitwiseLeftShift, exp.BitwiseRightShift),
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is, exp.In, exp.Between),
    *(exp.Like, exp.ILike, exp.RegexpLike, exp.Escape, exp.Case, exp.If, exp.Cast, exp.TryCast, exp.Tuple),
    *(exp.DataType, exp.DataTypeParam, exp.Star, exp.HexString),
    *(exp.TsOrDsToDate, exp.TimeStrToTime),  # sqlglot puts these below YEAR, DATEDIFF, DATE_FORMAT ...
)
_NAMES: dict[type[exp.Expr], str] = {
    exp.Window: "window functions (OVER) are",
    exp.Lambda: "lambda functions are",
    exp.Placeholder: "placeholders are",
    exp.Parameter: "parameters are",
    exp.Bracket: "elements of arrays and maps are",
    exp.Filter: "FILTER clauses are",
    exp.Distinct: "DISTINCT inside a function is",
    exp.Collate: "COLLATE is",
    exp.AtTimeZone: "AT TIME ZONE is",
    exp.IntervalSpan: "intervals with TO are",
    exp.IgnoreNulls: "IGNORE NULLS is",
    exp.RespectNulls: "RESPECT NULLS is",
    exp.WithinGroup: "WITHIN GROUP is",
    exp.Any: "ANY is",
    exp.All: "ALL is",
}


def check_expression(expression: exp.Expr, source: SourceText) -> None:
    """Refuse what a query may not use, by name and place."""
    for node in expression.walk():
        name = node.meta.get(FUNCTION_MARK)
        if name in _VOLATILE or isinstance(node, _VOLATILE_NODES):
            called = (name or node.key).upper()
            hint = "The answer must be a function of the input; RESULT_TIME() is when a result entered or left."
            raise UnsupportedError(f"{called} gives another value whenever it is asked", source.of(node), hint)
        _check_kind(node, name, source)
        if name is not None and name not in FUNCTIONS and name not in AGGREGATES and name != RESULT_TIME:
            raise _unknown(node, name, source)
    for node in reversed(list(expression.walk())):
        if FUNCTION_MARK in node.meta:
            _check_arguments(node, source)


def _check_kind(node: exp.Expr, name: str | None, source: SourceText) -> None:
    for kind, words in _NAMES.items():
        if isinstance(node, kind):
            hint = _bracket_hint(node) if isinstance(node, exp.Bracket) else ""
            raise UnsupportedError(f"{words} not supported", source.of(node), hint)
    is_other = isinstance(node, exp.AggFunc) and not isinstance(node, (exp.Count, exp.Sum, exp.Min, exp.Max, exp.Avg))
    if is_other or name in _OTHER_AGGREGATES:
        called = (name or node.key).upper()
        hint = "The aggregates are COUNT, SUM, MIN, MAX and AVG."
        raise UnsupportedError(f"the aggregate {called} is not supported", source.of(node), hint)
    if name is None and not isinstance(node, _STRUCTURE):
        raise UnsupportedError(f"{node.key.upper()} is not supported in an expression", source.of(node))


def _bracket_hint(bracket: exp.Bracket) -> str:
    """What somebody who writes brackets behind an expression may have wanted."""
    if bracket.this.meta.get(FUNCTION_MARK) == "split":
        return "SPLIT_PART(text, delimiter, n) takes the n-th part, counted from 1."
    if any(isinstance(node, exp.Column) and node.name.upper() in WINDOW_WORDS for node in bracket.expressions):
        return "A window stands behind its stream in the FROM list."
    return "Make the element a column of its own before the stream is registered."


def _check_arguments(call: exp.Expr, source: SourceText) -> None:
    """Refuse a call that cannot be said in Spark SQL, such as REGEXP_REPLACE of two arguments."""
    try:
        call.sql(dialect="spark", unsupported_level=ErrorLevel.RAISE)
    except (SqlglotError, ValueError, TypeError, AttributeError, KeyError, IndexError) as error:
        # sqlglot's generators expect well-formed arguments.
        raise BindError(f"the arguments of {call.meta[FUNCTION_MARK].upper()} do not fit", source.of(call)) from error


def _unknown(node: exp.Expr, name: str, source: SourceText) -> BindError:
    close = difflib.get_close_matches(name, [*FUNCTIONS, *AGGREGATES, RESULT_TIME], n=1, cutoff=0.75)
    hint = f"Did you mean {close[0]}?" if close else "Functions are those that Spark and DuckDB share with one meaning."
    return BindError(f"there is no function {name.upper()} here", source.of(node), hint)


def is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, (exp.Count, exp.Sum, exp.Min, exp.Max, exp.Avg)) and isinstance(node, exp.AggFunc)


def is_result_time(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.meta.get(FUNCTION_MARK) == RESULT_TIME
