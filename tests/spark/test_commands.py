"""Commands: whatever is sent, a query obeys it or says why not, and goes on."""

from __future__ import annotations

import json
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.properties.settings import randomized
from tests.spark.simulated import SimulatedQuery, simulated_spec
from thalweg.cql import Source, bind
from thalweg.errors import OptionError
from thalweg.plan.partitioning import choose_partitioning
from thalweg.policies import Policies
from thalweg.settings import Migration
from thalweg.spark.commands import Command, Sent, for_query, new_command, parse_command

MIGRATIONS: tuple[Migration, ...] = ("jisc", "moving_state", "parallel_track", "cacq", "stairs", "stairs_jisc")
STREAMS = ("a", "b", "c")
JOIN = "SELECT a.k FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW RANGE 5 SECONDS"
COUNT = "SELECT a.k, COUNT(*) AS n FROM a, b, c WHERE a.k = b.k AND b.k = c.k GROUP BY a.k WINDOW RANGE 5 SECONDS"
LONGEST = 400

POISON = (
    '{"at": "1", "command": ["end"]}',
    '{"command": {"command": "end"}}',
    '{"command": "plan"}',
    '{"command": "plan", "plan": ["a", "b", "c"]}',
    '{"command": "plan", "plan": "(a b) c", "states": {}}',
    '{"command": "plan", "plan": "(a b) c", "states": NaN}',
    '{"command": "end", "query": ["query1"]}',
    '{"command": "end", "command": "end"}',
    '{"command": "plan", "plan": "a\\u0000 b"}',
    '{"command": "plan", "plan": "\\ud800 b c"}',
    '{"command": "\\ud800"}',
    '{"\\ud800": 1, "command": "end"}',
    json.dumps({"command": "plan", "plan": "(" * 65_000}),
    json.dumps({"command": "plan", "plan": "a " * 32_000}),
    json.dumps({"command": "plan", "plan": "a b c " * 10_000}),
    json.dumps({"command": "plan", "plan": "x" * 65_000}),
    "[" * 65_000,
    '{"command":' * 6_000,
    '{"command": ' + "[" * 500 + "]" * 500 + "}",
    '{"command": ' + "9" * 60_000 + "}",
    '{"command": 1e999999}',
    "NaN",
    "null",
    "",
    " \n",
    "\x00",
    '"end"',
)
"""Texts that are no command for a join of three streams."""

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
MUTATED = st.fixed_dictionaries(
    {"command": st.sampled_from(["plan", "adapt", "end", "cancel", "Plan"]) | JSON},
    optional={
        "plan": st.sampled_from(["(a b) c", "a (b c)", "a: b c; b: a c; c: a b", "a - b - c", "a b", ""])
        | st.text("abc();:-`\x00 ", max_size=30)
        | JSON,
        "states": st.sampled_from(["all", "auto", "none"]) | JSON,
        "query": st.sampled_from(["query1", "other"]) | JSON,
        "at": JSON,
        "more": JSON,
    },
)
TEXTS = st.text() | JSON.map(json.dumps) | MUTATED.map(json.dumps) | st.sampled_from(POISON)


def sent(*commands: Command | str) -> list[Sent]:
    return [Sent(i, f"{i}.json", c if isinstance(c, str) else json.dumps(c)) for i, c in enumerate(commands)]


def obeyed(*commands: Command | str) -> list[str]:
    """The files of the commands that query1 obeys; none may be refused."""
    taken, refused = for_query(sent(*commands), {"query1"})
    assert refused == []
    return [file for file, _ in taken]


