"""``thalweg check``, of checkpoints as Spark writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.cli.conftest import Invoke
from thalweg.cql import Source, bind
from thalweg.plan.partitioning import choose_partitioning
from thalweg.spark.description import FORMAT, description
from thalweg.spark.division import divide

CQL = "SELECT p.x, q.d FROM A p [RANGE 10 SECONDS], B q [RANGE 10 SECONDS] WHERE p.k = q.k AND p.x > 3"
SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("x", pa.int32()),
        ("d", pa.decimal128(9, 2)),
        ("ts", pa.timestamp("us", "UTC")),
        ("z", pa.string()),
    ]
)


def checkpoint(directory: Path, cql: str = CQL, schema: pa.Schema = SCHEMA, **offset: Any) -> Path:
    """A checkpoint after one batch of a query."""
    query = bind(cql, dict.fromkeys("AB", Source(schema, "ts")))[0]
    described = description(query, choose_partitioning(query, 4), divide(query).carried, {}, 4)
    commands = {"known": "[]", "commands": "[]", "query": json.dumps(described), "starts": 0, "ends": "[]", **offset}
    for folder, text in (("offsets", f"v1\n{{}}\n{{}}\n{json.dumps(commands)}"), ("commits", "v1\n{}")):
        (directory / folder).mkdir(parents=True)
        (directory / folder / "0").write_text(text)
    (directory / "metadata").write_text('{"id":"the id"}')
    return directory


@pytest.mark.parametrize(
    ("cql", "notes"),
    [
        (CQL, []),
        (CQL.replace("p.", "t.").replace("A p", "A t"), []),
        (
            CQL.replace(
                "A p [RANGE 10 SECONDS], B q [RANGE 10 SECONDS]", "B q [RANGE 9 SECONDS], A p [RANGE 10 SECONDS]"
            ),
            [
                "- FROM has another order, which changes no result",
                "- the window of q shrank from 10 seconds to 9 seconds: results are those of the smaller window from "
                "now on",
            ],
        ),
        (
            CQL.replace("p.x, q.d", "p.x"),
            ["- q is no longer carried with 'd', so no later query can read that from here"],
        ),
    ],
)
def test_what_can_go_on(thalweg: Invoke, tmp_path: Path, cql: str, notes: list[str]) -> None:
    place = checkpoint(tmp_path / "c")
    result = thalweg("check", "-", "--checkpoint", place, input=f"CREATE QUERY pairs AS {cql}")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [f"pairs can go on from {place}" + (":" if notes else ""), *notes]


@pytest.mark.parametrize(
    ("cql", "said"),
    [
        (CQL.replace("p.k = q.k", "p.k = q.x"), "stream 'q' has no column 'x'"),
        (CQL.replace("p.k = q.k", "p.x = q.k"), "its keys were p.k = q.k as int64 and are now CAST"),
        (CQL.replace(" AND p.x > 3", ""), "conditions may be added, not taken away"),
        (CQL.replace("B q", "C q"), "'C'"),
    ],
)
def test_what_cannot(thalweg: Invoke, tmp_path: Path, cql: str, said: str) -> None:
    place = checkpoint(tmp_path / "c")
    result = thalweg("check", "-", "--checkpoint", place, input=cql)
    assert result.exit_code == 1
    assert said in result.stderr
    assert str(place) in result.stderr


@pytest.mark.parametrize("query", [None, "the id"])
def test_what_has_ended(thalweg: Invoke, tmp_path: Path, query: str | None) -> None:
    place = checkpoint(tmp_path / "c", ends=json.dumps([[["end", query]]]))
    result = thalweg("check", "-", "--checkpoint", place, input=CQL)
    assert result.exit_code == 1
    assert f"error: query 'query1' cannot go on from {place}: its input has ended" in result.stderr


def test_where_there_is_no_checkpoint(thalweg: Invoke, tmp_path: Path) -> None:
    result = thalweg("check", "-", "--checkpoint", tmp_path / "none", input=CQL)
    assert result.exit_code == 0
    assert result.stdout == f"there is no checkpoint in {tmp_path}/none: query1 would begin there\n"
    elsewhere = thalweg("check", "-", "--checkpoint", "s3://bucket/c", input=CQL)
    assert elsewhere.exit_code == 1
    assert "s3://bucket/c is not on this machine. Name the streams (--source)" in elsewhere.stderr


def test_a_type_that_cannot_be_read_from_a_checkpoint(thalweg: Invoke, tmp_path: Path) -> None:
    schema = SCHEMA.set(2, pa.field("d", pa.list_(pa.int64())))
    result = thalweg("check", "-", "--checkpoint", checkpoint(tmp_path / "c", schema=schema), input=CQL)
    assert result.exit_code == 1
    assert "column 'd' of stream 'B' has the type list<" in result.stderr
    assert "--source" in result.stderr


def test_a_checkpoint_of_another_format(thalweg: Invoke, tmp_path: Path) -> None:
    place = checkpoint(tmp_path / "c", query=json.dumps({"streams": []}))
    result = thalweg("check", "-", "--checkpoint", place, input=CQL)
    assert result.exit_code == 1
    assert f"it has format unknown, and this version reads format {FORMAT}" in result.stderr
