"""The Python in README and docs runs as it stands, and prints what the pages say.

The blocks of a page are run from top to bottom, as if they were pasted one after the other. A block of the README that
begins with an import can be pasted by itself. A block marked ``python not-run`` needs something that is not here, and
says what. What stands in a block without a language right after one of Python is what that prints.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.test_docs import DOCUMENTS, ROOT

_PYTHON = re.compile(r"^```python\n(.*?)^```\n(?:\n```\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)
_NOT_RUN = re.compile(r"^```python not-run\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of Python, the line of its page that it begins in, and what it prints; None: the page does not say."""

    code: str
    line: int
    printed: str | None


def blocks(path: Path) -> list[Block]:
    text = path.read_text()
    return [Block(m[1], text.count("\n", 0, m.start(1)), m[2]) for m in _PYTHON.finditer(text)]


@pytest.fixture
def pasted(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pages run in the session of all tests, write to a directory that goes, and leave that session the active one."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    spark.createDataFrame([(0,)], "k INT")


@pytest.mark.usefixtures("pasted")
@pytest.mark.parametrize("path", [path for path in DOCUMENTS if blocks(path)], ids=lambda path: path.name)
def test_the_python_of_a_page_runs_and_prints_what_it_says(path: Path) -> None:
    names: dict[str, object] = {}
    for block in blocks(path):
        if path.name == "README.md" and block.code.startswith("import"):
            names = {}
        tree = ast.parse(block.code)
        ast.increment_lineno(tree, block.line)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, str(path), "exec"), names)  # noqa: S102 - our own documents
        if block.printed is not None:
            assert printed.getvalue().strip() == block.printed.strip(), f"{path.name}, line {block.line}"


def test_blocks_that_are_not_run_say_what_they_need_and_are_python() -> None:
    found = [block for path in DOCUMENTS for block in _NOT_RUN.findall(path.read_text())]
    assert found
    for block in found:
        assert block.startswith("# Needs "), block
        ast.parse(block)


def test_every_block_of_python_is_run_or_marked() -> None:
    for path in DOCUMENTS:
        fences = re.findall(r"^ *```python.*$", path.read_text(), re.MULTILINE)
        assert len(fences) == len(blocks(path)) + len(_NOT_RUN.findall(path.read_text())), path


def test_the_example_project_runs_and_its_tests_pass(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = ROOT / "examples" / "spreads"
    monkeypatch.syspath_prepend(str(project))
    job, tests = __import__("job"), __import__("test_job")
    for name in [name for name in vars(tests) if name.startswith("test_")]:
        getattr(tests, name)()
    job.main(tmp_path)
    first = int(re.findall(r"(\d+) results", capsys.readouterr().out)[0])
    job.main(tmp_path, more=True)
    second = int(re.findall(r"(\d+) results", capsys.readouterr().out)[0])
    assert 0 < first < second
