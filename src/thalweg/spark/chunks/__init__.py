"""The log of a bucket: the rows of its base windows, in chunks.

Design
    A chunk is what one batch brought of one stream. Chunks whose rows have all left their windows are dropped. Others
    are merged, eight batches into one, and eight of those, so that their number grows with the logarithm of the batches
    that a window reaches over. Rows that have left are not merged. A merged batch is as good as those it was made of,
    because the answer does not depend on how the input was cut into batches.

    Reading and writing go through Spark one value at a time, at about a millisecond each. So chunks of one batch lie
    together, in one *bundle*, if their streams have the same RANGE window: they come and go together. (Of streams with
    other windows, one could hold on to the many rows of another.) A bundle is one value, or several *pieces* if it is
    large: Spark copies a value several times on its way, and cannot send one of two gigabytes at all.

Invariant
    What is put and dropped is a function of the log as it was committed and of the batch's rows. It does not depend on
    which engine ran the batch: one that lived on, or one that was built anew. So two attempts at a batch write the same
    keys and the same bytes. What is read back is verified: the checksum of every piece, the rows of every chunk.

Read in this order: :mod:`~thalweg.spark.chunks.chunk` (what a chunk is, and its rows),
:mod:`~thalweg.spark.chunks.bundles` (how chunks lie in Spark's state store), :mod:`~thalweg.spark.chunks.window_log`
(which of them are needed, and which are merged).
"""

from thalweg.spark.chunks.bundles import PIECES, Log
from thalweg.spark.chunks.chunk import Chunk, numbered, packed_times, placed, plain, times_of
from thalweg.spark.chunks.window_log import Chunks, Rows

__all__ = [
    "PIECES",
    "Chunk",
    "Chunks",
    "Log",
    "Rows",
    "numbered",
    "packed_times",
    "placed",
    "plain",
    "times_of",
]
