"""Text to syntax trees: one per query, with its name and its own text.

Whatever the text is, the outcome is a tree or an error of ours. sqlglot's complaints are
turned into sentences here, and what it would silently mend or choke on is refused first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

from sqlglot import exp
from sqlglot.errors import SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from thalweg.cql.dialect import CQL
from thalweg.cql.expression_grammar import UnexpectedTokenError
from thalweg.cql.locations import SourceText
from thalweg.cql.nodes import ContinuousSelect, CreateQuery, Difference
from thalweg.errors import Location, ParseError

_OPENERS = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSERS = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
_AFTER_NOTHING = {*_CLOSERS, TokenType.COMMA, TokenType.FROM, TokenType.SEMICOLON}

DEEPEST_NESTING = 40
"""Levels of brackets; sqlglot's parser recurses about twenty calls deep per level."""
DEEPEST_TYPES = 6
"""Levels of ``TYPE(``: sqlglot reads such a bracket twice, so its work doubles with every level."""
DEEPEST_TREE = 200
"""Levels of a tree, chains of AND apart: DuckDB stops at 1,000, and every level may be looked at on its own."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One query of a text, its names not resolved yet."""

    name: str
    text: str
    tree: ContinuousSelect | Difference


def parse(text: str) -> tuple[Statement, ...]:
    """All queries of a text, in order.

    >>> [statement.name for statement in parse("CREATE QUERY q AS SELECT * FROM a [NOW]; SELECT * FROM b [NOW]")]
    ['q', 'query2']
    """
    source = SourceText(text)
    trees = [tree for tree in _trees(source) if tree is not None and not isinstance(tree, exp.Semicolon)]
    if not trees:
        raise ParseError("the text holds no query", source.at(0), "Write SELECT ... FROM stream [RANGE 5 MINUTES] ...")
    statements: list[Statement] = []
    for position, tree in enumerate(trees, start=1):
        _check_depth(source, tree)
        body = tree.expression if isinstance(tree, CreateQuery) else tree
        name = tree.name if isinstance(tree, CreateQuery) else f"query{position}"
        if any(name.lower() == other.name.lower() for other in statements):
            location = source.of(tree.this if isinstance(tree, CreateQuery) else tree)
            raise ParseError(
                f"two queries are called '{name}'", location, "Give each its own name: CREATE QUERY name AS."
            )
        statements.append(
            Statement(
                name, text[tree.meta["start"] : tree.meta["end"] + 1], cast("ContinuousSelect | Difference", body)
            )
        )
    return tuple(statements)


def _trees(source: SourceText) -> list[exp.Expr | None]:
    dialect = CQL()
    _check_characters(source)
    try:
        tokens = dialect.tokenize(source.text)
    except TokenError as error:
        raise _unreadable(source, error) from error
    _check_tokens(source, tokens)
    try:
        return dialect.parser().parse(tokens, source.text)
    except UnexpectedTokenError as error:
        raise _unexpected(source, error) from error
    except RecursionError as error:
        raise too_deep() from error
    except (SqlglotError, ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError) as error:
        # sqlglot's builders of function calls expect well-formed arguments.
        raise ParseError(f"the query cannot be read ({type(error).__name__} in the SQL parser)") from error


def _check_depth(source: SourceText, tree: exp.Expr) -> None:
    pending = [(tree, 0)]
    while pending:
        node, depth = pending.pop()
        if depth > DEEPEST_TREE:
            raise too_deep(source.of(node))
        pending += [(child, depth + (not isinstance(node, exp.And))) for child in node.iter_expressions()]


def too_deep(location: Location | None = None) -> ParseError:
    """The error for a query whose tree is too deep to be walked."""
    return ParseError(
        "the query is nested too deeply", location, "Split long chains of operators with parentheses, or simplify."
    )


def _check_characters(source: SourceText) -> None:
    for offset, character in enumerate(source.text):
        if character == "\0" or "\ud800" <= character <= "\udfff":
            raise ParseError(
                f"the text holds the character {character!r}", source.at(offset), "It is no part of a text."
            )


def _check_tokens(source: SourceText, tokens: list[Token]) -> None:
    """Refuse empty places in lists, which sqlglot skips, and nesting that it cannot afford."""
    if tokens and tokens[-1].token_type == TokenType.COMMA:
        raise ParseError("something is missing after ','", source.at(tokens[-1].start))
    nesting: list[bool] = []  # for every open bracket: does it follow the name of a type?
    for token, following in pairwise(tokens):
        kind = following.token_type
        if token.token_type in _OPENERS and kind == TokenType.COMMA:
            raise ParseError("something is missing before ','", source.at(following.start))
        if token.token_type == TokenType.COMMA and kind in _AFTER_NOTHING:
            raise ParseError("something is missing after ','", source.at(token.start))
        if token.token_type in _CLOSERS and nesting:
            nesting.pop()
        if kind in _OPENERS:
            nesting.append(token.token_type in CQL.Parser.TYPE_TOKENS)
            if len(nesting) > DEEPEST_NESTING or sum(nesting) > DEEPEST_TYPES:
                raise ParseError(f"{len(nesting)} brackets are open here, too many", source.at(following.start))


def _unreadable(source: SourceText, error: TokenError) -> ParseError:
    unclosed = re.search(r"Missing (.+) from \d+:(\d+)", str(error.__cause__))
    if unclosed is not None:
        closer, offset = unclosed.groups()
        return ParseError(f"a {'name' if closer == '`' else 'text'} is not closed by {closer}", source.at(int(offset)))
    comment = source.text.rfind("/*")
    if comment > source.text.rfind("*/"):
        return ParseError("a comment is not closed by */", source.at(comment))
    return ParseError("the text cannot be read", source.at(error.start or 0))


def _unexpected(source: SourceText, error: UnexpectedTokenError) -> ParseError:
    if error.token is None:
        return ParseError("the query ends too early", source.at(len(source.text.rstrip())))
    what = f"unexpected '{error.token.text}'"
    expected = re.match(r"Expect(?:ing|ed) (\S+)$", error.complaint)
    if expected:
        what += f" where '{expected[1]}' should stand"
    elif "number of provided arguments" in error.complaint:
        what = f"too many arguments before '{error.token.text}'"
    elif "Required argument" in error.complaint:
        what = f"something is missing before '{error.token.text}'"
    return ParseError(what, source.at(error.token.start))
