"""The stream of commands: what its offsets hold, which files are taken, and when."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

from tests.properties.settings import randomized
from tests.spark.test_commands import POISON
from thalweg.cql import Source, bind
from thalweg.errors import CheckpointError, InputError, OptionError
from thalweg.plan.partitioning import choose_partitioning
from thalweg.spark.carriage import Kept, carriage
from thalweg.spark.command_files import MOST_BYTES, CommandFiles, files_of
from thalweg.spark.command_source import QUERY, CommandReader, CommandSource, Offset, has_ended
from thalweg.spark.commands import STARTED, Command, Sent, for_query
from thalweg.spark.description import Description, description

ADAPT: Command = {"command": "adapt"}
END: Command = {"command": "end"}
ALL = ReadAllAvailable()


@pytest.fixture
def files(tmp_path: Path) -> CommandFiles:
    files = files_of(tmp_path)
    files.prepare()
    return files


class Query:
    """Spark's part: asks for offsets, writes them down, and hands them back as it read them."""

    def __init__(self, files: CommandFiles, *, most: int = 100) -> None:
        source = CommandSource({"directory": files.address, "before": json.dumps(files.names()), "most": str(most)})
        self.reader = self._reader(source)
        self._source = source
        self.log: list[Offset] = [written(self.reader.initialOffset())]

    def _reader(self, source: CommandSource) -> CommandReader:
        reader = source.streamReader(None)  # type: ignore[arg-type]
        assert isinstance(reader, CommandReader)
        return reader

    def restart(self) -> None:
        self.reader = self._reader(self._source)

    def batch(self, limit: Any = None) -> list[Sent] | None:
        """The commands of the next batch; None: there is no cause for one."""
        end = written(self.reader.latestOffset(self.log[-1], limit or self.reader.getDefaultReadLimit()))
        if end == self.log[-1]:
            return None
        self.log.append(end)
        return self.again(len(self.log) - 1)

    def again(self, number: int) -> list[Sent]:
        """The commands of a batch that ran before, or began to."""
        parts = self.reader.partitions(self.log[number - 1], self.log[number])
        texts = [text for part in parts for (text,) in self.reader.read(part)]
        return sorted(Sent.from_json(text) for text in texts if text != STARTED)

    def names(self) -> list[str] | None:
        """The files of the next batch."""
        batch = self.batch()
        return None if batch is None else [each.file for each in batch]


def written(offset: Offset) -> Offset:
    """An offset as Spark has it; it must come through unchanged, and be a line of text."""
    text = json.dumps(offset)
    assert "\n" not in text
    text.encode("ascii")
    assert all(isinstance(value, str | int) for value in offset.values())
    read: Offset = json.loads(text)
    assert json.dumps(read) == text
    return read


def put(files: CommandFiles, name: str, body: str | bytes) -> None:
    Path(files.address, name).write_bytes(body.encode() if isinstance(body, str) else body)


