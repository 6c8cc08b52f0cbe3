"""Which expressions a query may use.

The answer of a query is a function of the input. So functions that change from call to call are refused, with the
reason. In process a query may call the functions that are computed there with Spark's value
(:mod:`thalweg.cql.in_process`). On Spark it may call whatever Spark can analyse.
"""

from __future__ import annotations

import difflib

from sqlglot import exp

from thalweg.cql.expression_grammar import FUNCTION_MARK, WINDOW_WORDS
from thalweg.cql.in_process import FUNCTIONS as COMPUTED
from thalweg.cql.in_process import SYNTAX
from thalweg.cql.locations import SourceText
from thalweg.errors import BindError, QueryError, UnsupportedError

AGGREGATES = ("count", "sum", "min", "max", "avg")
RESULT_TIME = "result_time"
FUNCTIONS = frozenset((*COMPUTED, *SYNTAX))
"""Functions that a query may call in process, besides the aggregates and RESULT_TIME()."""
ON_SPARK_ALONE = frozenset(
    {
        *("overlay", "regexp_extract", "regexp_replace", "shiftleft", "shiftright", "unix_timestamp", "to_timestamp"),
        *("date_add", "date_sub", "from_json", "to_json", "get_json_object", "struct", "named_struct", "array", "map"),
        *("extract", "bround", "try_divide", "try_add", "split", "size", "element_at", "from_unixtime", "hash"),
    }
)
"""Well-known functions of Spark that are not computed in process."""

_VOLATILE = frozenset(
    {
        *("rand", "random", "randn", "randstr", "uniform", "shuffle", "uuid", "gen_random_uuid", "nextval"),
        *("now", "current_timestamp", "current_date", "curdate", "current_time", "localtimestamp", "localtime"),
        *("getdate", "sysdate", "systimestamp", "today", "current_timezone"),
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
_NOW_WITHOUT_ARGUMENTS = "unix_timestamp"
_STRUCTURE: tuple[type[exp.Expr], ...] = (
    *(exp.Column, exp.Identifier, exp.Dot, exp.Literal, exp.Null, exp.Boolean, exp.Interval, exp.Var, exp.Paren),
    *(exp.And, exp.Or, exp.Not, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.DPipe),
    *(exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot, exp.BitwiseLeftShift, exp.BitwiseRightShift),
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is, exp.In, exp.Between),
    *(exp.Like, exp.ILike, exp.RegexpLike, exp.Escape, exp.Case, exp.If, exp.Cast, exp.TryCast, exp.Tuple),
    *(exp.DataType, exp.DataTypeParam, exp.Star, exp.HexString),
)
_NAMES: dict[type[exp.Expr], str] = {
    exp.Window: "window functions (OVER) are",
    exp.Placeholder: "placeholders are",
    exp.Parameter: "parameters are",
    exp.Filter: "FILTER clauses are",
    exp.Distinct: "DISTINCT inside a function is",
    exp.IgnoreNulls: "IGNORE NULLS is",
    exp.RespectNulls: "RESPECT NULLS is",
    exp.WithinGroup: "WITHIN GROUP is",
}
"""What has no meaning in a continuous query."""
_NAMES_IN_PROCESS: dict[type[exp.Expr], str] = {
    exp.Lambda: "lambda functions are",
    exp.Bracket: "elements of arrays and maps are",
    exp.Collate: "COLLATE is",
    exp.AtTimeZone: "AT TIME ZONE is",
    exp.IntervalSpan: "intervals with TO are",
    exp.Any: "ANY is",
    exp.All: "ALL is",
}
"""What has none in process."""


def check_expression(expression: exp.Expr, source: SourceText, *, passes: bool = False) -> None:
    """Refuse what a query may not use, by name and place; ``passes``: Spark says what else it knows."""
    for node in expression.walk():
        name = node.meta.get(FUNCTION_MARK)
        asks_now = name == _NOW_WITHOUT_ARGUMENTS and not node.expressions
        if name in _VOLATILE or asks_now or isinstance(node, _VOLATILE_NODES):
            raise volatile(node, name or node.key, source)
        _check_kind(node, name, source, passes=passes)
        if passes or name is None or name in FUNCTIONS or name in AGGREGATES or name == RESULT_TIME:
            continue
        raise _unknown(node, name, source)


def volatile(node: exp.Expr, name: str, source: SourceText) -> UnsupportedError:
    """The error for a function whose value depends on more than its arguments."""
    hint = "The answer must be a function of the input; RESULT_TIME() is when a result entered or left."
    return UnsupportedError(f"{name.upper()} gives another value whenever it is asked", source.of(node), hint)


def _check_kind(node: exp.Expr, name: str | None, source: SourceText, *, passes: bool) -> None:
    refused = _NAMES if passes else _NAMES | _NAMES_IN_PROCESS
    for kind, words in refused.items():
        if isinstance(node, kind):
            hint = _bracket_hint(node) if isinstance(node, exp.Bracket) else ""
            raise UnsupportedError(f"{words} not supported", source.of(node), hint)
    is_other = isinstance(node, exp.AggFunc) and not is_aggregate(node)
    if is_other or name in _OTHER_AGGREGATES:
        called = (name or node.key).upper()
        hint = "The aggregates are COUNT, SUM, MIN, MAX and AVG."
        raise UnsupportedError(f"the aggregate {called} is not supported", source.of(node), hint)
    if name is None and not passes and not isinstance(node, _STRUCTURE):
        raise UnsupportedError(f"{node.key.upper()} is not supported in an expression", source.of(node))


def _bracket_hint(bracket: exp.Bracket) -> str:
    """What somebody who writes brackets behind an expression may have wanted."""
    if bracket.this.unnest().meta.get(FUNCTION_MARK) == "split":
        return "SPLIT_PART(text, delimiter, n) takes the n-th part, counted from 1."
    if any(isinstance(node, exp.Column) and node.name.upper() in WINDOW_WORDS for node in bracket.expressions):
        return "A window stands behind its stream in the FROM list."
    return "Make the element a column of its own before the stream is registered."


def _unknown(node: exp.Expr, name: str, source: SourceText) -> QueryError:
    if name in ON_SPARK_ALONE:
        what = f"{name.upper()} is not computed in process"
        return UnsupportedError(what, source.of(node), "It works on Spark, in thalweg.App.")
    close = difflib.get_close_matches(name, [*FUNCTIONS, *AGGREGATES, RESULT_TIME], n=1, cutoff=0.75)
    hint = f"Did you mean {close[0]}?" if close else "On Spark, in thalweg.App, all of Spark's functions work."
    return BindError(f"there is no function {name.upper()} in process", source.of(node), hint)


def is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, (exp.Count, exp.Sum, exp.Min, exp.Max, exp.Avg)) and isinstance(node, exp.AggFunc)


def is_result_time(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.meta.get(FUNCTION_MARK) == RESULT_TIME
