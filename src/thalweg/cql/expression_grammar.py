"""sqlglot's grammar of Spark's expressions, as CQL uses it.

Four things are added: every node can be found in the text, a function call remembers
the name that was written, its arguments stay as they were written, and a subquery is refused. So what is sent to
Spark is what the author wrote, not sqlglot's reading of it. The ways in which the
grammar of statements refuses a token live here too.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, TypeVar

from sqlglot import exp
from sqlglot.errors import ParseError as SqlglotParseError
from sqlglot.parser import SENTINEL_NONE
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from thalweg.cql import unsupported
from thalweg.cql.locations import SourceText
from thalweg.errors import ParseError, UnsupportedError

E = TypeVar("E", bound=exp.Expr)

FUNCTION_MARK = "function"
"""The key in a node's ``meta`` under which the name of the function that the user wrote is kept."""

_AGGREGATES = {name: SparkParser.FUNCTIONS[name] for name in ("COUNT", "SUM", "MIN", "MAX", "AVG")}
_ARGUMENTS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Substring: ("this", "start", "length"),
    exp.StrPosition: ("substr", "this", "position"),
    exp.Overlay: ("this", "expression", "from_", "for_"),
}
"""Calls with a syntax of their own that are calls like others once they are read: where their arguments are."""

CLAUSE_WORDS = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "FRESHNESS")
WINDOW_WORDS = ("RANGE", "ROWS", "NOW", "PARTITION")
QUERY_STARTS = frozenset({TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.VALUES})
_QUOTES_HINT = "Quotes make a text in Spark SQL; names are quoted with backticks."


class UnexpectedTokenError(SqlglotParseError):
    """sqlglot's complaint, with the token it stumbled over (None: the text ended)."""

    def __init__(self, complaint: str, token: Token | None) -> None:
        super().__init__(complaint, [{"description": complaint}])
        self.complaint = complaint
        self.token = token


