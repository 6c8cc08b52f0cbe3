"""Every construct in the tables of unsupported SQL is refused by its name."""

from __future__ import annotations

import pytest

from tests.cql.catalog import CATALOG
from thalweg.cql import bind
from thalweg.cql.unsupported import CLAUSES, JOINS, NOT_AN_ALIAS, STATEMENTS
from thalweg.errors import ThalwegError, UnsupportedError


def refusal(text: str) -> UnsupportedError:
    with pytest.raises(UnsupportedError) as caught:
        bind(text, CATALOG)
    return caught.value


@pytest.mark.parametrize("word", STATEMENTS)
def test_statements(word: str) -> None:
    what, hint = STATEMENTS[word]
    assert str(refusal(f"{word} trades")) == f"{what} not supported (line 1, column 1). {hint}"


@pytest.mark.parametrize("word", [word for word in CLAUSES if word != "DISTINCT"])
def test_clauses(word: str) -> None:
    what, hint = CLAUSES[word]
    second = " BY" if word in ("ORDER", "SORT", "CLUSTER", "DISTRIBUTE") else ""
    text = f"SELECT px FROM trades [NOW] {word}{second} px"  # noqa: S608 - no SQL runs here
    assert str(refusal(text)) == f"{what} not supported (line 1, column 29). {hint}"


@pytest.mark.parametrize("word", JOINS)
def test_joins(word: str) -> None:
    what, hint = JOINS[word]
    text = f"SELECT px FROM trades [NOW] {word} JOIN quotes [NOW]"  # noqa: S608 - no SQL runs here
    assert str(refusal(text)) == f"{what} not supported (line 1, column 29). {hint}"


@pytest.mark.parametrize("word", sorted(NOT_AN_ALIAS))
def test_words_that_are_no_alias_need_backticks(word: str) -> None:
    with pytest.raises(ThalwegError):
        bind(f"SELECT px FROM trades {word} [NOW]", CATALOG)  # noqa: S608 - no SQL runs here
    [query] = bind(f"SELECT px FROM trades `{word}` [NOW]", CATALOG)  # noqa: S608 - no SQL runs here
    assert query.aliases == (word,)
