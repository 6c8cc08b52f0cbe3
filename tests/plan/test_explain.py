import json
from dataclasses import replace

import pyarrow as pa
import pytest

from tests.plan.queries import SECOND, equality, query, sql, stream, theta
from thalweg.cql.query import AggregateCall, Aggregation, Output, Projection, Query, RangeWindow, RowsWindow
from thalweg.plan.difference import DifferencePlan
from thalweg.plan.explain import explain_json, explain_text
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.search import choose_plan, resolve_plan
from thalweg.plan.statistics import Statistics
from thalweg.plan.tree import Plan
from thalweg.policies import Policies
from thalweg.settings import Feedback


def four_way() -> Query:
    return query([stream(alias) for alias in "ABCD"], [equality("A.k", "B.k", "C.k", "D.k")])


def mixed() -> Query:
    return query(
        [
            stream("A", selection="A.x > 3"),
            stream("B", RangeWindow(None)),
            stream("C", RowsWindow(1_000, (sql("C.k"),))),
            stream("D", RangeWindow(5 * SECOND + 1, derived=True)),
        ],
        [equality("A.k", "B.k", "C.id")],
        [theta("C.x", "<", "D.x"), theta("A.x", "<", "D.x", 3.0, absolute=True)],
        residual=["A.name || B.name = C.name"],
        select={"k": "A.k", "total": "A.x + B.x"},
    )


def planned(bound: Query, text: str | None = None, states: str = "auto") -> tuple[Query, Plan, Statistics]:
    known, graph = Statistics.default(bound), JoinGraph.of(bound)
    if text is not None:
        return bound, resolve_plan(text, graph, bound.aliases, known, states), known  # type: ignore[arg-type]
    return bound, choose_plan(graph, known, states), known  # type: ignore[arg-type]


