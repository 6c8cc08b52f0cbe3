"""Accounts: whether a probe is within the budget (JAQPOT 4).

Design
    Each stream and step has an account. An arriving tuple of the stream feeds all accounts of its program; PAY asks one
    of them for a probe. A probe that is refused ends its partial tuple. Numbers are integers with CHANCE_BITS bits
    behind the point. No clock is read, so the same tuples have the same probes refused.

    An account that runs dry would refuse all of a burst and nothing of what comes slowly. So it spreads what it has:
    a probe is allowed with the *chance* ``credit / spread``, at most 1, and this chance is what it is charged. Credit
    falls towards 0. One probe of 1,024 is allowed beyond it: what never has a chance cannot be estimated.

    Readers may weigh differently. The chance of a probe is multiplied by the weight of the weightiest reader that may
    get something of it, where the lightest of all weighs 1. Credit settles where charges are what is fed.

    Chances become decisions by error diffusion: of every whole unit of chance, exactly one probe is allowed, at a
    random point. Where a unit ends within a probe, the next point is drawn so that the probe has its chance from both
    (Deville's systematic sampling). So what was allowed differs from what was charged by less than 1, and each probe is
    allowed with exactly its chance.

    For that, chances must not depend on what was drawn before from the same account. So what is charged is not what
    happened to be spent: a probe that may have to complete a key is charged what that took on average, before.

    That makes estimates possible. A result counts for ``1 / (product of the chances on its path)`` results of the full
    answer (Horvitz and Thompson). The sums are folded from the deepest probe up, together with their variance. Of a
    probe with chance q below which the estimate is Y with variance V, they are ``X = Y / q`` and
    ``(1 - q) (X - X')^2 / 2 + V / q``, where X' is that of the probe before it from the same account. Differences of
    neighbours say what one probe for every unit of chance leaves open (Wolter, successive differences).

    What happens to a tuple before its first probe is drawn likewise. It goes one of a few *ways*. A way says which
    parts of each window the tuple looks at: all, or those by age that match most (GrubJoin). Its probes are charged as
    the part of a probe that they are. A result counts for one over the share of the tuples whose way would have found
    it. Where the ways of a stream do not cover all its tuples, the others are *shed*: they enter no window.

Invariant
    An account that is fed nothing and has no credit allows nothing. An account without a limit allows everything.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from thalweg.engine.kernels.compiled import Float64s, Int64s, inlined, jit

CHANCE_BITS = 30
ONE = 1 << CHANCE_BITS
"""A whole probe, and the chance of what is sure to be allowed."""
UNLIMITED = -1
"""A feed of an account that allows everything."""
LEAST = ONE >> 10
"""The chance that a probe has in any case, if its account is fed at all: a burst may be as large as it likes."""

# Columns of Accounts.table: what a tuple feeds; what is there; the most there can be; over how many probes a shortage
# is spread; tuples that fed it; probes allowed; refused; refused without a chance; results of its matches. Then of
# the unit of chance that is being spent: how much of it is, and at which point its probe is allowed (SPENT: it was).
(P_FEED, P_CREDIT, P_CAP, P_SPREAD, P_FED, P_ALLOWED, P_REFUSED, P_HOPELESS, P_RESULTS, P_CARRY, P_POINT) = range(11)
P_PAID = 11  # what was charged at least, in 1/PAID of a probe: a probe of a part counts as that part
P_COMPLETING = 12  # probes that completed keys which this step asked for
ACCOUNT_FIELDS = 13
SPENT = -1
PAID_BITS = 20
PAID = 1 << PAID_BITS
# Accounts.tally: the state of the random numbers, the probes that the present tuple has paid for and that are not
# folded yet, its stream, its way; how many ways there are (1: everybody looks everywhere); whether all tuples come in
# total order.
A_SEED, A_OPEN, A_STREAM, A_WAY, A_WAYS, A_IN_ORDER = range(6)
A_NUMBER = 6  # how many tuples have fed accounts
A_WEIGHED = 7  # whether some readers weigh more than others
TALLIES = 8
# Accounts.sums: a row for the present tuple, and one for what is below each probe that is open. Columns: the estimate,
# its variance, and of results that the present tuple's way decides about, the standard deviation.
Y, V, D = range(3)
NOBODY = -1.0
# Accounts.draws: where the points of a stream's tuples begin; how many tuples have come; how many of them were shed.
D_POINT, D_COME, D_SHED = range(3)
GOLDEN = 663608941
"""The golden section of ONE: so far is each tuple's point from the one before, so that any few of them lie evenly."""
ALL_WAYS = -1
MOST_COST = 1 << 12
"""Probes that one probe costs, at most."""


