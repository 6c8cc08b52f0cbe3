"""Rows that were kept out: a batch that is run again replaces its own files."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from thalweg.spark import side_output
from thalweg.spark.packing import blob
from thalweg.spark.side_output import LATE, place, write


def kept(*values: int) -> list[side_output.KeptOut]:
    return [(1, LATE, blob(pa.table({"k": list(values)})))]


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def test_a_batch_that_is_run_again_replaces_its_own_file(tmp_path: Path) -> None:
    write(tmp_path, "q", ("a", "b"), "c-000-0", kept(1, 2))
    write(tmp_path, "q", ("a", "b"), "c-001-0", kept(3))
    write(tmp_path, "q", ("a", "b"), "c-000-0", kept(1, 2))
    assert files(tmp_path) == ["late/q/b/c-000-0.parquet", "late/q/b/c-001-0.parquet"]
    assert pq.read_table(place(tmp_path, "q", "b")).to_pydict() == {"k": [1, 2, 3], "reason": [LATE] * 3}


def test_one_that_keeps_nothing_out_any_more_has_no_file(tmp_path: Path) -> None:
    write(tmp_path, "q", ("a", "b"), "c-000-0", kept(1, 2))
    write(tmp_path, "q", ("a", "b"), "c-000-0", [])
    assert files(tmp_path) == []


def test_what_a_killed_task_left_goes_when_its_batch_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(path: Path, _: Path) -> None:
        raise SystemExit(f"killed before {path.name} was moved")

    def leave(_: Path, *, missing_ok: bool = False) -> None:
        assert missing_ok

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        patch.setattr(Path, "unlink", leave)  # a killed process cleans up nothing
        patch.setattr(os, "getpid", lambda: 1)
        with pytest.raises(SystemExit):
            write(tmp_path, "q", ("a", "b"), "c-000-0", kept(1))
    (draft,) = files(tmp_path)
    assert not draft.endswith(".parquet")
    write(tmp_path, "q", ("a", "b"), "c-000-0", kept(1))
    assert files(tmp_path) == ["late/q/b/c-000-0.parquet"]


def test_of_two_attempts_at_a_time_the_slower_one_finds_its_work_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The faster one clears away what the slower one has written so far."""
    real = pq.write_table
    attempts = []

    def slowly(table: pa.Table, path: Path) -> None:
        real(table, path)
        attempts.append(path)
        if len(attempts) == 1:
            write(tmp_path, "q", ("a", "b"), "c-000-0", kept(1))

    monkeypatch.setattr(pq, "write_table", slowly)
    write(tmp_path, "q", ("a", "b"), "c-000-0", kept(1))
    assert len(set(attempts)) == 2
    assert files(tmp_path) == ["late/q/b/c-000-0.parquet"]


def test_rows_that_cannot_be_written_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(table: pa.Table, path: Path) -> None:
        path.write_bytes(b"PAR1")
        raise OSError(28, f"No space left for {table.num_rows} rows")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(OSError, match="No space left for 2 rows"):
        write(tmp_path, "q", ("a", "b"), "c-000-0", kept(1, 2))
    assert files(tmp_path) == []