class TestBatches:
    def test_a_batch_holds_the_commands_that_are_new(self, files: CommandFiles) -> None:
        query = Query(files)
        assert query.batch() is None
        first = files.send(ADAPT)
        assert query.names() == [first]
        assert query.batch() is None
        second, third = files.send(ADAPT), files.send({"command": "adapt"})
        taken = query.batch()
        assert taken == [
            Sent(0, second, '{"command": "adapt"}\n'),
            Sent(1, third, '{"command": "adapt"}\n'),
        ]
        assert query.batch() is None

    def test_a_batch_that_runs_again_needs_no_file(self, files: CommandFiles) -> None:
        query = Query(files)
        files.send({"command": "adapt"})
        taken = query.batch()
        shutil.rmtree(files.address)
        query.restart()
        assert query.again(1) == taken
        assert taken
        assert [query.batch(), query.batch()] == [[], None]

    def test_a_file_that_is_written_again_is_not_taken_again(self, files: CommandFiles) -> None:
        query = Query(files)
        name = files.send(ADAPT)
        assert query.names() == [name]
        put(files, name, '{"command": "adapt"}')
        assert query.batch() is None

    def test_an_empty_range_has_no_partition(self, files: CommandFiles) -> None:
        query = Query(files)
        files.send(ADAPT)
        query.batch()
        assert query.reader.partitions(query.log[-1], query.log[-1]) == []

    def test_what_was_sent_while_the_query_was_down_is_taken(self, files: CommandFiles) -> None:
        query = Query(files)
        files.send(ADAPT)
        query.batch()
        later = files.send({"command": "adapt"})
        query.restart()
        assert query.names() == [later]

    def test_names_that_have_left_are_forgotten(self, files: CommandFiles) -> None:
        query = Query(files)
        gone = files.send(ADAPT)
        query.batch()
        Path(files.address, gone).unlink()
        new = files.send(ADAPT)
        assert query.names() == [new]
        assert json.loads(query.log[-1]["known"]) == [new]

    def test_a_batch_takes_so_many_and_leaves_the_rest_to_the_next(self, files: CommandFiles) -> None:
        query = Query(files, most=2)
        names = [files.send(ADAPT) for _ in range(5)]
        assert query.names() == names[:2]
        assert query.names() == names[2:4]
        assert query.names() == names[4:]
        assert query.batch() is None

    def test_a_directory_of_many_files_makes_no_large_offset(
        self, files: CommandFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And is not listed all the time; offsets of before names were compressed are read as they are."""
        names = [f"{number:012d}-{os.urandom(4).hex()}.json" for number in range(1, 20_001)]
        present = list(names)
        looks: list[float] = []
        monkeypatch.setattr(CommandFiles, "names", lambda _: looks.append(0.0) or list(present))
        monkeypatch.setattr(CommandFiles, "read", lambda _, name: (f'{{"command": "{name}"}}', None))
        now = [0.0]
        monkeypatch.setattr("thalweg.spark.command_source.time.monotonic", lambda: now[0])
        query = Query(files)
        assert [each.file for each in query.batch() or []] == ["control"]  # they were there before
        assert len(json.dumps(query.log[-1])) < 12 * len(names)  # each has 26 characters
        present.append(f"{20_001:012d}-00000000.json")
        before = len(looks)
        assert [query.batch(), len(looks) - before] == [None, 0]
        now[0] += 1
        assert query.names() == present[-1:]
        plain = {**query.log[-1], "known": json.dumps(present)}
        query.log.append(plain)
        present[:5000] = []
        present.append(f"{1:012d}-00000000.json")  # the first one again: the directory was cleared
        now[0] += 1
        assert query.names() == present[-1:]

    def test_a_trigger_of_one_batch_takes_all(self, files: CommandFiles) -> None:
        query = Query(files, most=2)
        names = [files.send(ADAPT) for _ in range(5)]
        assert [each.file for each in query.batch(ALL) or []] == names

    def test_a_run_that_takes_what_is_available_takes_no_more(self, files: CommandFiles) -> None:
        query = Query(files, most=1)
        names = [files.send(ADAPT) for _ in range(2)]
        query.reader.prepareForTriggerAvailableNow()
        later = files.send(ADAPT)
        assert [query.names(), query.names(), query.names()] == [names[:1], names[1:], None]
        query.restart()
        query.reader.prepareForTriggerAvailableNow()
        assert [query.names(), query.names()] == [[later], None]

    def test_a_directory_that_is_not_there_has_no_commands(self, files: CommandFiles) -> None:
        query = Query(files)
        shutil.rmtree(files.address)
        assert query.batch() is None

    def test_an_offset_of_another_source_is_refused(self, files: CommandFiles) -> None:
        with pytest.raises(CheckpointError, match="Start with a new checkpoint directory"):
            Query(files).reader.latestOffset({"logOffset": 3}, ALL)


class TestBefore:
    def test_one_refusal_tells_of_the_commands_before_the_query(self, files: CommandFiles) -> None:
        names = [files.send(ADAPT) for _ in range(5)]
        query = Query(files)
        new = files.send({"command": "adapt"})
        batch = query.batch()
        assert batch is not None
        taken, refused = for_query(batch, {"query1"})
        assert [file for file, _ in taken] == [new]
        assert len(refused) == 1
        assert "5 commands were there before this query" in refused[0]
        assert f"{', '.join(names[:3])} and 2 more" in refused[0]
        assert query.batch() is None

    def test_it_is_told_even_if_no_command_comes(self, files: CommandFiles) -> None:
        name = files.send(ADAPT)
        query = Query(files)
        batch = query.batch()
        assert batch is not None
        taken, refused = for_query(batch, {"query1"})
        assert taken == []
        assert f"the command {name} was there before this query" in refused[0]
        assert query.batch() is None
        query.restart()
        assert [query.batch(), query.batch()] == [[], None]

    def test_commands_that_come_before_the_first_batch_are_obeyed(self, files: CommandFiles) -> None:
        """A query may be started, and stopped, without a batch: there is no offset then."""
        query = Query(files)
        new = files.send(ADAPT)
        query.restart()
        assert written(query.reader.initialOffset()) == query.log[0]
        assert query.names() == [new]


class TestFiles:
    def test_names_are_in_the_order_of_sending(self, files: CommandFiles) -> None:
        put(files, "by hand", "x")
        put(files, f"{'9' * 20}-12345678.json", "x")  # as former versions named them
        names = [files.send(ADAPT) for _ in range(11)]
        assert [name[:13] for name in names] == [f"{i:012d}-" for i in range(1, 12)]
        assert files.names() == [*names, f"{'9' * 20}-12345678.json", "by hand"]

    def test_hidden_files_and_directories_are_no_commands(self, files: CommandFiles) -> None:
        put(files, ".hidden.json", "x")
        put(files, "_SUCCESS", "")
        Path(files.address, "directory.json").mkdir()
        os.mkfifo(Path(files.address, "pipe.json"))
        assert files.names() == []

    @pytest.mark.parametrize(
        ("body", "says"),
        [
            (b"\xff\xfe", "not UTF-8 text: see byte 1"),
            (b"x" * (MOST_BYTES + 1), "more than 65,536 bytes"),
            (b"", "the file is empty"),
            (b"\x1f\x8b\x08" + bytes(20), "not UTF-8"),
        ],
    )
    def test_a_file_that_is_no_text_is_refused_by_name(self, files: CommandFiles, body: bytes, says: str) -> None:
        query = Query(files)
        put(files, "poison.json.gz", body)
        _, refused = for_query(query.batch() or [], {"query1"})
        assert len(refused) == 1
        assert refused[0].startswith("poison.json.gz: ")
        assert says in refused[0]

    def test_a_mark_of_the_byte_order_is_no_harm(self, files: CommandFiles) -> None:
        query = Query(files)
        put(files, "x", b"\xef\xbb\xbf" + json.dumps(ADAPT).encode())
        assert for_query(query.batch() or [], {"query1"}) == ([("x", ADAPT)], [])

    def test_a_name_that_is_no_text_is_refused(self, files: CommandFiles) -> None:
        query = Query(files)
        Path(os.fsdecode(os.fsencode(files.address) + b"/odd\xff.json")).write_text(json.dumps(ADAPT))
        taken, refused = for_query(query.batch() or [], {"query1"})
        assert taken == []
        assert refused == ["odd\\udcff.json: its name is not UTF-8 text. Rename the file."]
        assert query.batch() is None

    def test_a_file_that_cannot_be_read_is_refused(self, files: CommandFiles, monkeypatch: pytest.MonkeyPatch) -> None:
        query = Query(files)
        name = files.send(ADAPT)
        target = Path(files.address, name)
        monkeypatch.setattr(CommandFiles, "names", lambda _: [name])
        target.unlink()
        assert query.batch() is None  # taken back in the meantime
        target.mkdir()
        _, refused = for_query(query.batch() or [], {"query1"})
        assert refused[0].startswith(f"{name}: the file cannot be read: ")

    def test_a_directory_that_cannot_be_listed_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "control").write_text("")
        with pytest.raises(InputError, match="cannot look for commands in"):
            files_of(tmp_path).names()

    def test_a_command_that_is_too_long_is_not_sent(self, files: CommandFiles) -> None:
        with pytest.raises(OptionError, match=r"command 'plan' has 65,5.* and may have 65,536"):
            files.send({"command": "plan", "plan": "x" * MOST_BYTES})
        assert files.names() == []

    def test_an_address_that_arrow_understands_will_do(self, tmp_path: Path) -> None:
        files = files_of(f"{tmp_path.as_uri()}/new%20place/")
        files.prepare()
        query = Query(files)
        name = files.send(ADAPT)
        assert query.names() == [name]
        assert files_of(tmp_path / "new place").names() == [name]

    def test_an_address_may_have_options(self) -> None:
        files = files_of("s3://bucket/app?region=eu-west-1&scheme=http")
        assert files.address == "s3://bucket/app/control?region=eu-west-1&scheme=http"
        assert not files.is_local

    @pytest.mark.parametrize("address", ["nosuch://x/y", "s3://"])
    def test_an_address_that_it_does_not_is_refused(self, address: str) -> None:
        with pytest.raises(OptionError, match="Give a path, or an address such as s3://bucket/folder"):
            files_of(address)

    def test_a_directory_elsewhere_is_not_looked_at_all_the_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        files = files_of("mock:///app")
        files.prepare()
        query = Query(files)
        clock = [100.0]
        monkeypatch.setattr("time.monotonic", lambda: clock[0])
        assert query.batch() is None
        name = files.send(ADAPT)
        assert query.batch() is None
        clock[0] += 1
        assert query.names() == [name]


NAMES = st.text(st.characters(exclude_characters="/\x00", codec="utf-8"), min_size=1, max_size=20).filter(
    lambda name: name not in (".", "..")
)


@given(bodies=st.dictionaries(NAMES, st.binary() | st.text().map(str.encode) | st.sampled_from(POISON).map(str.encode)))
@settings(randomized(share=60), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_whatever_files_hold_each_is_taken_once(files: CommandFiles, bodies: dict[str, bytes]) -> None:
    shutil.rmtree(files.address)
    files.prepare()
    query = Query(files, most=2)
    for name, body in bodies.items():
        put(files, name, body)
    taken: list[str] = []
    while (batch := query.batch()) is not None:
        taken += [each.file for each in batch]
        for_query(batch, {"query1"})
    assert sorted(taken) == sorted(name for name in bodies if name[0] not in "._")
    assert isinstance(query.reader.getDefaultReadLimit(), ReadMaxFiles)


class TestStarts:
    """A run says when it begins, the first one if streams may be idle; a batch that is run again says the same."""

    def reader(self, files: CommandFiles, query: str = '{"a": 1}') -> CommandReader:
        return CommandReader(files, [], query=query, tells_starts=True)

    def told(self, reader: CommandReader, start: Offset, end: Offset) -> list[str]:
        return [text for part in reader.partitions(start, end) for (text,) in reader.read(part)]

    def test_the_first_batch_of_a_run_is_told_apart(self, files: CommandFiles) -> None:
        first = self.reader(files)
        log = [first.initialOffset()]
        log.append(first.latestOffset(log[-1], ALL))
        assert first.latestOffset(log[0], ALL) == log[1]  # Spark asks again before it plans
        assert self.told(first, log[0], log[1]) == [STARTED]
        assert first.latestOffset(log[1], ALL) == log[1]
        second = self.reader(files)
        assert self.told(second, log[0], log[1]) == [STARTED]  # the batch is run again
        log.append(second.latestOffset(log[1], ALL))
        assert self.told(second, log[1], log[2]) == [STARTED]
        assert second.latestOffset(log[2], ALL) == log[2]

    def test_one_that_need_not_know_is_told_of_restarts_alone(self, files: CommandFiles) -> None:
        first, second = (CommandReader(files, [], query="{}") for _ in range(2))
        start = first.initialOffset()
        assert first.latestOffset(start, ALL) == start
        end = second.latestOffset(start, ALL)
        assert self.told(second, start, end) == [STARTED]
        assert second.latestOffset(end, ALL) == end

    def test_a_query_that_does_not_fit_is_refused_when_a_batch_is_planned(self, files: CommandFiles) -> None:
        first = CommandReader(files, [], query=json.dumps(described("RANGE 10 SECONDS")))
        start = first.initialOffset()
        other = CommandReader(files, [], query=json.dumps(described("ROWS 11")), name="mine")
        for refused in (lambda: other.latestOffset(start, ALL), lambda: other.partitions(start, start)):
            with pytest.raises(CheckpointError, match=r"query 'mine' .*the window of a is of another kind"):
                refused()
        shrunk = CommandReader(files, [], query=json.dumps(described("RANGE 9 SECONDS")))
        end = shrunk.latestOffset(start, ALL)
        assert json.loads(end[QUERY]) == described("RANGE 9 SECONDS")
        assert self.told(shrunk, start, end) == [STARTED]
        assert shrunk.latestOffset(end, ALL) == end

    def test_an_offset_has_the_columns_that_all_runs_have_carried(self, files: CommandFiles) -> None:
        wide = CommandReader(files, [], query=json.dumps(described("RANGE 10 SECONDS", ["k", "x"])))
        narrow = CommandReader(files, [], query=json.dumps(described("RANGE 10 SECONDS")))
        log = [wide.initialOffset()]
        for reader in (narrow, wide):
            log.append(reader.latestOffset(log[-1], ALL))
            assert reader.latestOffset(log[-1], ALL) == log[-1]
        columns = [set(json.loads(offset[QUERY])["streams"][0]["columns"]) for offset in log]
        assert columns == [{"ts", "k", "x"}, {"ts", "k"}, {"ts", "k"}]


class TestTheEnd:
    """An input that has ended stays so: the query does not start again."""

    def ended_by(self, files: CommandFiles, *batches: list[Command], query_id: str | None = None) -> bool:
        reader = CommandReader(files, [], name="mine")
        offset = reader.initialOffset()
        for commands in batches:
            for command in commands:
                files.send(command)
            offset = written(reader.latestOffset(offset, ALL))
        return has_ended(offset, query_id)

    @pytest.mark.parametrize(
        ("batches", "has"),
        [
            ([[ADAPT]], False),
            ([[END]], True),
            ([[END], [ADAPT], [ADAPT]], True),
            ([[END, {"command": "cancel"}]], False),
            ([[END], [ADAPT, {"command": "cancel"}]], True),
            ([[END, {"command": "cancel"}, END]], True),
            ([[END, {"command": "cancel", "query": "other"}]], True),
            ([[END, {"command": "cancel", "query": "the id"}]], False),
            ([[{"command": "end", "query": "mine"}]], True),
            ([[{"command": "end", "query": "the id"}]], True),
            ([[{"command": "end", "query": "other"}]], False),
            ([[{"command": "end", "query": "other"}], [END]], True),
        ],
    )
    def test_which_commands_end_an_input(self, files: CommandFiles, batches: list[list[Command]], has: bool) -> None:
        assert self.ended_by(files, *batches, query_id="the id") is has

    def test_a_query_that_does_not_know_its_id_may_have_been_spared(self, files: CommandFiles) -> None:
        cancel: Command = {"command": "cancel", "query": "some id"}
        assert not self.ended_by(files, [END, cancel])
        assert self.ended_by(files, [END, cancel], query_id="another id")

    def test_what_is_no_command_ends_nothing(self, files: CommandFiles) -> None:
        query = Query(files)
        put(files, "x", "end")
        assert query.names() == ["x"]
        assert not has_ended(query.log[-1])

    def test_a_query_that_has_ended_goes_on_and_does_not_start_again(self, files: CommandFiles) -> None:
        query = Query(files)
        files.send(END)
        assert query.batch() is not None
        name = files.send(ADAPT)
        assert query.names() == [name]
        for number in range(3):
            files.send({"command": "plan", "plan": str(number)})
            assert query.batch() is not None
        query.restart()
        assert query.again(1) != []  # a batch that was planned may run again
        with pytest.raises(CheckpointError, match=r"its input has ended.*new checkpoint directory"):
            query.batch()

    def test_after_a_batch_that_ends_the_input_nothing_is_taken(self, files: CommandFiles) -> None:
        """Of a query that the command names by an id, which the driver knows."""
        first = CommandReader(files, [], name="mine")
        start = first.initialOffset()
        files.send({"command": "end", "query": "the id"})
        end = first.latestOffset(start, ALL)
        again = CommandReader(files, [], name="mine", is_ending=True)
        assert len(again.partitions(start, end)) == 1
        with pytest.raises(CheckpointError, match=r"query 'mine' .*its input has ended"):
            again.latestOffset(end, ALL)


def described(window: str, keep: Sequence[str] = ()) -> Description:
    schema = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64()), ("x", pa.int64())])
    text = "SELECT a.k FROM a [WINDOW], b [NOW] WHERE a.k = b.k".replace("WINDOW", window)
    query = bind(text, dict.fromkeys("ab", Source(schema, "ts")))[0]
    kept = {"a": Kept(tuple(keep), required=False)}
    return description(query, choose_partitioning(query, 1), carriage(query, kept))
