"""Where everything of a join lies: the words of its one memory, and the columns of the tables that lead there."""

from __future__ import annotations

from typing import NamedTuple

from thalweg.engine.kernels.compiled import Float64s, Int64s

GREATEST = 2**63 - 1
ALL = -1
"""A word with every bit set."""

# A tuple of a base window; then [mask], its codes, operands, [partition, newer, alive], links. Its expiry follows from
# its time, which keeps a tuple with one key within half a cache line.
T, ROW, FIRST_FIELD = 0, 1, 2
# A tuple's mask has a bit for each distinct selection that it passes; without any it joins nothing, though it may count
# in a ROWS window. The mask of a partial tuple is the AND of its parts, and zero stops it. Where there is a single
# selection, windows and states hold nothing that fails it, and keep no masks.
# An entry of a state; then the sequence numbers of its components.
ENTRY_T, ENTRY_EXPIRY, ENTRY_KEY, ENTRY_LINK, COMPONENTS = 0, 1, 2, 3, 4

# Columns of Tables.streams. A stream's window is one ring, or a chain of *slices*: rings of tuples that are of use for
# the same time. The first row of a stream has its own number; each further slice is in a row ``n`` streams below. A
# tuple's sequence number says where: what is above bit SLICE_SHIFT is to be added to the stream's number.
(S_REGION, S_MASK, S_STRIDE, S_OLDEST, S_NEXT, S_PREFIX, S_LIFETIME, S_ROWS, S_PARTITIONS, S_PATH, S_PATHS) = range(11)
S_RENUMBERED = 11  # how many numbers below S_NEXT were given to tuples that had one before, less those taken back
# The words of an offered tuple, where among them its mask is; where the window has it (0: it keeps none).
S_OFFERED, S_OFFERED_MASK, S_KEPT_MASK = range(12, 15)
# The row of the stream's next slice (-1: there is none). By how much, at most, a tuple came behind the newest time that
# its slice had by then; that time. They are told only where windows keep masks.
S_MORE, S_LAG, S_NEWEST = range(15, 18)
STREAM_FIELDS = 18
SLICE_SHIFT = 48
# Fields of a tuple in a ROWS window, counted from the end of its own words: the next newer one of its partition, its
# status, how many of its partition came before it. Values of the second.
NEWER, ALIVE, ORDINAL = 0, 1, 2
ROWS_FIELDS = 3
DEAD, JOINING, COUNTED = 0, 1, 2  # pushed out; in the window; in the window but able to join nothing
# A partition of a ROWS window: its oldest and newest tuple and their number.
PARTITION_FIELDS = 3
# Columns of Tables.paths.
P_LINK, P_HEADS, P_SPAN, P_MASK, P_FIELDS, P_COUNT = range(6)
PATH_FIELDS = 6
# Columns of Tables.states.
(N_REGION, N_CAPACITY, N_STRIDE, N_COUNT, N_COMPLETE, N_HEADS, N_MASK, N_DIRECTORY, N_DIRECTORY_MASK) = range(9)
N_LIVE, N_COMPONENTS, N_COMPONENT_COUNT, N_KEY, N_KEY_COUNT, N_ROWS, N_ROWS_COUNT = range(9, 16)
N_BIRTH = 16  # where, of a state that is not complete, the sequence number is, stream by stream, that the first tuple
# after its birth got (FOREVER: of a stream that it has not)
N_KEPT_MASK = 17  # where its entries have their mask (0: they keep none)
STATE_FIELDS = 18
# Columns of Tables.steps, a row per instruction. What it does, and with what: a PROBE has the window or state that it
# looks into, and how; a STORE the state, and whether the key must be live; a GATE its row of Feedback.gates; a PAY the
# step whose account it asks, and its gaps.
X_OP, X_TARGET, X_IS_STATE, X_PATH, X_FIELD, X_KEY, X_KEY_COUNT, X_CHECKS, X_CHECK_COUNT = range(9)
X_THETAS, X_THETA_COUNT, X_BINDS, X_BIND_COUNT, X_SCAN, X_PARTS, X_PART_COUNT = range(9, 16)
X_ALWAYS = 2  # of a STORE, in the place of X_IS_STATE
X_GAPS, X_GAP_COUNT = 2, 3  # of a PAY
STEP_FIELDS = 16
# Columns of Tables.work, a row per instruction: tuples that began with it, or were sent to it; the candidates of a
# PROBE; its matches, or what a STORE, a GATE or a PAY has left out. How often any instruction was done follows from
# these: what an instruction lets through is what the next one gets (engine.step_work).
W_ENTERED, W_CANDIDATES, W_MATCHES = range(3)
W_LEFT_OUT = W_MATCHES
WORK_FIELDS = 3
# A part of a state's key, in lists: a stream of the state; its access path by the classes of the key that it carries;
# these classes. What the chains of all parts tell about the key: see windows.vacancy.
PART_STREAM, PART_PATH, PART_CLASSES, PART_CLASS_COUNT = range(4)
PART_WIDTH = 4
OCCUPIED, SETTLED, VOID = range(3)
# Tuples of a chain that are looked at for it, at most.
LOOKED_AT = 8
# Columns of Tables.programs.
# G_KEY: where lists has the fields of the head's tuple that make the key of the first step; G_KEY_COUNT: 0 if none do.
# G_FIRST: its first instruction; G_STRAIGHT: see kernels.straight.
G_FIRST, G_BINDS, G_BIND_COUNT, G_STRAIGHT, G_KEY, G_KEY_COUNT = range(6)
PROGRAM_FIELDS = 6
# Columns of Tables.thetas, their kinds and operators.
H_KIND, H_OPERATOR, H_ABSOLUTE, H_LEFT, H_LEFT_FIELD, H_RIGHT, H_RIGHT_FIELD = range(7)
THETA_FIELDS = 7
COMPARE, SUBTRACT_INTEGERS, SUBTRACT_FLOATS = range(3)
LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, NOT_EQUAL = range(5)

