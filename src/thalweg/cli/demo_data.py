"""The streams of the demo: four joined on one key, whose selectivities swap in the middle.

Ads, clicks, orders and coupons of an online shop. Before noon *regular* customers click, most of them order, and ads
hardly ever reach one of them. At noon a campaign begins: now all ads go to a quarter of the regulars, mostly to those
who click and do not order, and nearly all orders come from other people. Coupons go to anybody.

So before noon ``ads ⋈ clicks`` is nearly empty and ``clicks ⋈ orders`` is large, and after noon it is the other way
round. Windows are long, and the same customers come again and again: what happened before noon still matters after it.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

EVERYBODY = 1_000_000
REGULARS = range(20_000)
BUYERS = range(3_000, 20_000)  # the regulars who order
TARGETS = range(5_000)  # the regulars whom the campaign is about
RATE = 2_000  # tuples per second and stream
STRAYS = 0.02  # the share of the ads before noon, and of the orders after it, that are about regulars
COUPONS = 0.1  # the share of the coupons that go to regulars, all day
WINDOW_US = 20_000_000
NOON_US = 1_714_564_800_000_000  # 2024-05-01 12:00:00

QUERY = """\
SELECT a.user, a.ad, c.page, o.amount, k.coupon
FROM   ads     a [RANGE 20 SECONDS],
       clicks  c [RANGE 20 SECONDS],
       orders  o [RANGE 20 SECONDS],
       coupons k [RANGE 20 SECONDS]
WHERE  a.user = c.user AND c.user = o.user AND o.user = k.user
"""
ALIASES = ("a", "c", "o", "k")
BEFORE_NOON = "((a c) o) k"
AFTER_NOON = "((c o) a) k"


def streams(seconds: int, seed: int = 7) -> dict[str, pa.Table]:
    """``seconds`` of shopping, half of it before noon."""
    random = np.random.default_rng(seed)
    return {
        "ads": _stream(random, seconds, ("ad", 50), (STRAYS, REGULARS), (1.0, TARGETS)),
        "clicks": _stream(random, seconds, ("page", 1_000), (1.0, REGULARS), (1.0, REGULARS)),
        "orders": _stream(random, seconds, ("amount", 500), (1.0, BUYERS), (STRAYS, BUYERS)),
        "coupons": _stream(random, seconds, ("coupon", 90), (COUPONS, REGULARS), (COUPONS, REGULARS)),
    }


def _stream(
    random: np.random.Generator,
    seconds: int,
    payload: tuple[str, int],
    before: tuple[float, range],
    after: tuple[float, range],
) -> pa.Table:
    """A stream of which, before and after noon, these shares are about these customers, and the rest about others."""
    count = seconds * RATE
    times = NOON_US + np.sort(random.integers(-seconds * 500_000, seconds * 500_000, count))
    morning = times < NOON_US
    share = np.where(morning, before[0], after[0])
    low, high = np.where(morning, before[1].start, after[1].start), np.where(morning, before[1].stop, after[1].stop)
    others = random.integers(REGULARS.stop, EVERYBODY, count)
    users = np.where(random.random(count) < share, random.integers(low, high), others)
    name, values = payload
    return pa.table({"user": users, name: random.integers(0, values, count), "ts": pa.array(times, pa.timestamp("us"))})


def until(tables: dict[str, pa.Table], time_us: int) -> dict[str, pa.Table]:
    """The tuples before a moment."""
    return {name: table.slice(0, _count_before(table, time_us)) for name, table in tables.items()}


def cut(tables: dict[str, pa.Table], seconds: int, count: int) -> list[dict[str, pa.Table]]:
    """The tuples of ``count`` equal spans of time, one after the other; noon is a boundary if ``count`` is even."""
    begin, span = NOON_US - seconds * 500_000, seconds * 1_000_000 / count
    times = [round(begin + span * number) for number in range(count)] + [begin + seconds * 1_000_000]
    ends = [{name: _count_before(table, time) for name, table in tables.items()} for time in times]
    return [
        {name: table.slice(start[name], end[name] - start[name]) for name, table in tables.items()}
        for start, end in pairwise(ends)
    ]


def position(tables: dict[str, pa.Table], time_us: int) -> int:
    """How many tuples of all streams come before a moment: where a plan change at it stands."""
    return sum(_count_before(table, time_us) for table in tables.values())


def second(done: int) -> float:
    """How many seconds after noon the streams are, when so many tuples have come since noon; before it, less than 0."""
    return done / (4 * RATE)


def keys_in_windows(tables: dict[str, pa.Table], time_us: int) -> int:
    """How many customers have both clicks and orders in the windows at a moment: the keys of clicks ⋈ orders."""
    before, recent = until(tables, time_us), until(tables, time_us - WINDOW_US)
    users = [before[name].column("user").to_numpy()[recent[name].num_rows :] for name in ("clicks", "orders")]
    return len(np.intersect1d(*users))


def _count_before(table: pa.Table, time_us: int) -> int:
    times: npt.NDArray[np.int64] = table.column("ts").cast(pa.int64()).to_numpy()
    return int(np.searchsorted(times, time_us))
