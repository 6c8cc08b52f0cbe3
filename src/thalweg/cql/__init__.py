"""CQL: texts of continuous queries, and what they mean.

``bind`` turns a text into bound queries, or raises an error that points at the text.
The way of a text: ``grammar`` (what may be written), ``parser`` (trees), ``scope``
(names), ``expressions`` (one meaning on every engine), ``predicates`` and ``classes`` (the
four kinds of conditions), ``constraints`` and ``windows`` (time), ``aggregates``,
``difference``, and ``binder``, which puts them together into a ``query.Query``.
"""

from thalweg.cql.binder import bind
from thalweg.cql.durations import format_interval, interval_option, parse_interval
from thalweg.cql.query import Query
from thalweg.cql.rendering import render
from thalweg.cql.scope import Source, match_name

__all__ = ["Query", "Source", "bind", "format_interval", "interval_option", "match_name", "parse_interval", "render"]
