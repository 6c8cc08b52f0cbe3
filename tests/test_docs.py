"""What the documents show is true: their code runs, their queries bind, their links lead somewhere."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pyarrow as pa
import pytest

import thalweg
from thalweg.cql import Source, bind

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TIME = pa.timestamp("us")
CATALOG = {
    "trades": Source(
        pa.schema(
            [("ts", TIME), ("sym", pa.string()), ("px", pa.float64()), ("qty", pa.int64()), ("venue", pa.string())]
        ),
        "ts",
    ),
    "quotes": Source(
        pa.schema(
            [("ts", TIME), ("sym", pa.string()), ("bid", pa.float64()), ("ask", pa.float64()), ("venue", pa.string())]
        ),
        "ts",
    ),
    "news": Source(pa.schema([("ts", TIME), ("sym", pa.string()), ("headline", pa.string())]), "ts"),
    "sectors": Source(pa.schema([("sym", pa.string()), ("sector", pa.string())]), None),
}


def blocks(path: Path, language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE)
    return [text for tag, text in fenced if tag == language]


@pytest.mark.parametrize("text", blocks(ROOT / "docs" / "cql.md", "sql"))
def test_queries_of_the_language_guide_bind(text: str) -> None:
    assert bind(text, CATALOG)


def test_the_example_of_the_readme_prints_what_it_says() -> None:
    example, switching = blocks(ROOT / "README.md", "python")
    shown = blocks(ROOT / "README.md", "")[0]
    printed = io.StringIO()
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(printed):
        exec(example, names)  # noqa: S102 - our own README
    assert printed.getvalue() == shown
    text, streams = re.search(r'"""(.*?)"""', example, re.DOTALL), re.search(r"(\{\n.*?\n    \}),", example, re.DOTALL)
    assert text is not None
    assert streams is not None
    names |= {"text": text[1], "streams": eval(streams[1])}  # noqa: S307 - our own README
    exec("switched = " + switching, names)  # noqa: S102 - our own README
    assert names["switched"] == names["answer"]


def test_the_example_of_feedback_prints_what_the_guide_says() -> None:
    example, shown = blocks(ROOT / "docs" / "guide.md", "python")[-1], blocks(ROOT / "docs" / "guide.md", "")[-1]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(example, {"thalweg": thalweg})  # noqa: S102 - our own guide
    assert printed.getvalue() == shown


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_named_files_exist(path: Path) -> None:
    text = path.read_text()
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (path.parent / target).exists(), target
    for name in re.findall(r"`((?:engine|plan|adapt|cql|cli|experiments|spark)/[\w/]+\.py)`", text):
        assert (ROOT / "src" / "thalweg" / name).exists(), name
    for room in re.findall(r"`thalweg\.(\w+)`", text):
        known = (ROOT / "src" / "thalweg" / room).exists() or (ROOT / "src" / "thalweg" / f"{room}.py").exists()
        assert known or hasattr(__import__("thalweg"), room), room
