"""The JIT experiment from end to end, in sizes that take seconds."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from thalweg.engine.join.engine import JoinEngine
from thalweg.errors import ThalwegError
from thalweg.experiments import EXPERIMENTS, jit
from thalweg.experiments.experiment import Document, Row
from thalweg.experiments.jit import checks, driving, figures
from thalweg.experiments.jit.driving import AUTO_HASH, CONTENDERS, PUSH_HASH, PUSH_LOOPS, Course, Peaks
from thalweg.experiments.jit.sizes import BUSHY, LEFT_DEEP, SIZES, Family, Figure, Sizes
from thalweg.experiments.jit.workloads import Clique
from thalweg.experiments.laps import Laps
from thalweg.plan.tree import format_plan

SMALL = Sizes(
    families=(
        Family(
            Clique("bushy", window_min=1, rate=1.0, streams=4, dmax=10),
            (
                Figure(10, "window_min", (0.5, 1)),
                Figure(11, "rate", (0.5, 1.0)),
                Figure(12, "streams", (4, 5)),
                Figure(13, "dmax", (10, 20), amplifies=False),
            ),
        ),
        Family(
            Clique("left-deep", window_min=1, rate=1.0, streams=3, dmax=5, wide=10),
            (Figure(14, "window_min", (0.5, 1)), Figure(16, "streams", (3, 4))),
        ),
    ),
    turns=2,
    hash_turns=2,
    rounds=4,
)


@pytest.fixture(scope="module")
def document() -> Document:
    return jit.measure("quick", SMALL, lambda text: None)


def of_part(document: Document, start: str) -> list[Row]:
    return [row for row in document["rows"] if str(row["part"]).startswith(start)]


def test_the_document_has_the_agreed_fields_and_is_json(document: Document) -> None:
    assert list(document) == ["bench", "scale", "machine", "rows", "claims"]
    assert (document["bench"], document["scale"]) == ("jit", "quick")
    assert json.loads(json.dumps(document)) == document


def test_answers_are_compared_where_there_are_some(document: Document) -> None:
    rows = of_part(document, "answers")
    assert [(row["shape"], row["streams"]) for row in rows] == [
        ("bushy", 4),
        ("bushy", 5),
        ("left-deep", 3),
        ("left-deep", 4),
    ]
    assert all(row["results"] > 20 and row["contenders"] == 5 for row in rows)


def test_every_point_has_all_contenders_and_the_same_columns(document: Document) -> None:
    columns = list(of_part(document, "figure 10")[0])
    for family in SMALL.families:
        for figure in family.figures:
            rows = of_part(document, f"figure {figure.number}:")
            assert all(list(row) == columns for row in rows)
            found = Counter(row[figure.parameter] for row in rows)
            assert found == dict.fromkeys(figure.values, len(CONTENDERS))
            for value in figure.values:
                assert len({row["results"] for row in rows if row[figure.parameter] == value}) == 1


def test_nested_loops_look_at_more_than_lookups_do_and_produce_the_same(document: Document) -> None:
    for row in of_part(document, "figure 1"):
        assert row["probes"] > 0
        assert row["candidates"] > 0
        assert row["peak_state_bytes"] > 0
        assert row["peak_window_bytes"] > 0
        if row["production"] != "auto":  # which may do either
            assert (row["peak_feedback_bytes"] > 0) == (row["production"] == "jit")
        assert row["peak_bytes"] >= row["peak_state_bytes"] + row["peak_window_bytes"]
    for part in ("figure 10", "figure 14"):
        pushing = [row for row in of_part(document, part) if row["production"] == "push"]
        loops, hashed = ([row for row in pushing if row["method"] == method] for method in ("nested loops", "hash"))
        for one, other in zip(loops, hashed, strict=True):
            assert one["produced"] == other["produced"] > 0
            assert one["candidates"] > 5 * other["candidates"]
            assert one["suspensions"] == other["suspensions"] == 0


def test_claims_follow_from_the_rows(document: Document) -> None:
    measured = {claim["claim"]: claim["measured"] for claim in document["claims"]}
    assert len(measured) == len(document["claims"]) == 5 + 3 * 2 + 2 + 2 * 2 + 1
    candidates = {
        (row["production"], row["window_min"]): row["candidates"]
        for row in of_part(document, "figure 10")
        if row["method"] == "nested loops"
    }
    gain = {value: candidates["push", value] / candidates["jit", value] for value in (0.5, 1)}
    claim = "bushy defaults, nested loops: push / jit, candidates"
    assert measured[claim] == pytest.approx(gain[1], rel=1e-3)
    claim = "figure 10, nested loops: push / jit, candidates, at 0.5 / at 1"
    assert measured[claim] == pytest.approx(gain[0.5] / gain[1], rel=1e-3)
    saved = {value: candidates["push", value] - candidates["jit", value] for value in (0.5, 1)}
    claim = "figure 10, nested loops: candidates saved by jit, at 0.5 / at 1"
    assert measured[claim] == pytest.approx(saved[0.5] / saved[1], rel=1e-3)
    hashed = [row for row in document["rows"] if row.get("production") == "auto"]
    claim = "hash, in every point: auto / push, processor time, less its noise"
    assert all(row["noise"] >= 0 for row in hashed)
    assert 0 < measured[claim] <= max(1 / row["times_less_cpu"] for row in hashed) * 1.01


def test_a_point_is_behind_by_what_its_noise_does_not_explain() -> None:
    def outcome(*seconds: float) -> figures.Outcome:
        return figures.Outcome(Laps((min(seconds),), {}, 0, tuple((each,) for each in seconds)), Peaks())

    push = outcome(1.0, 1.0, 1.0, 1.0)
    steady, unsteady = outcome(1.07, 1.07, 1.07, 1.07), outcome(1.07, 1.2, 1.2, 1.2)
    assert figures._behind({PUSH_HASH: push, AUTO_HASH: steady}) == pytest.approx(1.07)
    assert 1 < figures._behind({PUSH_HASH: push, AUTO_HASH: unsteady}) < 1.05


def test_a_wrong_answer_stops_the_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(JoinEngine):
        def advance(self, limit=None):
            for block in super().advance(limit):
                yield block if self._manner.nested_loops else block[1:]

    monkeypatch.setattr(driving, "JoinEngine", Forgetful)
    with pytest.raises(ThalwegError, match="answer differently"):
        checks.check_answers(SMALL.families[:1], lambda text: None)


def test_plots_are_drawn(document: Document, tmp_path: Path) -> None:
    plot = EXPERIMENTS["jit"].plot
    assert plot is not None
    files = plot(document, tmp_path / "new")
    assert [file.name for file in files] == [f"figure_{number}.png" for number in (10, 11, 12, 13, 14, 16)]
    for file in files:
        assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_figures_contain_their_defaults_and_go_from_one_end_to_the_other(scale) -> None:
    numbers = []
    for family, whole in zip(SIZES[scale].families, (BUSHY, LEFT_DEEP), strict=True):
        for figure, other in zip(family.figures, whole.figures, strict=True):
            numbers.append(figure.number)
            assert family.defaults in family.points(figure)
            assert sorted(set(figure.values)) == list(figure.values)
            assert (figure.values[0], figure.values[-1]) == (other.values[0], other.values[-1])
    assert numbers == list(range(10, 18))


def test_plans_are_those_of_table_ii_and_keep_every_state() -> None:
    for family, plan in ((BUSHY, "((a b) (c d)) (e f)"), (LEFT_DEEP, "((a b) c) d")):
        clique = family.defaults
        assert format_plan(clique.plan, clique.names) == plan
        assert len(clique.plan.kept) == clique.streams - 2


@pytest.mark.parametrize(("streams", "wide"), [(3, 2), (4, 3), (6, 3)])
def test_the_wide_stream_has_values_that_the_others_lack(streams: int, wide: int) -> None:
    clique = Clique("left-deep", window_min=10, rate=1.0, streams=streams, dmax=4, wide=100)
    for stream, words in enumerate(clique.tuples(np.random.default_rng(1), clique.window).between(0, clique.window)):
        distinct = {len(np.unique(words[:, field])) for field in range(2, 1 + streams)}
        assert min(distinct) > 100 if stream == wide else distinct == {4}


def test_arrivals_fill_windows_as_the_rate_says() -> None:
    clique = Clique("bushy", window_min=10, rate=2.0, streams=4, dmax=10)
    course = Course(clique, clique.tuples(np.random.default_rng(2), 2 * clique.window), 2 * clique.window)
    peaks = Peaks()
    lap = course.drive(PUSH_HASH.name, peaks)
    assert lap.work["tuples"] == pytest.approx(4 * 1200, rel=0.1)  # the second of two windows
    pairs = 2 * 1200 * 1200 / 10
    assert peaks.state_entries == pytest.approx(pairs, rel=0.2)


def test_looks_into_the_stores_change_neither_the_answer_nor_what_is_produced() -> None:
    clique = replace(SMALL.families[0].defaults, dmax=3)
    course = Course(clique, clique.tuples(np.random.default_rng(3), 3 * clique.window), 3 * clique.window)
    for contender in (PUSH_LOOPS, PUSH_HASH):
        plain, looked = course.drive(contender.name), course.drive(contender.name, Peaks())
        assert plain.found == looked.found
        assert plain.found.rows > 0
        assert plain.work["stored"] == looked.work["stored"]
        assert plain.work["candidates"] >= looked.work["candidates"]