class TestTexts:
    @given(text=TEXTS)
    @randomized(share=600)
    @example(text='{"command": "end"}')
    def test_every_text_is_a_command_or_refused(self, text: str) -> None:
        taken, refused = for_query([Sent(0, "f\ud800\n", text)], {"query1"})
        assert len(taken) + len(refused) <= 1
        for each in refused:
            assert len(each) <= LONGEST
            assert each.isprintable()
            assert each.startswith("f\\ud800\\n: ")

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("", "the file is empty"),
            ("end", "a command is a JSON object, not 'end' (Expecting value"),
            ('["end"]', "a command is a JSON object, not a list"),
            ("{}", "the object names none. The commands are: plan, adapt, budget, enter, leave, end, cancel."),
            ('{"command": "stop"}', "there is no command 'stop'"),
            ('{"command": ["end"]}', "there is no command that is a list"),
            ('{"command": "end", "now": 1}', "command 'end' has no argument 'now'"),
            ('{"command": "end", "command": "adapt"}', "'command' stands there more than once"),
            ('{"command": "plan"}', "needs a plan, as text"),
            ('{"command": "plan", "plan": "a b", "states": 7}', "states is one of"),
            ('{"command": "end", "query": null}', "query is the name or the id of a query, as text, not null"),
            ("[" * 60_000, "nested too deeply"),
        ],
    )
    def test_the_reason_says_what_is_wrong(self, text: str, says: str) -> None:
        with pytest.raises(OptionError) as caught:
            parse_command(text)
        assert says in str(caught.value)

    def test_the_time_of_former_versions_is_ignored(self) -> None:
        assert obeyed({"command": "end", "at": "1"}, {"command": "end", "at": ["no time"]}) == ["0.json", "1.json"]

    def test_arguments_that_are_none_are_left_out(self) -> None:
        assert new_command("plan", plan="a b", states=None) == {"command": "plan", "plan": "a b"}


class TestWhichAreObeyed:
    def test_all_but_those_for_another_query(self) -> None:
        end = {"command": "end"}
        mine, others, everyones = {**end, "query": "query1"}, {**end, "query": "query2"}, end
        assert obeyed(mine, others, everyones) == ["0.json", "2.json"]

    def test_in_the_order_of_their_positions(self) -> None:
        commands = sent(*({"command": "end"} for _ in range(12)))
        random.Random(1).shuffle(commands)
        taken, _ = for_query(commands, {"query1"})
        assert [file for file, _ in taken] == [f"{i}.json" for i in range(12)]

    def test_a_cancel_takes_back_what_was_sent_before_it(self) -> None:
        end, cancel, adapt = ({"command": name} for name in ("end", "cancel", "adapt"))
        assert obeyed(end, cancel) == []
        assert obeyed(end, cancel, adapt) == ["2.json"]
        assert obeyed(end, cancel, adapt, cancel, end) == ["4.json"]

    def test_a_cancel_for_another_query_takes_back_nothing(self) -> None:
        assert obeyed({"command": "end"}, {"command": "cancel", "query": "query2"}) == ["0.json"]

    @pytest.mark.parametrize("before", [[], ['{"command": "end", "query": "query2"}'], ["no command"]])
    def test_a_cancel_of_nothing_is_refused(self, before: list[str]) -> None:
        taken, refused = for_query(sent(*before, {"command": "cancel"}, {"command": "end"}), {"query1"})
        assert [command["command"] for _, command in taken] == ["end"]
        assert "there is nothing to cancel" in refused[-1]
        assert refused[-1].startswith(f"{len(before)}.json: ")


class Running:
    """A small query in process, which is sent a batch of rows at a time."""

    def __init__(self, directory: Path, cql: str = JOIN, migration: Migration = "jisc", buckets: int = 1) -> None:
        schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64())])
        (query,) = bind(cql, {name: Source(schema, "ts") for name in STREAMS})
        self._schema = schema
        partitioning = choose_partitioning(query, buckets)
        spec = simulated_spec(query, partitioning, [0] * len(query.streams), None, Policies(migration))
        self.query = SimulatedQuery(spec, partitioning, random.Random(0), directory, troubled=0.3)
        self._streams = len(query.streams)

    def rows(self, second: int, commands: Sequence[Command | str] = ()) -> list[pa.Table]:
        """Three rows of every stream, which join with one another and with those of the second before."""
        times = [second * 1_000_000 + i for i in range(3)]
        table = pa.table({"ts": times, "k": [1, 2, 2]}).cast(self._schema)
        return self.query.batch([(table, times)] * self._streams, commands)

    def commands(self, *commands: Command | str) -> list[pa.Table]:
        return self.query.batch([None] * self._streams, commands)

    @property
    def last(self) -> dict[str, Any]:
        return dict(self.query.buckets[0].metrics[-1])


