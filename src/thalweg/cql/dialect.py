"""The sqlglot dialect of CQL: Spark SQL's expressions, statements over windows.

>>> import sqlglot
>>> sqlglot.parse_one("select a.x from trades a [range 90 seconds] where a.x > 1", dialect=CQL).sql(dialect=CQL)
'SELECT a.x FROM trades AS a [RANGE 90 SECOND] WHERE a.x > 1'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, cast

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator

from thalweg.cql.durations import whole_units
from thalweg.cql.grammar import CqlParser
from thalweg.cql.nodes import ContinuousSelect, CreateQuery, Difference, SelectItem, StreamItem, StreamWindow


class CqlGenerator(SparkGenerator):
    """Prints CQL trees as text that parses back to the same tree."""

    TRANSFORMS: ClassVar[dict[type[exp.Expr], Callable[..., str]]] = {
        **SparkGenerator.TRANSFORMS,
        CreateQuery: lambda self, node: self._create_query(node),
        ContinuousSelect: lambda self, node: self._select(node),
        Difference: lambda self, node: self._difference(node),
        SelectItem: lambda self, node: self._item(node),
        StreamItem: lambda self, node: self._stream(node),
        StreamWindow: lambda self, node: self._window(node),
        exp.TryCast: lambda self, node: f"TRY_CAST({self.sql(node, 'this')} AS {self.sql(node, 'to')})",
        exp.IntDiv: lambda self, node: self.binary(node, "DIV"),
        exp.DPipe: lambda self, node: self.binary(node, "||"),
        exp.RegexpLike: lambda self, node: self.binary(node, "RLIKE"),
        exp.BitwiseLeftShift: lambda self, node: self.binary(node, "<<"),
        exp.BitwiseRightShift: lambda self, node: self.binary(node, ">>"),
        exp.NullSafeNEQ: lambda self, node: f"NOT {self.binary(node, '<=>')}",
    }

    def _create_query(self, node: CreateQuery) -> str:
        return f"CREATE QUERY {self.sql(node, 'this')} AS {self.sql(node, 'expression')}"

    def _select(self, node: ContinuousSelect) -> str:
        parts = ["SELECT " + self.expressions(node, flat=True), "FROM " + self._from(node)]
        if node.args.get("where"):
            parts.append(f"WHERE {self.sql(node, 'where')}")
        if node.args.get("group"):
            parts.append(f"GROUP BY {', '.join(self.sql(key) for key in node.args['group'])}")
        if node.args.get("having"):
            parts.append(f"HAVING {self.sql(node, 'having')}")
        return self._whole(node, " ".join(parts))

    def _difference(self, node: Difference) -> str:
        names = node.args.get("by")
        by = f"CORRESPONDING BY ({', '.join(self.sql(name) for name in names)}) " if names else ""
        return self._whole(node, f" EXCEPT {by}".join(self.sql(select) for select in (node.this, *node.expressions)))

    def _item(self, node: SelectItem) -> str:
        alias = self.sql(node, "alias")
        return f"{self.sql(node, 'this')} AS {alias}" if alias else self.sql(node, "this")

    def _stream(self, node: StreamItem) -> str:
        alias = self.sql(node, "alias")
        text = f"{self.sql(node, 'this')} AS {alias}" if alias else self.sql(node, "this")
        if node.args.get("window"):
            text += f" [{self.sql(node, 'window')}]"
        if node.args.get("freshness"):
            text += f" FRESHNESS {_length(node.args['freshness'])}"
        if node.args.get("on"):
            text += f" ON {self.sql(node, 'on')}"
        if node.args.get("using"):
            text += f" USING ({', '.join(self.sql(name) for name in node.args['using'])})"
        return text

    def _window(self, node: StreamWindow) -> str:
        size = node.args.get("size")
        if node.args["kind"] == "RANGE":
            return "RANGE UNBOUNDED" if size is None else f"RANGE {_length(size)}"
        keys = self.expressions(node, flat=True)
        return f"PARTITION BY {keys} ROWS {size}" if keys else f"ROWS {size}"

    def _from(self, node: ContinuousSelect) -> str:
        separators = {None: "", ",": ", ", "INNER": " JOIN ", "CROSS": " CROSS JOIN "}
        items = cast("list[exp.Expression]", node.args["streams"])
        return "".join(separators[item.args.get("join")] + self.sql(item) for item in items)

    def _whole(self, node: exp.Expression, body: str) -> str:
        """A query around its body; FRESHNESS stands outside so that it is not taken for the last stream's."""
        if node.args.get("window"):
            body += f" WINDOW {self.sql(node, 'window')}"
        output = node.args.get("output")
        freshness = node.args.get("freshness")
        if freshness:
            return f"{output or 'ISTREAM'}({body}) FRESHNESS {_length(freshness)}"
        return f"{output}({body})" if output else body


def _length(microseconds: int) -> str:
    number, unit = whole_units(microseconds)
    return f"{number} {unit.upper()}"


class CQL(Spark):
    """Spark's dialect with windows, ISTREAM and DSTREAM, FRESHNESS and CREATE QUERY."""

    Parser = CqlParser
    Generator = CqlGenerator