class Accounts(NamedTuple):
    """What probes are paid from."""

    table: Int64s  # [stream, step, field]
    latest: Float64s  # [stream, step] the estimate of the probe that was folded last; NOBODY: there was none
    chances: Float64s  # [open probe]
    sums: Float64s  # [1 + open probe, (estimate, variance, deviation)] of the present tuple
    totals: Float64s  # [stream, (estimate, variance)] of the tuples before it
    tally: Int64s
    draws: Int64s  # [stream, field]
    ways: Int64s  # [stream, way] up to which point tuples go this way; beyond the last one they are shed
    widths: Int64s  # [stream] the time that a part of its window takes; 0: the window is one part
    parts: Int64s  # [stream, step, part] the ways that look at this part of what the step probes, as bits
    looking: Int64s  # [stream, step] the ways that look at any part of it
    costs: Int64s  # [stream, step, way] what a probe costs: the share of its target that is looked at, or more than
    # ONE if keys have to be completed for it
    oldest: Int64s  # [stream, step, way] the last part of it that is
    bits: Int64s  # [1 + open probe] the ways that would have come so far; of the first, always ALL_WAYS
    place: Int64s  # [open probe] the part that its latest match lies in
    weights: Float64s  # [selection] how much a probe for those who select so counts, at least 1
    looked: Float64s  # [stream, step] probes, as if all tuples went all ways
    found: Float64s  # [stream, step, part] their matches likewise


@inlined
def _drawn(tally: Int64s) -> int:
    """A random number from 0 to ONE."""
    drawn = (tally[A_SEED] * 1103515245 + 12345) & 0x7FFFFFFF
    tally[A_SEED] = drawn
    return drawn >> (31 - CHANCE_BITS)


@inlined
def _fold(accounts: Accounts, level: int) -> None:
    """Close the probes from ``level`` on: nothing more comes of them."""
    sums, latest, tally = accounts.sums, accounts.latest, accounts.tally
    stream = tally[A_STREAM]
    while tally[A_OPEN] > level:
        tally[A_OPEN] -= 1
        step = tally[A_OPEN]
        chance = accounts.chances[step]
        estimate = sums[step + 1, Y] / chance
        sums[step, Y] += estimate
        sums[step, V] += sums[step + 1, V] / chance
        if chance < 1.0:
            before = latest[stream, step]
            squared = estimate * estimate if before == NOBODY else (estimate - before) ** 2 / 2
            sums[step, V] += (1.0 - chance) * squared
            latest[stream, step] = estimate
        sums[step, D] += sums[step + 1, D] / chance
    if level == 0:
        accounts.totals[stream, Y] += sums[0, Y]
        accounts.totals[stream, V] += sums[0, V] + sums[0, D] ** 2
        sums[0, Y] = sums[0, V] = sums[0, D] = 0.0


@jit
def fold_all(accounts: Accounts) -> None:
    """Make the totals say what was found until now."""
    _fold(accounts, 0)


@inlined
def _way_of(accounts: Accounts, stream: int) -> int:
    """The way of the next tuple of a stream; the number of ways: it is shed. To ask twice changes nothing."""
    point = (accounts.draws[stream, D_POINT] + accounts.draws[stream, D_COME] * GOLDEN) & (ONE - 1)
    way = 0
    while way < accounts.tally[A_WAYS] and point >= accounts.ways[stream, way]:
        way += 1
    return way


@inlined
def admits(accounts: Accounts, stream: int) -> bool:
    """Whether the next tuple of this stream enters its window."""
    return _way_of(accounts, stream) < accounts.tally[A_WAYS]


@inlined
def shed(accounts: Accounts, stream: int) -> None:
    """A tuple of this stream has come that was not admitted."""
    accounts.draws[stream, D_COME] += 1
    accounts.draws[stream, D_SHED] += 1


@inlined
def share_of(accounts: Accounts, stream: int, bits: int) -> float:
    """The share of the tuples of a stream that go one of these ways."""
    if bits == ALL_WAYS or accounts.tally[A_WAYS] == 1:
        return 1.0
    share, before = 0, 0
    for way in range(accounts.tally[A_WAYS]):
        if (bits >> way) & 1:
            share += accounts.ways[stream, way] - before
        before = accounts.ways[stream, way]
    return share / ONE


