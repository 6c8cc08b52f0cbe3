"""SQL that has no meaning over windowed streams here, by its name.

A person who writes ``LEFT JOIN`` should read that left joins are not supported and
what to do, not that a token was unexpected. The tables map the first word of a
construct to its name and a remedy.
"""

from __future__ import annotations

_OTHER_STATEMENTS = (
    *("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "DROP", "ALTER", "CREATE", "REPLACE", "COPY", "LOAD", "ADD"),
    *("SHOW", "DESCRIBE", "DESC", "EXPLAIN", "SUMMARIZE", "SET", "USE", "CACHE", "UNCACHE", "REFRESH", "ANALYZE"),
    *("GRANT", "REVOKE", "BEGIN", "COMMIT", "ROLLBACK", "CALL", "EXECUTE", "PRAGMA", "ATTACH", "DETACH", "DECLARE"),
    *("COMMENT", "KILL", "MSCK"),
)
STATEMENTS: dict[str, tuple[str, str]] = {
    "WITH": ("common table expressions (WITH) are", "Write one SELECT over the streams themselves."),
    "FROM": ("queries that begin with FROM are", "Write SELECT * FROM ..."),
    "VALUES": ("VALUES is", "A query reads registered streams."),
    "TABLE": ("TABLE statements are", "Write SELECT * FROM ..."),
    **{
        word: (f"{word} statements are", "Only queries (SELECT, CREATE QUERY name AS SELECT) can be run.")
        for word in _OTHER_STATEMENTS
    },
}

CLAUSES: dict[str, tuple[str, str]] = {
    "UNION": ("UNION is", "Write two queries, each CREATE QUERY name AS SELECT ...;"),
    "INTERSECT": ("INTERSECT is", "Join the streams on all their columns instead."),
    "ORDER": ("ORDER BY is", "Results come in time order."),
    "SORT": ("SORT BY is", "Results come in time order."),
    "CLUSTER": ("CLUSTER BY is", "Results come in time order."),
    "DISTRIBUTE": ("DISTRIBUTE BY is", "Partitioning is chosen when a query runs."),
    "LIMIT": ("LIMIT is", "A continuous query has no last result."),
    "OFFSET": ("OFFSET is", "A continuous query has no last result."),
    "FETCH": ("FETCH is", "A continuous query has no last result."),
    "QUALIFY": ("QUALIFY is", "Window functions have no meaning over changing windows."),
    "LATERAL": ("LATERAL is", "Flatten the column before the stream is registered."),
    "PIVOT": ("PIVOT is", "Write one aggregate per column instead."),
    "UNPIVOT": ("UNPIVOT is", "Flatten the columns before the stream is registered."),
    "TABLESAMPLE": ("TABLESAMPLE is", "The answer must be a function of the input."),
    "DISTINCT": ("SELECT DISTINCT is", "Group by the columns: GROUP BY ... keeps one row per group."),
    "INTO": ("SELECT INTO is", "Results go where the caller sends them."),
    "FOR": ("FOR is", "A stream has no earlier version and no locks."),
    "|>": ("the pipe syntax is", "Write SELECT ... FROM ... WHERE ..."),
    "MATCH_RECOGNIZE": ("MATCH_RECOGNIZE is", "Join the stream with itself under two aliases."),
    "PREWHERE": ("PREWHERE is", "Write WHERE: selections are pushed down."),
}

_INNER_HINT = "Only inner joins are: write JOIN ... ON, JOIN ... USING or CROSS JOIN."
JOINS: dict[str, tuple[str, str]] = {  # the most telling word first: LEFT SEMI JOIN is a semi join
    "SEMI": ("semi joins are", _INNER_HINT),
    "ANTI": ("anti joins are", "Write EXCEPT for what has no partner."),
    "NATURAL": ("natural joins are", "Name the columns: JOIN ... USING (column, ...)."),
    "ASOF": ("ASOF joins are", _INNER_HINT),
    "STRAIGHT_JOIN": ("STRAIGHT_JOIN is", "The order of joins is the plan's: name it in the plan option."),
    "LEFT": ("left outer joins are", _INNER_HINT),
    "RIGHT": ("right outer joins are", _INNER_HINT),
    "FULL": ("full outer joins are", _INNER_HINT),
    "OUTER": ("outer joins are", _INNER_HINT),
}

SUBQUERIES = ("subqueries are", "Join the streams in one FROM list instead.")
TABLE_FUNCTIONS = ("table functions are", "Name a registered stream.")
NESTED_JOINS = ("parentheses around joins are", "Write the joins in one list; the plan decides their order.")
COLUMN_ALIASES = ("column lists after an alias are", "Rename columns in the SELECT list.")
HINTS = ("hints are", "The plan is an option of the run, not of the text.")
SLIDES = ("windows that move in steps (SLIDE) are", "A window moves with every tuple; leave SLIDE out.")
RSTREAM = ("RSTREAM is", "Write ISTREAM (results entering the window) or DSTREAM (results leaving it).")
EXCEPT_ALL = (
    "EXCEPT ALL and EXCEPT DISTINCT are",
    "Write EXCEPT: it keeps every left row that has no equal on the right.",
)
GROUPING_SETS = ("grouping sets are", "Write one query for each set of columns.")

JOIN_WORDS = frozenset({"INNER", "CROSS", "OUTER", *JOINS})

NOT_AN_ALIAS = frozenset(
    {
        *CLAUSES,
        *JOIN_WORDS,
        *("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "FRESHNESS", "EXCEPT", "MINUS", "CORRESPONDING"),
        *("JOIN", "ON", "USING", "AS", "AND", "OR"),
    }
)
"""Words that cannot be an alias unless AS stands before them."""
