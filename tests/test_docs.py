"""What the documents show is true: their queries bind, their links lead somewhere, their lines fit a screen.

:mod:`tests.spark.test_documents` runs their Python.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import thalweg
from thalweg.cql import Source, bind

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "examples").glob("*/README.md")),
]
WRAPPED = [path for path in DOCUMENTS if path.name not in ("architecture.md", "experiments.md")]
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


@pytest.mark.parametrize("path", WRAPPED, ids=lambda path: path.name)
def test_lines_fit_a_screen(path: Path) -> None:
    assert [line for line in path.read_text().splitlines() if len(line) > 120] == []


def test_the_changelog_has_this_version_and_a_section_for_what_comes() -> None:
    sections = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert sections[0] == "[Unreleased]"
    assert re.fullmatch(rf"\[{re.escape(thalweg.__version__)}\] - \d{{4}}-\d\d-\d\d", sections[1])


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


@pytest.mark.parametrize("room", ["adapt", "engine", "spark"])
def test_the_map_of_a_room_has_each_of_its_modules_once(room: str) -> None:
    folder = ROOT / "src" / "thalweg" / room
    modules = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    named = re.findall(rf":mod:`~thalweg\.{room}\.(\w+)`", (folder / "__init__.py").read_text())
    assert sorted(named) == sorted(modules - {"__init__"})
