"""How the tuples of a query are spread over buckets, so that every result is found in exactly one.

The buckets are the points of a grid. A tuple knows its coordinate on some of the grid's axes and is copied
along the others: it goes to one bucket if it knows them all, and to a whole plane if it knows one of three.

======= ========================================================= ==============================
an axis gives a tuple as coordinate                               and is known to
======= ========================================================= ==============================
of keys a hash of its members of attribute classes                the members of these classes
of rows a hash of anything fixed about the row, or of expressions one stream
======= ========================================================= ==============================

**Every result is found exactly once.** Take one tuple per stream that together satisfy the classes. On an axis of
keys all members have the same coordinate, because equal values have equal hashes; on an axis of rows the one
stream has one. So on every axis the tuples that know it, and there are some, agree on one coordinate. These
coordinates are a bucket that every tuple is sent to: it has that coordinate where it knows the axis, and goes
everywhere where it does not. Any other bucket has another coordinate on some axis, and a tuple that knows this axis is
not there. A result of ``EXCEPT`` is one tuple of the first stream, and its bucket needs all tuples of the
others with its key. It has them, as long as no other stream has an axis of rows.

**What must not be torn apart.** ``PARTITION BY p ROWS n`` counts the rows of a partition, so an axis may split
such a stream only if its coordinate follows from ``p``; where the stream is copied it is complete. A row with a NULL
key joins nothing but still counts, so it goes where its hash sends it, like any other. A group of an aggregation
must be in one bucket: every coordinate must follow from the group's key. A coordinate follows from the same
expressions; also if it casts them, unless they are floating point, whose -0.0 and 0.0 are one group but two strings.

**Which shares.** The HyperCube algorithm (Afrati and Ullman; Beame, Koutris and Suciu): a bucket gets, of each
stream, its rate divided by the shares of the axes that it knows. An axis all of whose streams know another one
is never better than that one; the shares of the axes that remain are searched in whole numbers.

State lives in buckets, so a running query keeps the partitioning that it began with.

Read in this order: :mod:`~thalweg.plan.partitioning.grid` (buckets, axes and the way of a row to its buckets),
:mod:`~thalweg.plan.partitioning.axes` (which axes a query allows), :mod:`~thalweg.plan.partitioning.shares` (how many
coordinates each gets), :mod:`~thalweg.plan.partitioning.choice` (all of it together),
:mod:`~thalweg.plan.partitioning.wording` (the same for a person).
"""

from thalweg.plan.partitioning.axes import keeps_groups
from thalweg.plan.partitioning.choice import MOST_BUCKETS, choose_partitioning
from thalweg.plan.partitioning.grid import Axis, Coordinate, Int64s, Partitioning
from thalweg.plan.partitioning.shares import LOAD_OVER_WORK
from thalweg.plan.partitioning.wording import describe

__all__ = [
    "LOAD_OVER_WORK",
    "MOST_BUCKETS",
    "Axis",
    "Coordinate",
    "Int64s",
    "Partitioning",
    "choose_partitioning",
    "describe",
    "keeps_groups",
]