def lines_of(text: str, first: str) -> list[str]:
    """The lines of a section, from its title on."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(first))
    end = next((i for i in range(start + 1, len(lines)) if not lines[i].startswith(" ")), len(lines))
    return lines[start:end]


def test_a_tree_reads_from_the_results_down() -> None:
    text = explain_text(*planned(four_way(), "((A B) C) D", "all"))
    assert lines_of(text, "plan") == [
        "plan  ((A B) C) D",
        "  ⋈ results           hash on k                   ~4,000/s",
        "  ├─ ⋈ A⋈B⋈C ● kept   hash on k  ~10,000 entries, ~3,000/s",
        "  │  ├─ ⋈ A⋈B ● kept  hash on k  ~10,000 entries, ~2,000/s",
        "  │  │  ├─ A                                ~10,000 tuples",
        "  │  │  └─ B                                ~10,000 tuples",
        "  │  └─ C                                   ~10,000 tuples",
        "  └─ D                                      ~10,000 tuples",
    ]
    assert lines_of(text, "what a new tuple does")[1:] == [
        "  A → B by k → store A⋈B → C by k → store A⋈B⋈C → D by k → result",
        "  B → A by k → store A⋈B → C by k → store A⋈B⋈C → D by k → result",
        "  C → A⋈B by k → store A⋈B⋈C → D by k → result",
        "  D → A⋈B⋈C by k → result",
    ]


def test_a_state_that_is_not_kept_is_marked_and_weighed() -> None:
    text = explain_text(*planned(mixed(), "((A B) C) D"))
    assert "⋈ A⋈B ○ not kept" in text
    assert "⋈ A⋈B⋈C ● kept" in text
    first, second = lines_of(text, "why")[1:]
    assert first.startswith("  A⋈B is not kept: recomputing takes ")
    assert second.startswith("  A⋈B⋈C is kept: storing it takes ")


def test_states_that_do_not_pay_are_said_to() -> None:
    text = explain_text(*planned(four_way(), "((A B) C) D", "all"))
    assert "A⋈B is kept, though it does not pay: storing it takes 260 µs/s, recomputing would take 15 µs/s" in text


def test_a_linear_plan_says_what_the_best_pipeline_would_cost() -> None:
    text = explain_text(*planned(four_way()))
    assert "a linear order for every stream, no intermediate states" in text
    assert "The best tree that keeps all its states, ((A B) C) D, is expected to cost 2.4 times as much." in text


def test_streams_and_their_windows() -> None:
    streams = lines_of(explain_text(*planned(mixed())), "streams")
    assert [line.split("  ~")[0].rstrip() for line in streams[1:]] == [
        "  A  A_source  RANGE 10 seconds",
        "  B  B_source  RANGE UNBOUNDED: this state grows for ever",
        "  C  C_source  PARTITION BY C.k ROWS 1,000",
        "  D  D_source  RANGE 5 seconds inclusive, derived from the interval predicates",
    ]


def test_static_relations() -> None:
    relation = replace(stream("C", RangeWindow(None)), time=None)
    bound = query(
        [stream("A"), stream("B", RangeWindow(1, derived=True)), relation],
        [equality("A.k", "B.k"), equality("B.x", "C.x")],
    )
    text = explain_text(*planned(bound))
    assert text.startswith("query1: join of 2 streams and 1 static relation")
    assert lines_of(text, "streams")[1:] == [
        "  A  A_source  RANGE 10 seconds                                       ~1,000/s  ~10,000 tuples",
        "  B  B_source  RANGE 1 microsecond, derived: no later tuple needs it  ~1,000/s   ~0.001 tuples",
        "  C  C_source  static relation, read once                                       ~10,000 tuples",
    ]
    assert [line.split()[0] for line in lines_of(text, "what a new tuple does")[1:]] == ["A", "B"]
    assert [line.split()[0] for line in lines_of(text, "cost")[2:]] == ["A", "B"]
    facts = explain_json(*planned(bound))["streams"][2]
    assert facts["static"]
    assert facts["window"] == "static relation, read once"
    assert (facts["window_kind"], facts["time"], facts["rate"], facts["grows_for_ever"]) == ("static", None, 0.0, False)


def test_windows_of_other_kinds() -> None:
    bound = query(
        [
            replace(stream("A", RangeWindow(1)), freshness_us=3 * SECOND),
            stream("B", RowsWindow(5)),
            stream("C", RangeWindow(60 * SECOND), retention_us=2 * SECOND),
            stream("D", RangeWindow(None), retention_us=2 * SECOND),
        ],
        [equality("A.k", "B.k", "C.k", "D.k")],
    )
    text = explain_text(*planned(replace(bound, freshness_us=60 * SECOND)))
    assert "FRESHNESS 1 minute" in text.splitlines()[0]
    assert "A_source  NOW, FRESHNESS 3 seconds" in text
    assert "B_source  ROWS 5 " in text
    assert "RANGE 1 minute, kept for 2 seconds: interval predicates need no more" in text
    assert "RANGE UNBOUNDED, kept for 2 seconds" in text
    assert "grows for ever" not in text


def test_the_four_kinds_of_predicates_by_name() -> None:
    assert lines_of(explain_text(*planned(mixed())), "predicates")[1:] == [
        "  equality   A.k = B.k = C.id  (bigint)",
        "  theta      C.x < D.x  (holds for 33% of the pairs)",
        "  theta      ABS(A.x - D.x) < 3.0  (holds for 10% of the pairs)",
        "  selection  A: A.x > 3",
        "  residual   A.name || B.name = C.name",
    ]


def test_a_predicate_is_quoted_as_written_if_known() -> None:
    bound = query([stream("A"), stream("B")], [], [theta("A.x", "<", "B.x", text="B.x > A.x")])
    assert "theta  B.x > A.x" in explain_text(*planned(bound))
    bound = query([stream("A"), stream("B")], [equality("A.k", "B.k", null_safe=True)], [theta("A.x", "<=", "B.x", 2)])
    text = explain_text(*planned(bound))
    assert "A.k <=> B.k" in text
    assert "A.x - B.x <= 2" in text


def test_classes_are_named_by_their_column_unless_that_is_ambiguous() -> None:
    bound = query(
        [stream(a) for a in "ABC"],
        [equality("A.k", "B.k"), equality("B.x", "C.x"), equality("A.x", "C.id")],
    )
    names = [p["name"] for p in explain_json(*planned(bound))["predicates"]["equalities"]]
    assert names == ["k", "x", "A.x"]
    twice = query([stream(a) for a in "ABC"], [equality("A.k", "B.k"), equality("B.k", "C.k")])
    assert [p["name"] for p in explain_json(*planned(twice))["predicates"]["equalities"]] == ["A.k", "B.k"]
    cast = query([stream(a) for a in "AB"], [equality("A.k", "B.k")])
    cast.classes[0].members[0] = sql("CAST(A.k AS BIGINT)")
    assert [p["name"] for p in explain_json(*planned(cast))["predicates"]["equalities"]] == ["k"]


def test_output_and_aggregation() -> None:
    calls = (
        AggregateCall("COUNT", None, None, pa.int64()),
        AggregateCall("SUM", sql("A.x * 2"), pa.float64(), pa.float64()),
    )
    bound = query(
        [stream("A")],
        output=Output.DSTREAM,
        select={"k": "__k0", "n": "__a0 + 1", "total": "__a1", "at": "__time"},
        aggregation=Aggregation((Projection("k", sql("A.k"), pa.int64()),), calls, sql("__a0 > 3")),
    )
    text = explain_text(*planned(bound))
    assert text.startswith("query1: window over one stream, DSTREAM: results as they leave\n")
    assert lines_of(text, "output")[1:] == [
        "  k, COUNT(*) + 1 AS n, SUM(A.x * 2) AS total, RESULT_TIME() AS at",
        "  aggregation: COUNT(*), SUM(A.x * 2) for each A.k, over what the windows hold",
        "  having: COUNT(*) > 3",
    ]
    assert "One stream: there is nothing to join." in text


def test_aggregates_over_everything() -> None:
    bound = query(
        [stream("A")],
        select={"n": "__a0"},
        aggregation=Aggregation((), (AggregateCall("COUNT", None, None, pa.int64()),)),
    )
    assert "aggregation: COUNT(*) over all results" in explain_text(*planned(bound))


def test_the_plan_of_a_difference() -> None:
    bound = query([stream(a) for a in "ABC"], [equality("A.k", "B.k", "C.k")], kind="difference")
    text = explain_text(bound, DifferencePlan((2, 1)), Statistics.default(bound))
    assert text.startswith("query1: difference: A minus B and C, ISTREAM")
    assert lines_of(text, "plan") == [
        "plan  A - C - B",
        "  every stream has one window, indexed by k",
        "  a tuple of A is in the result while no tuple of B or C with its key is alive",
        "  A - C ○ not kept: one look at a key finds what any stream has of it, in whatever order",
    ]
    assert "cost" not in text


def test_two_streams() -> None:
    assert "there is no intermediate state" in explain_text(
        *planned(query([stream("A"), stream("B")], [equality("A.k", "B.k")]))
    )


@pytest.mark.parametrize("states", ["auto", "all", "none"])
def test_a_four_way_join_fits_on_a_page(states: str) -> None:
    text = explain_text(*planned(mixed(), states=states))
    assert len(text.splitlines()) < 60
    assert max(map(len, text.splitlines())) < 130


def figure_1(static: str = "") -> Query:
    """A.x = B.x, A.y = C.y (JIT's figure 1)."""
    streams = [stream(alias) for alias in "ABC"]
    streams = [replace(ref, time=None) if ref.alias in static else ref for ref in streams]
    return query(streams, [equality("A.x", "B.x"), equality("A.y", "C.y")])


def test_without_feedback_every_join_passes_on_all() -> None:
    text = explain_text(*planned(figure_1(), "(A B) C", "all"))
    assert lines_of(text, "production") == ["production  push: every join passes on all that it finds"]


def test_with_feedback_the_demands_are_named() -> None:
    text = explain_text(*planned(figure_1(), "(A B) C", "all"), policies=Policies(production=Feedback()))
    assert lines_of(text, "production") == [
        "production  jit: what the joins above have no partner for is not produced until one arrives",
        "  A⋈B waits for any tuple of C: a new A or B stops at once",
        "  A⋈B waits for C with its y: a new A stops at once, a new B stops after A",
    ]


def test_what_a_static_relation_lacks_stops_for_good() -> None:
    text = explain_text(*planned(figure_1(static="C"), "(A B) C", "all"), policies=Policies(production=Feedback()))
    assert lines_of(text, "production")[2] == (
        "  A⋈B waits for C with its y: a new A stops at once for good, and is deleted, a new B stops after A"
    )


def test_settings_of_feedback_are_named() -> None:
    settings = {
        Feedback("auto"): "production  auto: as jit, where that saves more than it costs",
        Feedback(lattice=2): ", told apart by up to 2 components",
        Feedback(filter_bits=1024): ", told by Bloom filters of 1,024 bits",
        Feedback(filter_bits=1): ", told by Bloom filters of 1 bit",
    }
    for feedback, words in settings.items():
        text = explain_text(*planned(four_way(), "((A B) C) D", "all"), policies=Policies(production=feedback))
        assert lines_of(text, "production")[0].endswith(words)
        assert len(lines_of(text, "production")) > 1


def test_two_streams_have_nothing_to_ask_for() -> None:
    bound = query([stream("A"), stream("B")], [equality("A.k", "B.k")])
    assert lines_of(explain_text(*planned(bound), policies=Policies(production=Feedback())), "production")[1:] == [
        "  no join stands above another, so nothing is asked for"
    ]


def test_demands_as_json() -> None:
    production = explain_json(*planned(figure_1(), "(A B) C", "all"), policies=Policies(production=Feedback()))[
        "production"
    ]
    assert production == {
        "policy": "jit",
        "lattice": 1,
        "filter_bits": None,
        "demands": [
            {"of": "A⋈B", "from": ["C"], "by": [], "static": False, "stops": {"A": [], "B": []}},
            {"of": "A⋈B", "from": ["C"], "by": ["y"], "static": False, "stops": {"A": [], "B": ["A"]}},
        ],
    }
    difference = replace(figure_1(), kind="difference")
    assert explain_json(difference, DifferencePlan((0, 1, 2)), Statistics.default(difference))["production"] is None


def test_many_thetas_are_counted_in_the_tree() -> None:
    thetas = [theta("A.x", "<", "B.x", float(i)) for i in range(5)]
    text = explain_text(*planned(query([stream("A"), stream("B")], [equality("A.k", "B.k")], thetas)))
    assert "⋈ results  hash on k, 5 thetas  " in text
    assert len(lines_of(text, "predicates")) == 7


def test_an_overload_is_counted_in_cores() -> None:
    hopeless = query([stream("A", RangeWindow(3600 * SECOND)), stream("B", RangeWindow(3600 * SECOND))])
    (line,) = (line for line in explain_text(*planned(hopeless)).splitlines() if line.startswith("cost"))
    assert line == "cost  about 40 ms per tuple: 79 cores at 2,000 tuples/s"


def test_many_columns_are_wrapped() -> None:
    bound = query(
        [stream("A"), stream("B")], [equality("A.k", "B.k")], select={f"column_{i}": "A.k" for i in range(30)}
    )
    output = lines_of(explain_text(*planned(bound)), "output")
    assert len(output) > 5
    assert all(len(line) <= 110 for line in output)


@pytest.mark.parametrize("states", ["auto", "all", "none"])
def test_json_holds_the_same_and_is_json(states: str) -> None:
    facts = explain_json(*planned(mixed(), states=states))
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    assert list(facts) == [
        "query",
        "kind",
        "output",
        "freshness_us",
        "columns",
        "aggregation",
        "streams",
        "predicates",
        "plan",
        "states",
        "programs",
        "production",
        "budget",
        "cost",
        "why",
        "buckets",
        "carried",
        "basis",
    ]
    assert list(facts["predicates"]) == ["equalities", "thetas", "selections", "residual"]
    assert sum(head["total"] for head in facts["cost"]["heads"].values()) == pytest.approx(
        facts["cost"]["total"], rel=1e-4
    )
    steps = [step for steps in facts["programs"].values() for step in steps]
    assert sum(step["storing"] for step in steps) == pytest.approx(facts["cost"]["storing"], rel=1e-4)
    assert facts["plan"]["kind"] == ("linear" if states == "none" else "tree")
