"""What triggers take: how prices are measured, told to buckets, and turned into an allowance."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.spark.test_command_source import Query, written
from thalweg.spark.command_files import files_of
from thalweg.spark.command_source import CommandSource
from thalweg.spark.commands import PRICES, Command
from thalweg.spark.price_file import PriceFile
from thalweg.spark.prices import DEFAULT_PRICES, HEADROOM, Prices, Shares
from thalweg.spark.pricing import Pricing

TRUE = Prices(fixed=0.4, row=2e-6, tuple=3e-6, probe=4e-7, partitions=2)


def reports(rows: int, probes: int, partitions: int = 2, prices: Prices = TRUE) -> list[dict[str, Any]]:
    """Of a bucket in each partition, that share rows and probes evenly."""
    return [
        {
            "bucket": each,
            "partition": each,
            "tuples": {"a": rows // partitions},
            "rebuilds": 0,
            "seconds": {
                "decode": prices.tuple / 3 * rows / partitions,
                "probe": (prices.tuple / 3 * rows + prices.probe * probes) / partitions,
                "complete": 0.0,
                "emit": 0.0,
                "log": prices.tuple / 3 * rows / partitions,
                "adapt": 0.0,
                "rebuild": 0.0,
            },
            "spending": {"allowed": probes // partitions, "refused": 0},
        }
        for each in range(partitions)
    ]


def seconds(rows: int, probes: int, prices: Prices = TRUE) -> float:
    return prices.fixed + prices.row * rows + (prices.tuple * rows + prices.probe * probes) / 2


def seen(pricing: Pricing, rows: int, probes: int) -> Prices | None:
    return pricing.see(seconds(rows, probes), reports(rows, probes))


def test_prices_of_varied_triggers_are_found() -> None:
    rng, pricing = random.Random(1), Pricing()
    for _ in range(40):
        rows = rng.randrange(10_000, 400_000)
        seen(pricing, rows, rng.randrange(0, 20) * rows)
    found = pricing.prices
    for name in ("fixed", "row", "tuple", "probe"):
        assert getattr(found, name) == pytest.approx(getattr(TRUE, name), rel=0.05), name
    assert found.partitions == 2


def test_an_allowance_fills_the_target_and_no_more() -> None:
    """Whatever the rows: the trigger takes what it was planned to take."""
    pricing = Pricing()
    for rows in 3 * (20_000, 50_000, 100_000, 30_000, 60_000, 10_000, 80_000):
        seen(pricing, rows, 10 * rows)
    for rows in (50_000, 200_000, 400_000):
        probes = sum(pricing.prices.probes(2.0, bucket, 2, rows // 2) for bucket in range(2))
        assert seconds(rows, int(probes)) == pytest.approx(HEADROOM * 2.0, rel=0.1)


def test_triggers_that_say_nothing_are_left_out() -> None:
    pricing = Pricing()
    assert pricing.see(9.0, reports(1_000, 1_000)) is None  # the first ones start workers
    assert pricing.see(9.0, reports(1_000, 1_000)) is None
    assert pricing.see(9.0, reports(0, 0)) is None
    assert pricing.see(9.0, [{**each, "rebuilds": 1} for each in reports(1_000, 1_000)]) is None
    assert pricing.prices == DEFAULT_PRICES
    assert pricing.see(1.0, reports(1_000, 1_000)) is not None


def test_buckets_of_one_partition_share_its_time() -> None:
    """As they have shared its work, and no bucket is left with nothing."""
    even = Prices(0.5, 1e-6, 1e-6, 1e-6, partitions=2)
    alone = even.probes(2.0, 0, 2, 1_000)
    assert even.probes(2.0, 0, 4, 500) == pytest.approx(alone / 2)
    skewed = Prices(0.5, 1e-6, 1e-6, 1e-6, 1, {0: Shares(0.9, 0.5, 0.5), 1: Shares(0.0, 0.5, 0.5)})
    assert skewed.probes(2.0, 0, 2, 1_000) > 5 * skewed.probes(2.0, 1, 2, 1_000) > 0


def test_a_burst_leaves_less_for_probes_before_the_first_of_them() -> None:
    prices = Prices(0.5, 1e-6, 1e-6, 1e-6, partitions=1)
    calm, burst = (prices.probes(2.0, 0, 1, rows) for rows in (100_000, 400_000))
    assert calm - burst == pytest.approx(2 * 300_000)


@pytest.fixture
def query(tmp_path: Path) -> Query:
    files = files_of(tmp_path)
    files.prepare()
    query = Query(files)
    query._source = CommandSource(
        {"directory": files.address, "before": "[]", "most": "100", "prices": str(tmp_path / "prices.json")}
    )
    query.restart()
    query.log = [written(query.reader.initialOffset())]
    return query


def told(query: Query) -> list[Prices | None]:
    """The prices that come with the last batch."""
    parts = query.reader.partitions(query.log[-2], query.log[-1])
    texts = [text for part in parts for (text,) in query.reader.read(part)]
    return [Prices.of_text(text.removeprefix(PRICES)) for text in texts if text.startswith(PRICES)]


def plan(query: Query) -> bool:
    """Plan a batch; whether there is cause for one."""
    end = written(query.reader.latestOffset(query.log[-1], query.reader.getDefaultReadLimit()))
    if end == query.log[-1]:
        return False
    query.log.append(end)
    return True


def test_prices_come_with_a_batch_and_stay_in_its_offset(query: Query, tmp_path: Path) -> None:
    file = PriceFile(str(tmp_path / "prices.json"))
    assert not plan(query)  # nothing is known yet
    file.write(TRUE)
    assert plan(query)
    assert told(query) == [TRUE]
    file.remove()
    assert told(query) == [TRUE]  # of a batch that is run again
    query.restart()
    plan(query)  # a run that goes on has a batch
    assert told(query) == []  # buckets know them
    assert not plan(query)


def test_prices_that_differ_little_cause_no_batch(query: Query, tmp_path: Path) -> None:
    file = PriceFile(str(tmp_path / "prices.json"))
    file.write(TRUE)
    plan(query)
    file.write(Prices(**{**vars_of(TRUE), "probe": TRUE.probe * 1.05}))
    assert not plan(query)
    other = Prices(**{**vars_of(TRUE), "probe": TRUE.probe * 1.5})
    file.write(other)
    assert plan(query)
    assert told(query) == [other]


def test_prices_come_beside_commands(query: Query, tmp_path: Path) -> None:
    command: Command = {"command": "budget", "budget": "60%"}
    files_of(tmp_path).send(command)
    PriceFile(str(tmp_path / "prices.json")).write(TRUE)
    assert plan(query)
    assert told(query) == [TRUE]
    assert [json.loads(each[1]) for each in json.loads(query.log[-1]["commands"])] == [command]


def vars_of(prices: Prices) -> dict[str, Any]:
    return {name: getattr(prices, name) for name in ("fixed", "row", "tuple", "probe", "partitions", "buckets")}
