"""Accounts: whether a probe is within the budget (JAQPOT 4).

Design
    Each stream and step has an account. An arriving tuple of the stream feeds all accounts of its program; PAY asks one
    of them for a probe. A probe that is refused ends its partial tuple. Numbers are integers with CHANCE_BITS bits
    behind the point. No clock is read, so the same tuples have the same probes refused.

    An account that runs dry would refuse all of a burst and nothing of what comes slowly. So it spreads what it has:
    a probe is allowed with the *chance* ``credit / spread``, at most 1, and this chance is what it is charged. Credit
    falls towards 0. One probe of 1,024 is allowed beyond it: what never has a chance cannot be estimated.

    Chances become decisions by error diffusion: of every whole unit of chance, exactly one probe is allowed, at a
    random point. Where a unit ends within a probe, the next point is drawn so that the probe has its chance from both
    (Deville's systematic sampling). So what was allowed differs from what was charged by less than 1, and each probe is
    allowed with exactly its chance.

    That makes estimates possible. A result counts for ``1 / (product of the chances on its path)`` results of the full
    answer (Horvitz and Thompson). The sums are folded from the deepest probe up, together with their variance. Of a
    probe with chance q below which the estimate is Y with variance V, they are ``X = Y / q`` and
    ``(1 - q) (X - X')^2 / 2 + V / q``, where X' is that of the probe before it from the same account. Differences of
    neighbours say what one probe for every unit of chance leaves open (Wolter, successive differences).

Invariant
    An account that is fed nothing and has no credit allows nothing. An account without a limit allows everything.
"""

from __future__ import annotations

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
# is spread; tuples that fed it; probes allowed; refused; refused without a chance; of the last step, results. Then of
# the unit of chance that is being spent: how much of it is, and at which point its probe is allowed (SPENT: it was).
(P_FEED, P_CREDIT, P_CAP, P_SPREAD, P_FED, P_ALLOWED, P_REFUSED, P_HOPELESS, P_RESULTS, P_CARRY, P_POINT) = range(11)
ACCOUNT_FIELDS = 11
SPENT = -1
# Accounts.tally: the state of the random numbers, the probes that the present tuple has paid for and that are not
# folded yet, its stream.
A_SEED, A_OPEN, A_STREAM = range(3)
TALLIES = 3
# Accounts.sums: a row for the whole, and one for what is below each probe that is open. Their columns.
Y, V = range(2)
NOBODY = -1.0


class Accounts(NamedTuple):
    """What probes are paid from."""

    table: Int64s  # [stream, step, field]
    latest: Float64s  # [stream, step] the estimate of the probe that was folded last; NOBODY: there was none
    chances: Float64s  # [open probe]
    sums: Float64s  # [1 + open probe, (estimate, variance)]
    tally: Int64s


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


@jit
def fold_all(accounts: Accounts) -> None:
    """Make the first row of the sums say what was found until now."""
    _fold(accounts, 0)


@inlined
def feed(accounts: Accounts, stream: int) -> None:
    """A tuple of this stream has arrived."""
    _fold(accounts, 0)
    accounts.tally[A_STREAM] = stream
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
def pay(accounts: Accounts, stream: int, step: int, depth: int) -> bool:
    """Whether the partial tuple at this depth may make the probe of this step."""
    table, tally = accounts.table, accounts.tally
    _fold(accounts, depth + 1)
    chance = ONE
    if table[stream, step, P_FEED] != UNLIMITED:
        credit = table[stream, step, P_CREDIT]
        chance = min(ONE, credit // table[stream, step, P_SPREAD])
        table[stream, step, P_CREDIT] = credit - chance
        if table[stream, step, P_FEED] > 0:
            chance = max(chance, LEAST)
    if chance < ONE and not (chance > 0 and _is_drawn(table, tally, stream, step, chance)):
        table[stream, step, P_REFUSED] += 1
        table[stream, step, P_HOPELESS] += chance == 0
        return False
    table[stream, step, P_ALLOWED] += 1
    accounts.chances[depth + 1] = chance / ONE
    accounts.sums[depth + 2, Y] = 0.0
    accounts.sums[depth + 2, V] = 0.0
    tally[A_OPEN] = depth + 2
    return True


@inlined
def count_result(accounts: Accounts, stream: int, depth: int) -> None:
    """A result was found behind the probe at this depth."""
    accounts.sums[depth + 1, Y] += 1.0
    last = accounts.table.shape[1] - 1
    if last >= 0:
        accounts.table[stream, last, P_RESULTS] += 1
