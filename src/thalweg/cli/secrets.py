"""Secrets that the command line was given, kept out of what it prints.

A secret is the value of an option whose name says so (by the rule that Spark has for its own settings, and Kafka's
login), wherever it stands: in an option of a source or sink, in a setting of Spark, inside such a value
(``password="..."``), or in a URL (``user:password@host``). Errors may repeat it in their own words, so it is the value
that is looked for in a text, not the name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from thalweg.cli.console import printable

REDACTED = "*********(redacted)"
"""What Spark puts in the place of a secret."""
NEXT_OPTION = re.compile(r",(?=\s*[\w.-]+=)")
"""Between two options of a source: a comma inside a value is not followed by a name and '='."""

_NAME = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)
"""Spark's default of spark.redaction.regex."""
_LOGIN = re.compile(r"sasl[.]jaas[.]config", re.IGNORECASE)
_INNER = re.compile(r"""(?P<name>[\w.-]+)\s*=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s,;&"']+))""")
_URL = re.compile(r"(?<=://)(?P<user>[^\s/?#:@]*):(?P<secret>[^\s/?#]+)(?=@)")
_SHORT = 6
"""Characters: a shorter secret is looked for as a word of its own, or a text would be full of it by chance."""


def secrets_of(texts: Iterable[str]) -> frozenset[str]:
    """The secrets in options as they are written on the command line.

    >>> sorted(secrets_of(["jdbc:url=jdbc:x://h/db?password=p1,user=u,password=p2,dbtable=t", "mongodb://u:p%40@h/d"]))
    ['p%40', 'p1', 'p2', 'p@']
    """
    found: set[str] = set()
    for secret in (secret for text in texts for secret in _secrets_in(text)):
        found |= {secret, unquote(secret), printable(secret), repr(secret)[1:-1]}
    return frozenset(found - {"", REDACTED})


def _secrets_in(text: str) -> Iterator[str]:
    for option in (text, *NEXT_OPTION.split(text)):
        name, _, value = option.partition("=")
        if _NAME.search(name) or _LOGIN.search(name):
            yield value.strip()
    for inner in _INNER.finditer(text):
        yield from _values(inner)
    for url in _URL.finditer(text):
        yield url["secret"]


def _values(inner: re.Match[str]) -> Iterator[str]:
    """The value of a name within a text, if it is secret; else, those within the value."""
    value = inner["double"] or inner["single"] or inner["bare"] or ""
    if _NAME.search(inner["name"]):
        yield value
    else:
        for deeper in _INNER.finditer(value):
            yield from _values(deeper)


def redacted(text: str, secrets: Iterable[str] | None = None) -> str:
    """A text without these secrets, nor those of URLs; without any given, those of the text itself, if it is an option.

    >>> redacted("kafka:subscribe=t,kafka.ssl.key.password=hunter2")
    'kafka:subscribe=t,kafka.ssl.key.password=*********(redacted)'
    >>> redacted("cannot reach mongodb://me:hunter2@host/db: hunter2 is wrong", ["hunter2"])
    'cannot reach mongodb://me:*********(redacted)@host/db: *********(redacted) is wrong'
    """
    for secret in sorted(secrets_of([text]) if secrets is None else secrets, key=len, reverse=True):
        pattern = re.escape(secret)
        text = re.sub(pattern if len(secret) >= _SHORT else rf"(?<!\w){pattern}(?!\w)", REDACTED, text)
    return _URL.sub(rf"\g<user>:{REDACTED}", text)