def counted(tables: Sequence[pa.Table]) -> Counter[str]:
    return Counter(str(row) for table in tables for row in table.to_pylist())


def answer(cql: str, *, ends: bool) -> Counter[str]:
    """What two batches of rows give without any command, or with one that ends the input."""
    with tempfile.TemporaryDirectory() as directory:
        running = Running(Path(directory), cql)
        tables = running.rows(0) + running.rows(1)
        return counted(tables + (running.commands({"command": "end"}) if ends else []))


class TestResident:
    @pytest.mark.parametrize("cql", [JOIN, COUNT])
    @given(texts=st.lists(TEXTS, min_size=1, max_size=4), with_rows=st.booleans())
    @randomized(share=50)
    @example(texts=list(POISON), with_rows=False)
    def test_no_text_stops_a_query_or_changes_its_answer(self, cql: str, texts: list[str], with_rows: bool) -> None:
        with tempfile.TemporaryDirectory() as directory:
            running = Running(Path(directory), cql)
            tables = running.rows(0)
            tables += running.rows(1, texts) if with_rows else running.commands(*texts)
            has_ended = running.last["ended"]
            assert all(len(each) <= LONGEST and each.isprintable() for each in running.last["refused"])
            if not with_rows:
                tables += running.rows(1)
            if has_ended and not with_rows:
                assert running.last["late"] == {"a": 3, "b": 3, "c": 3}
                return
            tables += running.commands({"command": "end"})
        assert counted(tables) == answer(cql, ends=True)

    def test_each_of_the_poison_is_refused(self, tmp_path: Path) -> None:
        running = Running(tmp_path)
        running.rows(0)
        running.commands(*POISON)
        assert len(running.last["refused"]) == len(POISON)
        assert not running.last["ended"]

    @pytest.mark.parametrize("migration", MIGRATIONS)
    @pytest.mark.parametrize("cql", [JOIN, COUNT])
    def test_after_the_end_commands_and_ends_change_nothing(
        self, tmp_path: Path, cql: str, migration: Migration
    ) -> None:
        running = Running(tmp_path, cql, migration)
        tables = running.rows(0) + running.rows(1) + running.commands({"command": "end"})
        tables += running.commands({"command": "end"})
        for plan in ("(c b) a", "(a b) c"):
            tables += running.commands({"command": "plan", "plan": plan}, {"command": "adapt"}, {"command": "end"})
            tables += running.rows(2)
            assert running.last["late"] == {"a": 3, "b": 3, "c": 3}
            assert running.last["ended"]
        assert counted(tables) == answer(cql, ends=True)

    def test_one_stream_takes_a_plan_too(self, tmp_path: Path) -> None:
        running = Running(tmp_path, "SELECT a.k FROM a WINDOW RANGE 5 SECONDS")
        running.rows(0)
        running.commands({"command": "plan", "plan": "a"}, {"command": "plan", "plan": "a b"})
        assert [text.split(":")[0] for text in running.last["refused"]] == ["1.json"]
        assert len(running.rows(1)[0]) == 3

    def test_the_metrics_say_whether_the_input_has_ended(self, tmp_path: Path) -> None:
        running = Running(tmp_path)
        running.rows(0)
        assert running.last["ended"] is False
        running.commands({"command": "end"}, {"command": "cancel"})
        assert running.last["ended"] is False
        running.commands({"command": "cancel"})
        assert "nothing to cancel" in running.last["refused"][0]
        running.commands({"command": "end", "query": "another"})
        assert running.last["ended"] is False
        running.commands({"command": "end", "query": "query1"})
        assert running.last["ended"] is True
        running.rows(1)
        assert running.last["ended"] is True
