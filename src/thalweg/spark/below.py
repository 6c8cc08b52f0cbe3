"""Columns that Spark computes of the rows of each stream, below the operator; and what need not be computed there."""

from __future__ import annotations

import hashlib

import pyarrow as pa
from sqlglot import exp

from thalweg.cql import render
from thalweg.cql.conjuncts import conjuncts
from thalweg.cql.in_process import Translator, typed_value
from thalweg.cql.query import Aggregation, Query
from thalweg.cql.typed import NotInProcessError, NoTypeError, Typed
from thalweg.engine.outputs.results import TIME
from thalweg.engine.rows.expressions import columns_of, plain_column
from thalweg.errors import UnsupportedError

Columns = dict[str, exp.Expression]
"""Columns to compute from a stream, by name."""
_OF_ALL = "__e"
"""What the names of computed columns begin with that every row needs: selections and partitions. Others are needed of
selected rows alone."""


class Below:
    """The columns that Spark computes of the rows of each stream."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self.computed: tuple[Columns, ...] = tuple({} for _ in query.streams)
        self.types: list[dict[str, pa.DataType]] = [{} for _ in query.streams]

    def column(
        self, stream: int, expression: exp.Expression, kind: pa.DataType, *, of_all: bool = False
    ) -> exp.Expression:
        """The column that holds an expression: the source's own, or one that Spark computes.

        ``of_all``: of all rows, whether they are selected or not.
        """
        if plain_column(expression) is not None:
            return expression
        name = computed_name(expression, kind, of_all=of_all)
        self.computed[stream][name] = expression
        self.types[stream][name] = kind
        return exp.column(name, self._query.streams[stream].alias, quoted=True)

    def if_needed(
        self, expression: exp.Expression, kind: pa.DataType | None, *, of_all: bool = False
    ) -> exp.Expression:
        """The expression itself if it can be computed in process, else a column that Spark computes."""
        try:
            self.translate(expression)
        except (NoTypeError, NotInProcessError) as error:
            aliases = {alias for alias, _ in columns_of([expression])}
            if len(aliases) != 1:
                what = f"'{render(expression)}' reads several streams and stands below an aggregate or in EXCEPT"
                raise UnsupportedError(
                    f"{what}, where it is computed without Spark: {error} not computed so"
                ) from error
            stream = self._query.aliases.index(aliases.pop())
            return self.column(stream, expression, pa.string() if kind is None else kind, of_all=of_all)
        return expression

    def check_inside(self, expression: exp.Expression, reader: str) -> None:
        """Refuse what a reader computes of joined rows if it cannot be computed in process."""
        if any(column.table == "" for column in expression.find_all(exp.Column)):
            return  # of groups: their columns are the engine's own
        try:
            self.translate(expression)
        except (NoTypeError, NotInProcessError) as error:
            raise UnsupportedError(
                f"query '{reader}' shares a run, where '{render(expression)}' is computed without Spark: {error} not "
                "computed so",
                None,
                "Select the columns, and compute the rest from the DataFrame that app.read returns.",
            ) from error

    def check_shown(self, aggregation: Aggregation) -> None:
        """Refuse a SELECT list, or a HAVING, over groups that cannot be computed in process."""
        shown = [*(each.expression for each in self._query.select), aggregation.having]
        for expression in [each for each in shown if each is not None]:
            try:
                self.translate(expression)
            except (NoTypeError, NotInProcessError) as error:
                written = _as_written(expression, aggregation)
                what = f"'{written}' stands in the SELECT list or HAVING of a query with aggregates"
                why = f"{what}, where it is computed without Spark: {error} not computed so"
                hint = "Select the aggregate itself, and compute the rest from the DataFrame that app.sql returns."
                raise UnsupportedError(why, None, hint) from error

    def translate(self, expression: exp.Expression) -> None:
        """See that an expression can be computed in process; an error if it cannot."""
        Translator(self._typed).translate(expression)

    def _typed(self, node: exp.Column) -> Typed:
        if not node.table:
            return typed_value("NULL", engine_types(self._query)[node.name])
        ref = self._query.streams[self._query.aliases.index(node.table)]
        return typed_value("NULL", ref.schema.field(node.name).type)


def is_guarded(name: str) -> bool:
    """Whether a computed column is needed of selected rows alone: all are but selections and partitions."""
    return not name.startswith(_OF_ALL)


def computed_name(expression: exp.Expression, kind: pa.DataType, *, of_all: bool = False) -> str:
    """What the column is called that holds an expression over one stream.

    It follows from what is computed, so rows of a checkpoint have it for any query that computes the same. In which
    order conditions are written does not matter.

    >>> from sqlglot import parse_one
    >>> one, other = parse_one("a.x > 1 AND a.y > 2"), parse_one("b.y > 2 AND b.x > 1")
    >>> computed_name(one, pa.bool_()) == computed_name(other, pa.bool_())
    True
    """
    tree = expression.copy()
    for column in tree.find_all(exp.Column):
        column.set("table", None)
    text = " AND ".join(sorted(render(each) for each in conjuncts(tree)))
    digest = hashlib.sha256(f"{text} as {kind}".encode()).hexdigest()[:16]
    return f"{_OF_ALL if of_all else '__c'}{digest}"


def can_be_computed(query: Query, condition: exp.Expression | None) -> bool:
    """Whether a condition on one stream can be computed without Spark."""
    if condition is None:
        return True
    try:
        Below(query).translate(condition)
    except (NoTypeError, NotInProcessError):
        return False
    return True


def engine_types(query: Query) -> dict[str, pa.DataType]:
    """The types of the columns that are the engine's own."""
    types = {TIME[1]: pa.timestamp("us")}
    if query.aggregation is not None:
        types |= {f"__k{i}": key.type for i, key in enumerate(query.aggregation.keys)}
        types |= {f"__a{i}": call.type for i, call in enumerate(query.aggregation.calls)}
    return types


def _as_written(expression: exp.Expression, aggregation: Aggregation) -> str:
    """An expression over groups, with their keys and aggregates in the place of the engine's names for them."""
    meant = {f"__k{i}": key.expression for i, key in enumerate(aggregation.keys)}
    for i, call in enumerate(aggregation.calls):
        argument = exp.Star() if call.argument is None else call.argument
        meant[f"__a{i}"] = exp.Anonymous(this=call.function, expressions=[argument.copy()])

    def spell(node: exp.Expression) -> exp.Expression:
        return meant.get(node.name, node).copy() if isinstance(node, exp.Column) and not node.table else node

    return render(expression.transform(spell))
