"""Secrets of options are in nothing that the command line prints."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import typer
from pyspark.errors import AnalysisException, StreamingQueryException

from thalweg.cli.connectors import parse_connector, parse_sink
from thalweg.cli.failures import failures
from thalweg.cli.secrets import REDACTED, redacted, secrets_of
from thalweg.cli.spark_console import _open_private, spark_failures
from thalweg.cli.values import named
from thalweg.errors import InputError

JAAS = (
    "kafka:kafka.bootstrap.servers=a:1,b:2,kafka.sasl.jaas.config=org.apache.PlainLoginModule required "
    'username="me" password="hunter22";,subscribe=trades'
)


@pytest.mark.parametrize(
    ("option", "secret"),
    [
        ("jdbc:url=x,password=hunter22,dbtable=t", "hunter22"),
        ("jdbc:url=x,PassWord = hunter22 ,dbtable=t", "hunter22"),
        ("jdbc:url=jdbc:x://h/db?user=u&password=hunter22&ssl=1,dbtable=t", "hunter22"),
        ("jdbc:url=jdbc:sqlserver://h:1;user=u;password=hunter22;x=1,dbtable=t", "hunter22"),
        ("mongodb:connection.uri=mongodb://me:hunter22@h:1/db", "hunter22"),
        ("mongodb:connection.uri=mongodb://me:hun@ter22@h:1/db", "hun@ter22"),
        ("s3a://AKIA:hunter22@bucket/x", "hunter22"),
        ("x:fs.s3a.access.key=AKIAX22,fs.s3a.secret.key=hunter22", "AKIAX22"),
        ("x:auth.token=hunter22", "hunter22"),
        ("spark.my.password=hunter22,x=hunter23", "hunter22,x=hunter23"),
        (JAAS, "hunter22"),
    ],
)
def test_secrets_are_found_and_redacted(option: str, secret: str) -> None:
    secrets = secrets_of([option])
    assert secret in secrets
    told = redacted(f"Oops: {secret} is wrong (in {option})", secrets)
    assert secret not in told
    assert told.startswith(f"Oops: {REDACTED} is wrong")
    assert secret not in redacted(option)


@pytest.mark.parametrize(
    "option",
    [
        "trades/*.csv",
        "rate:rowsPerSecond=1000",
        "kafka:kafka.bootstrap.servers=a:1,b:2,subscribe=trades",
        "csv:path=in/,schema=k BIGINT, ts TIMESTAMP",
        "s3a://bucket/a@b",
    ],
)
def test_what_is_no_secret_stays(option: str) -> None:
    assert secrets_of([option]) == frozenset()
    assert redacted(option) == option


def test_a_short_secret_leaves_words_alone() -> None:
    assert redacted("a bad password: 'a', says kafka", secrets_of(["x:password=a"])).startswith(f"{REDACTED} bad pass")


def test_all_of_a_login_is_secret() -> None:
    told = redacted(JAAS)
    assert told.endswith(f"kafka.sasl.jaas.config={REDACTED},subscribe=trades")
    assert "PlainLoginModule" not in told


def fail(error: Exception, option: str) -> None:
    with failures(debug=False) as report:
        report.hide([option])
        with spark_failures(Path("spark.log")):
            raise error


@pytest.mark.parametrize("error", [InputError("hunter22 fails"), KeyError("x", "hunter22"), MemoryError()])
def test_errors_are_printed_without_secrets(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        fail(error, "jdbc:password=hunter22")
    told = capsys.readouterr().err
    assert "hunter22" not in told
    assert isinstance(error, MemoryError) or REDACTED in told


@pytest.mark.parametrize("kind", [AnalysisException, StreamingQueryException])
def test_sparks_own_words_are_printed_without_secrets(
    kind: type[AnalysisException], capsys: pytest.CaptureFixture[str]
) -> None:
    text = 'Cannot log in with PlainLoginModule required username="me" password="hunter22"; at x://me:hunter22@h'
    with pytest.raises(typer.Exit):
        fail(kind(text), JAAS)
    told = capsys.readouterr().err
    assert told.startswith("error: Cannot log in with ")
    assert "hunter22" not in told


def test_a_wrong_option_is_shown_without_the_secrets_beside_it() -> None:
    with pytest.raises(typer.BadParameter) as caught:
        parse_connector("jdbc:oops,password=hunter22", "--source")
    assert str(caught.value) == f"'oops' is not of the form key=value (in 'jdbc:oops,password={REDACTED}')."
    with pytest.raises(typer.BadParameter) as caught:
        named(["s3a://me:hunter22@bucket"], "--source", "trades=trades/")
    assert "hunter22" not in str(caught.value)


def test_the_name_of_a_sink_has_no_secrets() -> None:
    sink = parse_sink("jdbc:url=u,password=hunter22")
    assert sink.name == f"jdbc:url=u,password={REDACTED}"
    assert sink.connector.options["password"] == "hunter22"  # noqa: S105 - one for this test


# -- The log, in which there are secrets --------------------------------------------------


@pytest.mark.parametrize("is_there", [False, True])
def test_the_log_is_for_its_owner_alone(tmp_path: Path, is_there: bool) -> None:
    log = tmp_path / "new" / "spark.log"
    if is_there:
        log.parent.mkdir()
        log.write_text("before\n")
        log.chmod(0o644)
    with os.fdopen(_open_private(log), "w") as file:
        file.write("after\n")
    assert log.stat().st_mode & 0o777 == 0o600
    assert log.read_text() == ("before\nafter\n" if is_there else "after\n")


def test_a_log_that_is_no_file_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed: list[int] = []
    monkeypatch.setattr(os, "fchmod", lambda descriptor, _: changed.append(descriptor))
    (tmp_path / "spark.log").symlink_to("/dev/null")
    os.close(_open_private(tmp_path / "spark.log"))
    assert changed == []


def test_a_log_that_others_can_read_and_we_cannot_change_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchmod", refuse)
    with pytest.raises(InputError, match=r"others may read .*spark.log, .*: Operation not permitted. Delete the file"):
        _open_private(tmp_path / "spark.log")
