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
from thalweg.engine.states.status import diagram

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "examples").glob("*/README.md")),
]
TERMS = (
    *("young", "gathering", "settled", "void", "completion", "gate", "ledger", "cut", "allowance"),
    *("group", "reader", "signature", "mask", "slice", "chain", "lineage"),
)
"""Words that the code and the documents use in a sense of their own."""
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


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_lines_fit_a_screen(path: Path) -> None:
    assert [line for line in path.read_text().splitlines() if len(line) > 120] == []


def glossary() -> dict[str, str]:
    text = (ROOT / "docs" / "glossary.md").read_text()
    return dict(re.findall(r"^\| ([a-z -]+) \| (.+\.) \|$", text, re.MULTILINE))


def test_the_glossary_defines_our_terms_in_two_sentences_at_most() -> None:
    terms = glossary()
    assert [term for term in TERMS if term not in terms] == []
    assert [term for term, meaning in terms.items() if len(re.findall(r"[.](?: |$)", meaning)) not in (1, 2)] == []
    assert [*terms] == sorted(terms)


@pytest.mark.parametrize("name", ["README.md", "docs/architecture.md"])
def test_the_glossary_is_linked(name: str) -> None:
    assert re.search(r"\]\((docs/)?glossary\.md\)", (ROOT / name).read_text())


def test_the_diagram_of_statuses_is_up_to_date() -> None:
    """Paste ``thalweg.engine.states.status.diagram()`` between the markers when the table changes."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    shown = re.findall(r"<!-- statuses: begin -->\n```mermaid\n(.*?)\n```\n<!-- statuses: end -->", text, re.DOTALL)
    assert shown == [diagram()]


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


PACKAGES = ROOT / "src" / "thalweg"
SUB_ROOMS = [f"engine.{path.parent.name}" for path in sorted((PACKAGES / "engine").glob("*/__init__.py"))]


@pytest.mark.parametrize("room", ["adapt", "engine", "spark", *(room for room in SUB_ROOMS if "kernels" not in room)])
def test_the_map_of_a_room_has_each_of_its_modules_once(room: str) -> None:
    folder = PACKAGES.joinpath(*room.split("."))
    modules = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    named = re.findall(rf":mod:`~thalweg\.{re.escape(room)}\.(\w+)`", (folder / "__init__.py").read_text())
    assert sorted(named) == sorted(modules - {"__init__"})