@inlined
def part_at(accounts: Accounts, age: int, width: int) -> int:
    """The part of a window in which tuples of this age lie."""
    return min(max(age, 0) // width, accounts.parts.shape[2] - 1)


@inlined
def looks_at(accounts: Accounts, stream: int, step: int, part: int) -> bool:
    """Whether the present tuple's way looks at this part of what its step probes."""
    return bool((accounts.parts[stream, step, part] >> accounts.tally[A_WAY]) & 1)


@inlined
def is_beyond(accounts: Accounts, stream: int, step: int, part: int) -> bool:
    """Whether the present tuple's way looks at nothing that is older, and all that follows is."""
    tally = accounts.tally
    return bool(tally[A_IN_ORDER] and part > accounts.oldest[stream, step, tally[A_WAY]])


@inlined
def feed(accounts: Accounts, stream: int) -> None:
    """A tuple of this stream has arrived."""
    _fold(accounts, 0)
    accounts.tally[A_STREAM] = stream
    accounts.tally[A_WAY] = _way_of(accounts, stream)
    accounts.tally[A_NUMBER] += 1
    accounts.draws[stream, D_COME] += 1
    table = accounts.table
    for step in range(table.shape[1]):
        table[stream, step, P_FED] += 1
        if table[stream, step, P_FEED] > 0:
            credit = table[stream, step, P_CREDIT] + table[stream, step, P_FEED]
            table[stream, step, P_CREDIT] = min(credit, table[stream, step, P_CAP])


@inlined
def _is_drawn(table: Int64s, tally: Int64s, stream: int, step: int, chance: int) -> bool:
    """Spend a chance below ONE; whether it was lucky."""
    carry, point = table[stream, step, P_CARRY], table[stream, step, P_POINT]
    ahead = carry + chance
    if ahead < ONE:
        table[stream, step, P_CARRY] = ahead
        return bool(carry <= point < ahead)
    # A unit ends within this probe: ``over`` of its chance is part of the next one.
    over, is_lucky = ahead - ONE, bool(carry <= point)
    point = over + ((_drawn(tally) * (ONE - over)) >> CHANCE_BITS)
    if not is_lucky and _drawn(tally) * carry < over << CHANCE_BITS:
        is_lucky, point = True, SPENT
    table[stream, step, P_CARRY] = over
    table[stream, step, P_POINT] = point
    return is_lucky


@inlined
def _of(chance: int, cost: int) -> int:
    """The charge for a probe of this chance and cost, which is at most MOST_COST."""
    return ((chance >> 10) * (cost >> 10)) >> (CHANCE_BITS - 20)


@inlined
def _weight_of(accounts: Accounts, mask: int) -> float:
    """That of the weightiest of those who may get what the partial tuple becomes."""
    weight = 1.0
    for bit in range(accounts.weights.shape[0]):
        if (mask >> bit) & 1:
            weight = max(weight, accounts.weights[bit])
    return weight


@inlined
def pay(accounts: Accounts, stream: int, step: int, depth: int, mask: int) -> bool:
    """Whether the partial tuple at this depth, which passes these selections, may make the probe of this step."""
    table, tally = accounts.table, accounts.tally
    _fold(accounts, depth + 1)
    chance = ONE
    cost = accounts.costs[stream, step, tally[A_WAY]]
    if cost == 0:  # this way looks at nothing here
        table[stream, step, P_REFUSED] += 1
        return False
    if table[stream, step, P_FEED] != UNLIMITED:
        credit = table[stream, step, P_CREDIT]
        chance = max(0, min(ONE, credit // table[stream, step, P_SPREAD]))
        if chance < ONE and accounts.tally[A_WEIGHED]:
            chance = int(min(float(ONE), chance * _weight_of(accounts, mask)))
        table[stream, step, P_CREDIT] = credit - (chance if cost == ONE else _of(chance, cost))
        if table[stream, step, P_FEED] > 0:
            chance = max(chance, LEAST)
    if chance < ONE and not (chance > 0 and _is_drawn(table, tally, stream, step, chance)):
        table[stream, step, P_REFUSED] += 1
        table[stream, step, P_HOPELESS] += chance == 0
        return False
    table[stream, step, P_ALLOWED] += 1
    table[stream, step, P_PAID] += min(cost, ONE) >> (CHANCE_BITS - PAID_BITS)
    if tally[A_WAYS] > 1:
        looking = accounts.bits[depth + 1] & accounts.looking[stream, step]
        accounts.looked[stream, step] += 1.0 / share_of(accounts, stream, looking)
    accounts.chances[depth + 1] = chance / ONE
    accounts.sums[depth + 2, Y] = 0.0
    accounts.sums[depth + 2, V] = 0.0
    accounts.sums[depth + 2, D] = 0.0
    tally[A_OPEN] = depth + 2
    return True


@inlined
def count_completing(accounts: Accounts, stream: int, step: int) -> None:
    """A probe is made to complete the key that the present tuple's probe of this step asks for."""
    accounts.table[stream, step, P_COMPLETING] += 1


@inlined
def count_match(accounts: Accounts, stream: int, depth: int) -> None:
    """The probe at this depth has found a match."""
    part = accounts.place[depth]
    bits = accounts.bits[depth] & accounts.parts[stream, depth, part]
    accounts.bits[depth + 1] = bits
    accounts.found[stream, depth, part] += 1.0 / share_of(accounts, stream, bits)


@inlined
def count_result(accounts: Accounts, stream: int, depth: int) -> float:
    """A result was found behind the probe at this depth; how many results of the full answer it stands for."""
    score = 1.0
    if accounts.tally[A_WAYS] > 1 and depth >= 0:
        share = share_of(accounts, stream, accounts.bits[depth + 1])
        score = 1.0 / share
        accounts.sums[depth + 1, D] += math.sqrt(1.0 - share) / share
    accounts.sums[depth + 1, Y] += score
    if depth >= 0:
        accounts.table[stream, depth, P_RESULTS] += 1
    for each in range(depth + 1):
        score /= accounts.chances[each]
    return score
