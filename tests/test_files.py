"""Reading and writing files: what arrives, and the error for each thing that can be wrong."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from thalweg.errors import InputError
from thalweg.files import expand, read_table, write_table

TABLE = pa.table(
    {
        "k": pa.array([1, 2, None], pa.int64()),
        "price": pa.array([1.5, None, 3.0], pa.float64()),
        "name": pa.array(["NA", "", None]),
        "ts": pa.array([0, 1_500_000, None], pa.timestamp("us")),
    }
)


def refused(path: Path | str, **options: str) -> str:
    with pytest.raises(InputError) as caught:
        read_table(path, **options)
    return str(caught.value)


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl", "ndjson", "json"])
def test_a_table_comes_back_as_it_was_written(tmp_path: Path, ending: str) -> None:
    write_table(TABLE, tmp_path / f"t.{ending}")
    assert read_table(tmp_path / f"t.{ending}", time="ts").equals(TABLE)


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_order_survives_many_rows(tmp_path: Path, ending: str) -> None:
    table = pa.table({"i": pa.array(range(300_000), pa.int64())})
    write_table(table, tmp_path / f"t.{ending}")
    assert read_table(tmp_path / f"t.{ending}").equals(table)


def test_an_empty_table_keeps_its_types_in_parquet(tmp_path: Path) -> None:
    write_table(TABLE.slice(0, 0), tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").equals(TABLE.slice(0, 0))


def test_json_lines_keep_zones_decimals_and_nested_values(tmp_path: Path) -> None:
    table = pa.table(
        {
            "at": pa.array([dt.datetime(2024, 5, 1, 9, 30, tzinfo=dt.UTC)], pa.timestamp("us", "Europe/Berlin")),
            "amount": pa.array([Decimal("12345678901234567890.10")], pa.decimal128(38, 2)),
            "tags": pa.array([["a", "b"]]),
        }
    )
    write_table(table, tmp_path / "t.jsonl")
    assert (tmp_path / "t.jsonl").read_text() == (
        '{"at":"2024-05-01 09:30:00+00","amount":12345678901234567890.10,"tags":["a","b"]}\n'
    )


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_intervals_are_written_as_text(tmp_path: Path, ending: str) -> None:
    table = pa.table({"lag": pa.array([pa.MonthDayNano([0, 1, 500_000_000]), None], pa.month_day_nano_interval())})
    write_table(table, tmp_path / f"t.{ending}")
    assert read_table(tmp_path / f"t.{ending}").column("lag").to_pylist()[0] == "1 day 00:00:00.5"
    lengths = pa.table({"lag": pa.array([-86_400_500_000, None], pa.duration("us"))})
    write_table(lengths, tmp_path / f"u.{ending}")
    assert read_table(tmp_path / f"u.{ending}").column("lag").to_pylist()[0] == "-1 day -00:00:00.5"


class TestTypesOfText:
    def test_csv(self, tmp_path: Path) -> None:
        file = tmp_path / "t.csv"
        file.write_text("i,d,s,b,day\n1,1.5,x,true,2024-05-01\n-2,NaN,,false,\n")
        assert read_table(file).schema == pa.schema(
            {"i": pa.int64(), "d": pa.float64(), "s": pa.string(), "b": pa.bool_(), "day": pa.date32()}
        )

    def test_csv_null_is_the_empty_unquoted_field_alone(self, tmp_path: Path) -> None:
        file = tmp_path / "t.csv"
        file.write_text('s,i\n,1\n"",2\nNA,3\nnull,\n')
        assert read_table(file).to_pydict() == {"s": [None, "", "NA", "null"], "i": [1, 2, 3, None]}

    def test_csv_with_a_byte_order_mark_and_line_breaks_in_values(self, tmp_path: Path) -> None:
        file = tmp_path / "t.csv"
        file.write_text('\ufeffa,b\n"x\ny",1\n')
        assert read_table(file).to_pydict() == {"a": ["x\ny"], "b": [1]}

    def test_json_fields_may_be_missing(self, tmp_path: Path) -> None:
        file = tmp_path / "t.jsonl"
        file.write_text('{"a": 1}\n\n{"b": 2.5, "a": 2}\n')
        assert read_table(file).to_pydict() == {"a": [1, 2], "b": [None, 2.5]}


class TestTimesOfText:
    @pytest.mark.parametrize(
        ("text", "micros"),
        [
            ("1970-01-01T00:00:01", 1_000_000),
            ("1970-01-01 00:00:01.25", 1_250_000),
            ("1970-01-01T00:00:01Z", 1_000_000),
            ("1970-01-01T02:00:01.000001+02:00", 1_000_001),
            ("1970-01-02", 86_400_000_000),
        ],
    )
    @pytest.mark.parametrize("ending", ["csv", "jsonl"])
    def test_iso_texts_are_microseconds_in_utc(self, tmp_path: Path, ending: str, text: str, micros: int) -> None:
        file = tmp_path / f"t.{ending}"
        file.write_text(f"ts\n{text}\n" if ending == "csv" else f'{{"ts": "{text}"}}\n')
        column = read_table(file, time="ts").column("ts")
        assert column.type == pa.timestamp("us")
        assert column.cast(pa.int64()).to_pylist() == [micros]

    def test_the_time_column_is_found_without_regard_to_case(self, tmp_path: Path) -> None:
        file = tmp_path / "t.csv"
        file.write_text("TS\n1970-01-02\n")
        assert read_table(file, time="ts").column("TS").type == pa.timestamp("us")

    def test_a_header_alone_has_a_typed_time_column(self, tmp_path: Path) -> None:
        file = tmp_path / "t.csv"
        file.write_text("k,ts\n")
        table = read_table(file, time="ts")
        assert (table.num_rows, table.schema.field("ts").type) == (0, pa.timestamp("us"))

    def test_nothing_is_cut_off_below_a_microsecond(self, tmp_path: Path) -> None:
        file = tmp_path / "t.csv"
        file.write_text("ts\n1970-01-01 00:00:00.000000001\n")
        assert read_table(file, time="ts").column("ts").cast(pa.int64()).to_pylist() == [1]

    def test_other_columns_stay_text(self, tmp_path: Path) -> None:
        file = tmp_path / "t.csv"
        file.write_text("ts,s\n1970-01-01,yesterday\n")
        assert read_table(file, time="ts").schema.field("s").type == pa.string()

    def test_the_first_value_that_is_no_time_is_named(self, tmp_path: Path) -> None:
        file = tmp_path / "t.csv"
        file.write_text("ts\n" + "1970-01-01 00:00:00\n" * 1000 + "noon\n" + "1970-01-01 00:00:00\n" * 1000)
        assert "t.csv: time column 'ts' holds 'noon' in row 1001, which is no time" in refused(file, time="ts")

    def test_times_with_and_without_a_zone(self, tmp_path: Path) -> None:
        file = tmp_path / "t.csv"
        file.write_text("ts\n1970-01-01 00:00:00Z\n1970-01-01 00:00:00\n")
        assert "mixes times with and without a zone: see '1970-01-01 00:00:00' in row 2" in refused(file, time="ts")


class TestJsonLines:
    """What DuckDB reads has the types that values of text files have everywhere."""

    def test_types_and_values(self, tmp_path: Path) -> None:
        (tmp_path / "t [1].jsonl").write_text(
            '{"i": 1, "f": 1, "big": 18446744073709551615, "t": "2024-05-01T02:00:00+02:00", "d": "2024-05-01", '
            '"s": "x", "clock": "12:00:00", "n": null, "it\'s": true, "o": {"x": "2024-05-01", "y": [1, 2]}}\n\nnull\n'
            '{"f": 2.5, "s": "2024-05-01"}\n'
        )
        table = read_table(tmp_path / "t [1].jsonl")
        stamp, nested = "timestamp[us]", "struct<x: string, y: list<l: int64>>"
        names = ["i", "f", "big", "t", "d", "s", "clock", "n", "it's", "o"]
        kinds = ["int64", "double", "double", stamp, stamp, "string", "string", "null", "bool", nested]
        assert [(field.name, str(field.type)) for field in table.schema] == list(zip(names, kinds, strict=True))
        first, empty, last = table.to_pylist()
        midnight = dt.datetime(2024, 5, 1)
        values = [1, 1.0, 2.0**64, midnight, midnight, "x", "12:00:00", None, True, {"x": "2024-05-01", "y": [1, 2]}]
        assert list(first.values()) == values
        assert set(empty.values()) == {None}
        assert (last["f"], last["s"], last["i"]) == (2.5, "2024-05-01", None)

    def test_values_of_several_types_inside_of_arrays_are_their_text(self, tmp_path: Path) -> None:
        (tmp_path / "t.jsonl").write_text('{"a": [1, "x"]}\n{"a": []}\n')
        assert read_table(tmp_path / "t.jsonl").to_pydict() == {"a": [["1", '"x"'], []]}

    def test_a_directory_named_like_a_partition_is_no_column(self, tmp_path: Path) -> None:
        (tmp_path / "k=1").mkdir()
        (tmp_path / "k=1" / "t.jsonl").write_text('{"a": 1}\n')
        assert read_table(tmp_path / "k=1").column_names == ["a"]

    def test_a_line_may_be_long(self, tmp_path: Path) -> None:
        (tmp_path / "t.jsonl").write_text('{"a": "' + "x" * (3 << 20) + '"}\n')
        assert len(read_table(tmp_path / "t.jsonl")["a"][0].as_py()) == 3 << 20


class TestSeveralFiles:
    def write(self, directory: Path, **contents: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in contents.items():
            (directory / f"{name}.csv").write_text(text)

    def test_directories_and_globs_are_read_in_order_of_name(self, tmp_path: Path) -> None:
        self.write(tmp_path, b="x\n3\n", a="x\n1\n2\n", _hidden="y\n9\n")
        (tmp_path / "_SUCCESS").touch()
        (tmp_path / ".a.csv.crc").write_bytes(b"crc")
        assert read_table(tmp_path).to_pydict() == {"x": [1, 2, 3]}
        assert read_table(tmp_path / "*.csv").to_pydict() == {"x": [1, 2, 3]}
        assert read_table(str(tmp_path / "[b]*")).to_pydict() == {"x": [3]}

    def test_globs_reach_subdirectories_and_directories_named_like_files(self, tmp_path: Path) -> None:
        self.write(tmp_path / "day=1" / "out.csv", part="x\n1\n")
        self.write(tmp_path / "day=2" / "out.csv", part="x\n2\n")
        assert read_table(tmp_path / "*" / "*.csv").to_pydict() == {"x": [1, 2]}
        assert [file.name for file in expand(tmp_path / "**" / "*.csv")] == ["part.csv", "part.csv"]

    def test_a_file_whose_name_looks_like_a_glob_is_that_file(self, tmp_path: Path) -> None:
        self.write(tmp_path, **{"a[1]": "x\n1\n", "a1": "x\n2\n"})
        assert read_table(tmp_path / "a[1].csv").to_pydict() == {"x": [1]}

    def test_directories_do_not_become_columns(self, tmp_path: Path) -> None:
        (tmp_path / "k=1").mkdir()
        write_table(TABLE, tmp_path / "k=1" / "t.parquet")
        assert read_table(tmp_path / "k=1").equals(TABLE)

    def test_inferred_types_widen_and_column_order_is_free(self, tmp_path: Path) -> None:
        self.write(tmp_path, a="x,y,t\n1,,1970-01-01 00:00:00\n", b="t,y,x\n1970-01-01 00:00:00.5,q,2.5\n")
        table = read_table(tmp_path)
        assert table.schema == pa.schema({"x": pa.float64(), "y": pa.string(), "t": pa.timestamp("us")})
        assert table.to_pydict()["x"] == [1.0, 2.5]

    def test_a_missing_column(self, tmp_path: Path) -> None:
        self.write(tmp_path, a="x,y\n1,2\n", b="x\n1\n")
        assert refused(tmp_path) == (
            f"{tmp_path}/b.csv has no column 'y', but {tmp_path}/a.csv has one. "
            "All files of a source have the same columns."
        )

    def test_an_extra_column(self, tmp_path: Path) -> None:
        self.write(tmp_path, a="x\n1\n", b="x,y\n1,2\n")
        assert f"{tmp_path}/a.csv has no column 'y', but {tmp_path}/b.csv has one" in refused(tmp_path)

    def test_different_types(self, tmp_path: Path) -> None:
        self.write(tmp_path, a="x\n1\n", b="x\nabc\n")
        assert f"column 'x' is int64 in {tmp_path}/a.csv but string in {tmp_path}/b.csv" in refused(tmp_path)

    def test_different_types_in_parquet_are_not_widened(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"x": pa.array([1], pa.int64())}), tmp_path / "a.parquet")
        pq.write_table(pa.table({"x": pa.array([1.0], pa.float64())}), tmp_path / "b.parquet")
        assert "column 'x' is int64 in" in refused(tmp_path)

    def test_json_files_may_lack_each_others_fields(self, tmp_path: Path) -> None:
        (tmp_path / "a.jsonl").write_text('{"x": 1}\n')
        (tmp_path / "b.jsonl").write_text('{"y": 2}\n')
        assert read_table(tmp_path).to_pydict() == {"x": [1, None], "y": [None, 2]}

    def test_several_formats(self, tmp_path: Path) -> None:
        self.write(tmp_path, a="x\n1\n")
        (tmp_path / "b.jsonl").write_text('{"x": 1}\n')
        assert f"{tmp_path} holds files of several formats (CSV, JSON lines)" in refused(tmp_path)


class TestNothingThere:
    def test_no_file(self, tmp_path: Path) -> None:
        assert refused(tmp_path / "t.csv").startswith(f"there is no file {tmp_path}/t.csv.")

    def test_no_file_but_one_with_another_ending(self, tmp_path: Path) -> None:
        (tmp_path / "t.parquet").touch()
        assert refused(tmp_path / "t.csv").endswith(f"Did you mean {tmp_path}/t.parquet?")

    def test_no_directory(self, tmp_path: Path) -> None:
        assert refused(tmp_path / "no" / "t.csv").endswith(f"There is no directory {tmp_path}/no either.")

    def test_a_glob_without_matches(self, tmp_path: Path) -> None:
        assert refused(tmp_path / "*.csv") == f"no file matches {tmp_path}/*.csv"

    def test_a_directory_without_data(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("x")
        expected = f"directory {tmp_path} holds no data files. Known endings: .parquet, .csv, .jsonl, .ndjson, .json."
        assert refused(tmp_path) == expected

    def test_a_directory_of_directories(self, tmp_path: Path) -> None:
        (tmp_path / "day=1").mkdir()
        assert refused(tmp_path).endswith(f"For the files of its subdirectories write '{tmp_path}/**/*.parquet'.")

    @pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.parquet"])
    @pytest.mark.parametrize("content", [b"", b" \n\n"])
    def test_an_empty_file(self, tmp_path: Path, name: str, content: bytes) -> None:
        (tmp_path / name).write_bytes(content)
        assert refused(tmp_path / name) == f"{tmp_path}/{name} is empty: it has no columns, not even a header"

    def test_unreadable(self, tmp_path: Path) -> None:
        (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
        assert "loop.csv" in refused(tmp_path / "loop.csv")


class TestNotWhatTheEndingSays:
    @pytest.mark.parametrize(("name", "problem"), [("t.xlsx", "unknown ending '.xlsx'"), ("t", "no ending")])
    def test_an_unknown_ending(self, tmp_path: Path, name: str, problem: str) -> None:
        (tmp_path / name).write_text("x")
        assert refused(tmp_path / name) == (
            f"{tmp_path}/{name} has {problem}, so its format is unknown. "
            "Known endings: parquet: .parquet; CSV: .csv; JSON lines: .jsonl, .ndjson, .json."
        )

    @pytest.mark.parametrize(
        ("name", "content", "looks"),
        [
            ("t.parquet", b"a,b\n1,2\n", "it looks like text"),
            ("t.parquet", b'{"a": 1}\n', "it looks like JSON"),
            ("t.parquet", b"\x1f\x8b\x08\0\0", "it is compressed by gzip; unpack it first"),
            ("t.csv", b"PAR1\0\0\0", "it is a parquet file"),
            ("t.csv", b"\x1f\x8b\x08\0\0", "it is compressed by gzip; unpack it first"),
            ("t.jsonl", b"\x89PNG\r\n\x1a\n\0\0", "it is binary data of another kind"),
        ],
    )
    def test_the_content_gives_it_away(self, tmp_path: Path, name: str, content: bytes, looks: str) -> None:
        (tmp_path / name).write_bytes(content)
        assert refused(tmp_path / name).endswith(f"whatever its ending says: {looks}")

    def test_a_parquet_file_cut_short(self, tmp_path: Path) -> None:
        write_table(TABLE, tmp_path / "t.parquet")
        whole = (tmp_path / "t.parquet").read_bytes()
        (tmp_path / "t.parquet").write_bytes(whole[: len(whole) // 2])
        assert f"{tmp_path}/t.parquet is not a readable parquet file" in refused(tmp_path / "t.parquet")

    def test_a_parquet_file_with_a_broken_footer(self, tmp_path: Path) -> None:
        (tmp_path / "t.parquet").write_bytes(b"PAR1" + b"\0" * 100 + b"PAR1")
        assert f"cannot read {tmp_path}/t.parquet" in refused(tmp_path / "t.parquet")

    def test_csv_rows_of_different_length(self, tmp_path: Path) -> None:
        (tmp_path / "t.csv").write_text("a,b\n1,2\n3\n4,5\n")
        message = f"{tmp_path}/t.csv is not a readable CSV file: row 3: Expected 2 columns, got 1: 3"
        assert refused(tmp_path / "t.csv") == message

    def test_csv_that_is_not_utf8(self, tmp_path: Path) -> None:
        (tmp_path / "t.csv").write_bytes("a,b\n1,Köln\n".encode("latin-1"))
        assert f"{tmp_path}/t.csv is not UTF-8 text: see column 'b'" in refused(tmp_path / "t.csv")

    def test_csv_with_a_column_twice(self, tmp_path: Path) -> None:
        (tmp_path / "t.csv").write_text("a,b,a\n1,2,3\n")
        assert refused(tmp_path / "t.csv") == f"{tmp_path}/t.csv has 2 columns named 'a'; names must differ"

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            ('{"a": 1}\n{"a": \n', "line 2, column 6: expecting value"),
            ('[{"a": 1}]\n', "line 1 is an array"),
            ('{"a": 1}\n17\n', "line 2 is a number"),
            ('{"a": 1}\n\n{"a": "x"}\n', "field 'a' is text in line 3 but a number in line 1"),
            ('{"a": 1, "a": 2}\n', "line 1 has the field 'a' twice"),
            ('{"a": 1, "A": 2}\n', "the fields 'a', 'A' cannot be told apart: names differ in more than their case"),
            ('{"a": 1}{"a": 2}\n', "line 1, column 9: extra data"),
            ('{"a": 1}\n{"a": ' + "[" * 100_000 + "\n", "line 2 has values within values, thousands deep"),
            ('{"a": ' + "[" * 200 + "]" * 200 + "}\n", "JSON exceeds maximum recursion depth of 128"),
        ],
    )
    def test_json_lines(self, tmp_path: Path, content: str, reason: str) -> None:
        (tmp_path / "t.jsonl").write_text(content)
        expected = f"{tmp_path}/t.jsonl is not JSON lines, one object per line: {reason}"
        assert refused(tmp_path / "t.jsonl") == expected

    def test_json_that_is_not_utf8(self, tmp_path: Path) -> None:
        (tmp_path / "t.jsonl").write_bytes('{"a": "x"}\n{"a": "Köln"}\n'.encode("latin-1"))
        assert refused(tmp_path / "t.jsonl").endswith("line 2 is not UTF-8")

    @pytest.mark.parametrize("content", [b'null{"2020-13-45\301', b'{"a\301": 1}\n'])
    def test_bytes_that_crash_the_reader_of_arrow(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "t.jsonl").write_bytes(content)
        assert refused(tmp_path / "t.jsonl").endswith("line 1 is not UTF-8")

    @pytest.mark.parametrize("content", ["{}\n{}\n", "null\n"])
    def test_json_objects_without_fields(self, tmp_path: Path, content: str) -> None:
        (tmp_path / "t.jsonl").write_text(content)
        assert "holds objects without a single field" in refused(tmp_path / "t.jsonl")

    def test_column_names_that_are_not_utf8(self, tmp_path: Path) -> None:
        (tmp_path / "t.csv").write_bytes("größe\n1\n".encode("latin-1"))
        pq.write_table(pa.table({"name": [1]}), tmp_path / "t.parquet")
        written = (tmp_path / "t.parquet").read_bytes()
        (tmp_path / "t.parquet").write_bytes(written.replace(b"name", b"n\xffme"))
        for name in ("t.csv", "t.parquet"):
            assert refused(tmp_path / name).startswith(f"{tmp_path}/{name} has a column whose name is not UTF-8 text")


class TestWriting:
    def failing(self, table: pa.Table, path: Path) -> str:
        with pytest.raises(InputError) as caught:
            write_table(table, path)
        return str(caught.value)

    def test_directories_are_made_and_nothing_else_is_left(self, tmp_path: Path) -> None:
        write_table(TABLE, tmp_path / "a" / "b" / "t.csv")
        assert [file.name for file in (tmp_path / "a" / "b").iterdir()] == ["t.csv"]

    def test_a_tilde_is_the_home_directory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        write_table(TABLE, "~/t.parquet")
        assert read_table("~/t.parquet").equals(TABLE)
        assert (tmp_path / "t.parquet").exists()

    def test_an_unknown_ending_writes_nothing(self, tmp_path: Path) -> None:
        assert "unknown ending '.xml'" in self.failing(TABLE, tmp_path / "out" / "t.xml")
        assert not (tmp_path / "out").exists()

    def test_what_fails_leaves_the_old_file(self, tmp_path: Path) -> None:
        (tmp_path / "t.csv").write_text("old")
        message = self.failing(pa.table({"nested": [[1]]}), tmp_path / "t.csv")
        assert message.startswith(f"cannot write {tmp_path}/t.csv as CSV: Unsupported Type:list")
        assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("t.csv", "old")]

    def test_a_directory_in_its_place(self, tmp_path: Path) -> None:
        (tmp_path / "t.csv").mkdir()
        assert self.failing(TABLE, tmp_path / "t.csv").startswith(f"cannot write {tmp_path}/t.csv: it is a directory")

    def test_the_system_says_no(self, tmp_path: Path) -> None:
        (tmp_path / "gone").symlink_to(tmp_path / "nowhere" / "at all")
        message = self.failing(TABLE, tmp_path / "gone" / "t.csv")
        assert message in (f"cannot write {tmp_path}/gone/t.csv: {text}" for text in ("File exists", "Not a directory"))

    def test_a_file_in_place_of_the_directory(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        message = self.failing(TABLE, tmp_path / "file" / "sub" / "t.csv")
        assert message == f"cannot write {tmp_path}/file/sub/t.csv: {tmp_path}/file is a file"

    def test_a_place_without_permission(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("os.access", lambda path, mode: False)  # whoever runs the tests may be allowed everything
        assert self.failing(TABLE, tmp_path / "t.csv") == f"cannot write {tmp_path}/t.csv: no permission in {tmp_path}"
