"""The streams of the demo: four joined on one key, whose selectivities swap in the middle.

Ads, clicks, orders and coupons of an online shop, each tuple about one user out of a hundred thousand.
Before noon a small crowd of *regulars* does all the clicking and ordering, and ads hardly ever
reach one of them. At noon a campaign begins: now ads and clicks are all about another small
crowd, the *curious*, who hardly ever order. Coupons go to anybody, the crowd included.

So before noon ``ads ⋈ clicks`` is nearly empty and ``clicks ⋈ orders`` is large, and after
noon it is the other way round; the result is small throughout.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

CROWD = 250
EVERYBODY = 100_000
RATE = 2_000  # tuples per second and stream
STRAYS = 0.0005  # the share of the ads before noon, and of the orders after it, that are about the crowd
COUPONS = 0.02  # the share of the coupons that go to the crowd, all day
NOON_US = 1_714_564_800_000_000  # 2024-05-01 12:00:00

QUERY = """\
SELECT a.user, a.ad, c.page, o.amount, k.coupon
FROM   ads     a [RANGE 5 SECONDS],
       clicks  c [RANGE 5 SECONDS],
       orders  o [RANGE 5 SECONDS],
       coupons k [RANGE 5 SECONDS]
WHERE  a.user = c.user AND c.user = o.user AND o.user = k.user
"""
ALIASES = ("a", "c", "o", "k")
BEFORE_NOON = "((a c) o) k"
AFTER_NOON = "((c o) a) k"


def streams(seconds: int, seed: int = 7) -> dict[str, pa.Table]:
    """``seconds`` of shopping, half of it before noon."""
    random = np.random.default_rng(seed)
    return {
        "ads": _stream(random, seconds, ("ad", 50), before=STRAYS, after=1.0),
        "clicks": _stream(random, seconds, ("page", 1_000), before=1.0, after=1.0),
        "orders": _stream(random, seconds, ("amount", 500), before=1.0, after=STRAYS),
        "coupons": _stream(random, seconds, ("coupon", 90), before=COUPONS, after=COUPONS),
    }


def _stream(
    random: np.random.Generator, seconds: int, payload: tuple[str, int], *, before: float, after: float
) -> pa.Table:
    """A stream whose tuples are about the crowd of the hour with these probabilities."""
    count = seconds * RATE
    times = NOON_US + np.sort(random.integers(-seconds * 500_000, seconds * 500_000, count))
    morning = times < NOON_US
    crowd = random.integers(0, CROWD, count) + np.where(morning, 0, CROWD)
    anybody = random.integers(2 * CROWD, EVERYBODY, count)
    users = np.where(random.random(count) < np.where(morning, before, after), crowd, anybody)
    name, values = payload
    return pa.table({"user": users, name: random.integers(0, values, count), "ts": pa.array(times, pa.timestamp("us"))})


def until(tables: dict[str, pa.Table], time_us: int) -> dict[str, pa.Table]:
    """The tuples before a moment."""
    return {name: table.slice(0, _count_before(table, time_us)) for name, table in tables.items()}


def slices(tables: dict[str, pa.Table], seconds: int, count: int) -> list[dict[str, pa.Table]]:
    """The tuples of ``count`` equal spans of time, one after the other; noon is a boundary if ``count`` is even."""
    begin, span = NOON_US - seconds * 500_000, seconds * 1_000_000 / count
    cuts = [round(begin + span * number) for number in range(count)] + [begin + seconds * 1_000_000]
    ends = [{name: _count_before(table, cut) for name, table in tables.items()} for cut in cuts]
    return [
        {name: table.slice(start[name], end[name] - start[name]) for name, table in tables.items()}
        for start, end in pairwise(ends)
    ]


def position(tables: dict[str, pa.Table], time_us: int) -> int:
    """How many tuples of all streams come before a moment: where a plan change at it stands."""
    return sum(_count_before(table, time_us) for table in tables.values())


def _count_before(table: pa.Table, time_us: int) -> int:
    times: npt.NDArray[np.int64] = table.column("ts").cast(pa.int64()).to_numpy()
    return int(np.searchsorted(times, time_us))
