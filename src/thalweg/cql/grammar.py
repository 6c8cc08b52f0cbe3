"""The grammar of CQL statements.

::

    statement   [CREATE QUERY name AS] query
    query       body | ISTREAM(body) [FRESHNESS length] | DSTREAM(body) [FRESHNESS length]
    body        select [EXCEPT [CORRESPONDING BY (column, ...)] select ...]
    select      SELECT [ISTREAM | DSTREAM] item, ... FROM from [WHERE condition]
                [GROUP BY expression, ...] [HAVING condition] [WINDOW window] [FRESHNESS length]
    from        stream [, stream | [INNER] JOIN stream [ON condition | USING (column, ...)] | CROSS JOIN stream] ...
    stream      name [[AS] alias] ["[" window [FRESHNESS length] "]"] [FRESHNESS length]
    window      NOW | RANGE length | RANGE UNBOUNDED | [PARTITION BY expression, ...] ROWS number

A window may also stand between a stream and its alias, as in the first CQL. What
begins like other SQL is refused by its name.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from thalweg.cql import unsupported
from thalweg.cql.durations import measure
from thalweg.cql.expression_grammar import CLAUSE_WORDS, QUERY_STARTS, WINDOW_WORDS, ExpressionGrammar
from thalweg.cql.nodes import ContinuousSelect, CreateQuery, Difference, SelectItem, StreamItem, StreamWindow
from thalweg.errors import OptionError

_WINDOW_FORMS = "A window is [RANGE 5 MINUTES], [ROWS 1000], [PARTITION BY column ROWS 10], [NOW] or [RANGE UNBOUNDED]."


class CqlParser(ExpressionGrammar):
    """Parses CQL statements into the nodes of :mod:`thalweg.cql.nodes`."""

    def _parse_statement(self) -> exp.Expr | None:
        if not self._curr:
            return None
        if self._match(TokenType.SEMICOLON):
            return exp.Semicolon()
        start = self._curr
        statement = self._create_query() or self._query()
        if self._curr:
            self._refuse_rest()
        statement.meta["start"], statement.meta["end"] = start.start, self._prev.end
        return statement

    # Statements

    def _create_query(self) -> CreateQuery | None:
        if not self._match_text_seq("CREATE", "QUERY"):
            return None
        name = self._name("CREATE QUERY is followed by the query's name")
        if not self._match(TokenType.ALIAS):
            self._fail(f"CREATE QUERY {name.name} is followed by AS and a SELECT, not by {self._found()}")
        return CreateQuery(this=name, expression=self._query())

    def _query(self) -> ContinuousSelect | Difference:
        start = self._curr
        output = self._output_word() if self._next.token_type == TokenType.L_PAREN else None
        if output is None:
            body = self._body()
        else:
            self._match_l_paren()
            body = self._body()
            if body.args.get("output"):
                self._fail(f"{output} and {body.args['output']} stand in one query", start, "Write one of them, once.")
            self._match_r_paren()
            body.set("output", output)
            if self._word() == "FRESHNESS":
                self._set_freshness(body)
        if body.args.get("output") == "ISTREAM":  # the default
            body.set("output", None)
        return body

    def _body(self) -> ContinuousSelect | Difference:
        first = self._select()
        branches: list[ContinuousSelect] = []
        by: list[exp.Identifier] | None = None
        while self._match(TokenType.EXCEPT):
            word = self._prev
            if self._match_set((TokenType.ALL, TokenType.DISTINCT)):
                self._unsupported(unsupported.EXCEPT_ALL, word)
            branch_by = self._corresponding()
            if branches and branch_by != by:
                hint = "Write the same CORRESPONDING BY after each EXCEPT."
                self._fail("the EXCEPTs of a query compare different columns", word, hint)
            by = branch_by
            branch = self._select()
            if branch.args.get("output"):
                self._fail(f"{branch.args['output']} stands behind EXCEPT", word, "It stands in the first SELECT.")
            branches.append(branch)
        if not branches:
            return first
        whole = Difference(this=first, expressions=branches, by=by, output=first.args.get("output"))
        whole.meta["start"] = first.meta["start"]
        first.set("output", None)
        for clause in ("window", "freshness"):  # behind the last SELECT, they are the whole's
            whole.set(clause, branches[-1].args.get(clause))
            branches[-1].set(clause, None)
        if any(select.args.get("freshness") for select in (first, *branches)):
            self._fail("FRESHNESS stands before EXCEPT", hint="FRESHNESS of the query stands once, at its end.")
        return whole

    def _corresponding(self) -> list[exp.Identifier] | None:
        if not self._match_text_seq("CORRESPONDING"):
            return None
        if not self._match_text_seq("BY"):
            self._fail("CORRESPONDING is followed by BY (column, ...)")
        return self._names()

    def _select(self) -> ContinuousSelect:
        if self._at(TokenType.L_PAREN) and self._next.token_type == TokenType.SELECT:
            self._advance()
            select = self._select()
            self._match_r_paren()
            return select
        start = self._curr
        if not self._match(TokenType.SELECT):
            self._refuse_start()
        if self._at(TokenType.HINT):
            self._unsupported(unsupported.HINTS, self._curr)
        is_column = self._next.token_type in (TokenType.COMMA, TokenType.FROM, TokenType.DOT, TokenType.ALIAS)
        select = ContinuousSelect(output=None if is_column else self._output_word())
        select.update_positions(start)
        self._match(TokenType.ALL)
        if self._word() == "DISTINCT":
            self._unsupported(unsupported.CLAUSES["DISTINCT"], self._curr)
        select.set("expressions", self._items())
        if not self._match(TokenType.FROM):
            if self._curr and self._word() not in (*CLAUSE_WORDS, ")"):
                self._refuse_rest()
            self._fail("the query has no FROM", hint="A query reads streams: FROM stream [RANGE 5 MINUTES].")
        select.set("streams", self._streams())
        if self._match(TokenType.WHERE):
            select.set("where", self._condition("WHERE"))
        if self._match(TokenType.GROUP_BY):
            select.set("group", self._grouping())
        if self._match(TokenType.HAVING):
            select.set("having", self._condition("HAVING"))
        while self._word() in ("WINDOW", "FRESHNESS"):
            if self._word() == "FRESHNESS":
                self._set_freshness(select)
                continue
            if select.args.get("window"):
                self._fail("WINDOW stands twice")
            self._advance()
            select.set("window", self._window())
        return select

    def _output_word(self) -> str | None:
        word = self._word()
        if word == "RSTREAM":
            self._unsupported(unsupported.RSTREAM, self._curr)
        if word not in ("ISTREAM", "DSTREAM"):
            return None
        self._advance()
        return word

    def _items(self) -> list[SelectItem]:
        items: list[SelectItem] = []
        while True:
            start = self._curr
            if not start or start.token_type == TokenType.FROM:
                self._fail("the SELECT list is empty")
            expression = self._parse_disjunction()
            if expression is None:
                self._refuse_rest()
            item = SelectItem(this=expression)
            item.meta["text"] = " ".join(self._find_sql(start, self._prev).split())
            item.update_positions(start)
            item.set("alias", self._alias(self.ALIAS_TOKENS))
            items.append(item)
            if not self._match(TokenType.COMMA):
                return items

    def _condition(self, clause: str) -> exp.Expr:
        condition = self._parse_disjunction()
        if condition is None:
            self._fail(f"{clause} is followed by a condition, not by {self._found()}")
        return condition

    def _grouping(self) -> list[exp.Expr]:
        keys: list[exp.Expr] = []
        while True:
            if self._word() in ("ALL", "ROLLUP", "CUBE", "GROUPING"):
                self._unsupported(unsupported.GROUPING_SETS, self._curr)
            key = self._parse_disjunction()
            if key is None:
                self._fail(f"GROUP BY is followed by expressions, not by {self._found()}")
            keys.append(key)
            if self._at(TokenType.WITH):
                self._unsupported(unsupported.GROUPING_SETS, self._curr)
            if not self._match(TokenType.COMMA):
                return keys

    # FROM

    def _streams(self) -> list[StreamItem]:
        items = [self._stream(None)]
        while True:
            if self._match(TokenType.COMMA):
                items.append(self._stream(","))
                continue
            start = self._curr
            words: list[str] = []
            while self._word() in unsupported.JOIN_WORDS:
                words.append(self._word())
                self._advance()
            for kind in unsupported.JOINS:
                if kind in words:
                    self._unsupported(unsupported.JOINS[kind], start)
            if not self._match(TokenType.JOIN):
                if words:
                    self._fail(f"{words[-1]} is followed by JOIN, not by {self._found()}")
                return items
            items.append(self._joined("CROSS" if "CROSS" in words else "INNER"))

    def _joined(self, kind: str) -> StreamItem:
        item = self._stream(kind)
        clause = self._curr
        if self._match(TokenType.ON):
            item.set("on", self._condition("ON"))
        elif self._match(TokenType.USING):
            item.set("using", self._names())
        if kind == "CROSS" and (item.args.get("on") or item.args.get("using")):
            self._fail(f"CROSS JOIN has no {clause.text.upper()}", clause, f"Write JOIN ... {clause.text.upper()}.")
        return item

    def _stream(self, join: str | None) -> StreamItem:
        start = self._curr
        if self._at(TokenType.L_PAREN):
            nested = self._next.token_type in QUERY_STARTS or self._next.token_type == TokenType.L_PAREN
            self._unsupported(unsupported.SUBQUERIES if nested else unsupported.NESTED_JOINS, start)
        if self._word() == "LATERAL":
            self._unsupported(unsupported.CLAUSES["LATERAL"], start)
        name = self._name("FROM and JOIN are followed by the name of a stream")
        self._refuse_parentheses(name)
        if self._at(TokenType.L_PAREN):
            self._unsupported(unsupported.TABLE_FUNCTIONS, start)
        if self._at(TokenType.DOT):
            hint = "If the dot belongs to the name, put all of it in backticks."
            self._fail("the name of a stream has one part", self._curr, hint)
        item = StreamItem(this=name, join=join)
        item.update_positions(start)
        self._bracket(item)
        item.set("alias", self._alias(self.TABLE_ALIAS_TOKENS))
        self._refuse_parentheses(name)
        if self._at(TokenType.L_PAREN):
            self._unsupported(unsupported.COLUMN_ALIASES, self._curr)
        self._bracket(item)
        if self._word() == "FRESHNESS":
            self._set_freshness(item)
        return item

    # Windows

    def _refuse_parentheses(self, stream: exp.Identifier) -> None:
        """Refuse a window in parentheses, which are easily mistaken for brackets."""
        if self._at(TokenType.L_PAREN) and self._next and self._next.text.upper().split(" ")[0] in WINDOW_WORDS:
            self._fail(f"the window of stream '{stream.name}' stands in parentheses", hint=_WINDOW_FORMS)

    def _bracket(self, item: StreamItem) -> None:
        if self._at(TokenType.L_BRACKET) and item.args.get("window"):
            self._fail(f"stream '{item.name}' has two windows")
        if not self._match(TokenType.L_BRACKET):
            return
        item.set("window", self._window())
        if self._word() == "FRESHNESS":
            self._set_freshness(item)
        if not self._match(TokenType.R_BRACKET):
            self._fail(f"the window is not closed by ']' but followed by {self._found()}", hint=_WINDOW_FORMS)

    def _window(self) -> StreamWindow:
        start = self._curr
        partition = self._parse_csv(self._parse_bitwise) if self._match(TokenType.PARTITION_BY) else None
        kind, size = "RANGE", None
        if self._match_text_seq("NOW"):
            size = 1
        elif self._match_text_seq("RANGE"):
            size = None if self._match_text_seq("UNBOUNDED") else self._length("RANGE")
        elif self._match_text_seq("ROWS"):
            unbounded = self._match_text_seq("UNBOUNDED")
            kind, size = ("RANGE", None) if unbounded else ("ROWS", self._rows())
        elif not self._match_text_seq("UNBOUNDED"):
            self._fail(f"{self._found()} is not a window", hint=_WINDOW_FORMS)
        if self._word() == "SLIDE":
            self._unsupported(unsupported.SLIDES, self._curr)
        if partition and kind == "RANGE":
            self._fail("PARTITION BY stands with a RANGE window", start, "It needs ROWS: every partition ages alike.")
        if size is not None and size <= 0:
            text = self._find_sql(start, self._prev)
            self._fail(f"the window {text} is not positive", start, "A window holds at least some time or rows.")
        spec = StreamWindow(kind=kind, size=size, expressions=partition)
        spec.update_positions(start)
        return spec

    def _rows(self) -> int:
        start = self._curr
        sign = -1 if self._match(TokenType.DASH) else 1
        number = self._curr
        if not self._match(TokenType.NUMBER) or not number.text.isdecimal() or len(number.text) > 18:
            self._fail("ROWS is followed by a whole number", start, "For example [ROWS 1000].")
        return sign * int(number.text)

    def _set_freshness(self, node: exp.Expression) -> None:
        start = self._curr
        if node.args.get("freshness") is not None:
            self._fail("FRESHNESS stands twice")
        self._advance()
        length = self._length("FRESHNESS")
        if length <= 0:
            self._fail(f"{self._find_sql(start, self._prev)} is not positive", start)
        node.set("freshness", length)

    def _length(self, clause: str) -> int:
        """The microseconds of a length such as ``5 MINUTES``, ``1 HOUR 30 MINUTES``, ``5s``, ``INTERVAL '5' DAYS``."""
        start = self._curr
        self._match(TokenType.INTERVAL)
        while True:
            if self._next.token_type in (TokenType.NUMBER, TokenType.STRING):
                self._match_set((TokenType.DASH, TokenType.PLUS))
            number = self._curr
            if not number or (number.token_type != TokenType.STRING and not number.text[:1].isdigit()):
                break
            while self._curr and self._curr.start == number.start:  # "5s" is three tokens of one place
                self._advance()
            if self._word().isalpha() and self._word() not in (*unsupported.NOT_AN_ALIAS, "SLIDE"):
                self._advance()
        if self._curr is start:
            self._fail(f"{clause} is followed by a length of time", hint=f"For example {clause} 5 MINUTES.")
        return self._measured(start, self._prev)

    def _measured(self, start: Token, end: Token) -> int:
        try:
            return measure(self._find_sql(start, end))
        except OptionError as error:
            self._fail(str(error), start)