# Values of N_COMPLETE.
# YOUNG: begun after its windows had tuples. It stores whatever comes, and of a key that is not live it lacks what could
#   be made of tuples from before its birth alone.
# GATHERING: young, and no program probes it.
# INCOMPLETE: of a key that is not live it has nothing, and stores nothing.
# PRINTED: young, but taken for live is every key of which there is an entry.
# From GATHERING on, time completes them.
INCOMPLETE, COMPLETE, PRINTED, GATHERING, YOUNG = range(5)

# The status of a key in a directory, in its lowest bits. TOUCHED: live, and probed since cold keys were made absent;
# SUSPENDED: not live, for something of it was withheld. Above these bits: with how many tuples the key was completed.
ABSENT, LIVE, TOUCHED, SUSPENDED = range(4)
STATUS, STATUS_BITS = 3, 2

# What the machine stops for.
FINISHED, OUTPUT_FULL, WINDOW_FULL, STATE_FULL, DIRECTORY_FULL, CROWDED, FEEDBACK_FULL = range(7)
# Frames.registers.
R_FRAME, R_DEPTH, R_STEP, R_PHASE, R_OUTPUTS, R_DEATHS, R_WATERMARK = range(7)
R_AGED = 7  # whether results come with their masks and the ages of their components
REGISTERS = 8
# What the machine does next: take a tuple, look for the next match of the innermost probe, ask which part of a tuple
# has no partner; or the next instruction. BACK ends a program that emits nothing.
FETCH, SCAN, ASK, PROBE, STORE, EMIT, GATE, LAND, SEND, PAY = range(10)
BACK = SCAN
# What is counted beside Tables.work.
C_TUPLES, C_COMPLETIONS, C_FINISHED, C_PURGED = range(4)
COUNTERS = 4


class Tables(NamedTuple):
    """Where everything is, and what the programs do; all int64 but ``float_offsets``."""

    streams: Int64s  # a row per slice of a base window
    paths: Int64s  # a row per access path of a base window
    states: Int64s  # a row per kept state
    steps: Int64s  # a row per instruction of a program
    work: Int64s  # likewise: what was done
    programs: Int64s  # heads by stream, then completions by state, then what fills whole states
    lists: Int64s  # what rows refer to by start and count
    thetas: Int64s
    integer_offsets: Int64s
    float_offsets: Float64s
    reach: Int64s  # [stream, selection] for how long a tuple that passes a selection is of use


class Frames(NamedTuple):
    """The machine's place: frame 0 serves the new tuple, those above it complete keys."""

    registers: Int64s
    program: Int64s  # [frame]
    depth: Int64s  # [frame] where to go on when the frame above returns
    waiting: Int64s  # [frame] and with which PROBE; -1: with none
    state: Int64s  # [frame] the state that the frame completes
    key: Int64s  # [frame] and the key
    birth: Int64s  # [frame] where births are that it takes only older tuples than; -1: it takes all
    step: Int64s  # [frame, depth] the PROBE at that depth
    cursor: Int64s  # [frame, depth] the next candidate
    slice: Int64s  # [frame, depth] the row of the slice that it is in, of a base window
    reach: Int64s  # [frame, depth] how old a candidate may be to be of use to the tuple so far
    probe: Int64s  # [frame, depth] the key looked up
    latest: Int64s  # [frame, depth] the greatest time so far
    expiry: Int64s  # [frame, depth] the least expiry so far
    mask: Int64s  # [frame, depth] the selections that all components so far pass
    bound: Int64s  # [frame, stream] the component of that stream
    code: Int64s  # [frame, class] the value of that attribute class


class Inbox(NamedTuple):
    """New tuples, laid out like the head of a base entry, in time order per stream."""

    tuples: Int64s
    place: Int64s  # [stream, (next word, words end)]
