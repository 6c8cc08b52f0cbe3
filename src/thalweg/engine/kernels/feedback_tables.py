"""The tables of feedback: numbers that gates, memories of demands, gaps and Bloom filters go by.

:mod:`~thalweg.engine.kernels.feedback` says what they mean together. Their columns begin with a letter for the table.
"""

from __future__ import annotations

from typing import NamedTuple

from thalweg.engine.kernels.compiled import Int64s

# Columns of Feedback.demands: the table of what is remembered; the classes of its key; the program that looks for a
# witness; the windows asked, or the state (-1: none); whether filters tell; whether what is asked never changes.
D_TABLE, D_MASK, D_STRIDE, D_COUNT, D_WANTING, D_KEY, D_KEY_COUNT, D_PROGRAM = range(8)
D_PARTNERS, D_PARTNER_COUNT, D_STATE, D_IS_FILTERED, D_IS_FINAL = range(8, 13)
DEMAND_FIELDS = 13
# A window asked: its stream; its access path by the classes that it carries, or filter (-1: neither); these classes.
A_STREAM, A_PLACE, A_CLASSES, A_CLASS_COUNT = range(4)
PARTNER_FIELDS = 4
# A memory: the key, the verdict, until when it holds, and per window asked the number of the next tuple by then.
V_KEY, V_VERDICT, V_UNTIL, V_NEXT = range(4)
UNKNOWN, DEMANDED, WANTING, OUTDATED = range(4)
# Columns of Feedback.gates: the demand; the PROBE behind which it stands (-1: before the first) and its depth
# (ANYWHERE: an eddy takes probes in any order); the size of the part; its gaps; the state that follows, or -1.
Q_DEMAND, Q_STEP, Q_DEPTH, Q_SIZE, Q_GAPS, Q_GAP_COUNT, Q_STORES = range(7)
GATE_FIELDS = 7
ANYWHERE = -2
# A gap: the state, which of its kinds of gap, and the classes whose values say where.
G_STATE, G_KIND, G_CLASSES, G_CLASS_COUNT = range(4)
GAP_FIELDS = 4
# Columns of Feedback.asked, a row per instruction: the gates to ask about when a PROBE has found nothing, in lists.
L_ASKED, L_ASKED_COUNT = range(2)
ASKED_FIELDS = 2
# Columns of Feedback.gaps, a row per state: its table; the tuple that left a gap everywhere; its kinds of gap, as
# (classes, their number) in lists; for each class of its key, in lists: (class, stream, word of the component in an
# entry, field of the tuple); the program that looks whether a key has any entry (-1: none is needed).
O_TABLE, O_MASK, O_COUNT, O_ALL, O_KINDS, O_KIND_COUNT, O_CARRIERS, O_SEARCH = range(8)
STATE_GAP_FIELDS = 8
# Columns of Feedback.filters: a Bloom filter over some classes of a stream's window.
F_STREAM, F_REGION, F_MASK, F_FIELDS, F_FIELD_COUNT, F_ADDED, F_MOST = range(7)
FILTER_FIELDS = 7
# Feedback.tally: whether a table is filling up; what was counted.
T_IS_FULL, T_SUSPENSIONS, T_RESUMPTIONS, T_WITHHELD, T_UNPROBED, T_TESTS = range(6)
TALLIES = 6


class Feedback(NamedTuple):
    """What feedback goes by; tables lie in the engine's memory."""

    demands: Int64s
    gates: Int64s
    asked: Int64s
    gaps: Int64s
    filters: Int64s
    stream_filters: Int64s  # [stream, (first, number)]
    met: Int64s  # [depth] whether the probe there has found anything, or was asked about
    tally: Int64s