class ExpressionGrammar(SparkParser):
    """Expressions, names and refusals; statements are left to the subclass."""

    STRICT_CAST = True  # CAST and TRY_CAST are not the same in ANSI mode
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        name: SparkParser.FUNCTION_PARSERS[name]
        for name in ("CAST", "TRY_CAST", "TRIM", "SUBSTRING", "POSITION", "OVERLAY", "EXTRACT")
    }

    def raise_error(self, message: str, token: Token = SENTINEL_NONE) -> None:
        raise UnexpectedTokenError(message, token or self._curr or None)

    def expression(self, instance: E, token: Token | None = None, comments: list[str] | None = None) -> E:
        node = super().expression(instance, token, comments)
        if "start" not in node.meta and self._prev and not any(node.iter_expressions()):
            node.update_positions(self._prev)
        return node

    def _parse_select(
        self,
        nested: bool = False,  # noqa: ARG002 - the signature is sqlglot's
        table: bool = False,  # noqa: ARG002
        parse_subquery_alias: bool = True,  # noqa: ARG002
        parse_set_operation: bool = True,  # noqa: ARG002
        consume_pipe: bool = True,  # noqa: ARG002
    ) -> exp.Expr | None:
        if self._curr.token_type in QUERY_STARTS:
            self._unsupported(unsupported.SUBQUERIES, self._curr)
        return None

    def _parse_function_call(
        self,
        functions: dict[str, Callable[..., Any]] | None = None,
        anonymous: bool = False,
        optional_parens: bool = True,
        any_token: bool = False,
    ) -> exp.Expr | None:
        token = self._curr
        call = super()._parse_function_call(functions or _AGGREGATES, anonymous, optional_parens, any_token)
        if call is not None and type(call) in _ARGUMENTS:
            given = [call.args.get(name) for name in _ARGUMENTS[type(call)]]
            written = exp.Anonymous(this=token.text, expressions=[each for each in given if each is not None])
            written.meta.update(call.meta)
            call = written
        if call is not None:
            call.meta.setdefault(FUNCTION_MARK, token.text.lower())
            if "start" not in call.meta:
                call.update_positions(token)
        return call

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        # sqlglot would take array(...)[0] for a constructor ARRAY[0].
        if isinstance(this, exp.Anonymous) and self._at(TokenType.L_BRACKET):
            this = self.expression(exp.Paren(this=this))
        return super()._parse_bracket(this)

    def _parse_interval(
        self, require_interval: bool = True, parse_function_unit: bool = True
    ) -> exp.Add | exp.Interval | None:
        token = self._curr
        interval = super()._parse_interval(require_interval, parse_function_unit)
        if interval is not None:
            interval.update_positions(token)
        return interval

    def _parse_between(self, this: exp.Expr | None) -> exp.Between:
        low = self._parse_bitwise()
        if low is None or not self._match(TokenType.AND):
            self._fail("BETWEEN is followed by two bounds", hint="Write BETWEEN low AND high.")
        return self.expression(exp.Between(this=this, low=low, high=self._parse_bitwise()))

    # Names

    def _at(self, kind: TokenType) -> bool:
        return self._curr.token_type == kind

    def _word(self) -> str:
        """The current token as a bare word in capitals; empty for what is quoted, and at the end."""
        if not self._curr or self._curr.token_type in self.TEXT_MATCH_EXCLUDED_TOKENS:
            return ""
        return self._curr.text.upper().split(" ")[0]

    def _name(self, expectation: str) -> exp.Identifier:
        if self._at(TokenType.STRING):
            self._fail(f"{expectation}, not by the text {self._found()}", hint=_QUOTES_HINT)
        name = None if self._word() in CLAUSE_WORDS else self._parse_id_var(any_token=False)
        if not isinstance(name, exp.Identifier):
            self._fail(f"{expectation}, not by {self._found()}")
        return name

    def _names(self) -> list[exp.Identifier]:
        """``(name, ...)``."""
        self._match_l_paren()
        names = [self._name("a list of columns is made of names")]
        while self._match(TokenType.COMMA):
            names.append(self._name("a comma is followed by another name"))
        self._match_r_paren()
        return names

    def _alias(self, tokens: set[TokenType]) -> exp.Identifier | None:
        explicit = self._match(TokenType.ALIAS)
        if not explicit and self._word() in unsupported.NOT_AN_ALIAS:
            return None
        if self._at(TokenType.STRING):
            self._fail(f"an alias is a name, not the text {self._found()}", hint=_QUOTES_HINT)
        alias = self._parse_id_var(any_token=explicit, tokens=tokens)
        if isinstance(alias, exp.Identifier):
            return alias
        if explicit or alias is not None:
            self._fail(f"an alias is a name, not {self._found()}")
        return None

    # Refusals

    def _found(self) -> str:
        return f"'{self._curr.text}'" if self._curr else "the end of the text"

    def _refuse_start(self) -> NoReturn:
        entry = unsupported.STATEMENTS.get(self._word())
        if entry is not None:
            self._unsupported(entry, self._curr)
        if (word := self._word()) in ("ISTREAM", "DSTREAM"):
            self._fail(f"{word} stands before its SELECT", hint=f"Write SELECT {word} ..., or {word}(SELECT ...).")
        meant = "Did you mean SELECT?" if difflib.get_close_matches(self._word(), ["SELECT"], cutoff=0.7) else ""
        self._fail(
            f"a query begins with SELECT, ISTREAM, DSTREAM or CREATE QUERY, not with {self._found()}", hint=meant
        )

    def _refuse_rest(self) -> NoReturn:
        """Refuse what stands where a query should have ended or gone on."""
        word = self._word() or self._curr.text
        entry = unsupported.CLAUSES.get(word)
        if entry is not None:
            self._unsupported(entry, self._curr)
        before = self._prev.text.upper() if self._prev and self._prev.token_type == TokenType.VAR else ""
        if meant := difflib.get_close_matches(before, CLAUSE_WORDS, n=1, cutoff=0.7):  # it was taken for an alias
            self._fail(
                f"unexpected {self._found()} behind '{self._prev.text}'", self._prev, f"Did you mean {meant[0]}?"
            )
        hint = ""
        if word in CLAUSE_WORDS:
            hint = f"The order of clauses is {', '.join(CLAUSE_WORDS).replace('GROUP', 'GROUP BY')}."
        elif self._at(TokenType.L_BRACKET):
            hint = "A window stands behind its stream in the FROM list."
        elif word in WINDOW_WORDS:
            hint = "A window stands in brackets behind its stream, as in [RANGE 5 MINUTES]."
        self._fail(f"unexpected {self._found()}", hint=hint)

    def _unsupported(self, entry: tuple[str, str], token: Token) -> NoReturn:
        what, hint = entry
        raise UnsupportedError(f"{what} not supported", SourceText(self.sql).at(token.start), hint)

    def _fail(self, what: str, token: Token | None = None, hint: str = "") -> NoReturn:
        token = token or self._curr
        offset = token.start if token else len(self.sql.rstrip())
        raise ParseError(what, SourceText(self.sql).at(offset), hint)
