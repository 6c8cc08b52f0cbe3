"""Which query of a text a command is about."""

from __future__ import annotations


def choose(script: str, name: str | None) -> tuple[str, str]:
    """The one query of a script that is to run: its text, where it was in the script, and its name.

    >>> choose("CREATE QUERY p AS SELECT * FROM a [NOW]; SELECT * FROM b [NOW]", "QUERY2")
    ('                                         SELECT * FROM b [NOW]', 'query2')
    """
    from thalweg.cql.parser import parse
    from thalweg.errors import QueryError

    statements = parse(script)
    names = ", ".join(statement.name for statement in statements)
    if name is None and len(statements) > 1:
        raise QueryError(f"the text has {len(statements)} queries ({names})", None, "Say which one: --query NAME.")
    start = 0
    for statement in statements:
        start = script.index(statement.text, start)
        if name is None or statement.name.lower() == name.lower():
            # Blanks in the place of what comes before: errors still point into the script.
            before = "".join(c if c == "\n" else " " for c in script[:start])
            return before + statement.text, statement.name
        start += len(statement.text)
    raise QueryError(f"the text has no query '{name}'", None, f"Its queries are {names}.")
