"""What an eddy may choose from, under a plan."""

from __future__ import annotations

from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.program import Program
from thalweg.plan.routes import compile_routes
from thalweg.plan.tree import LinearPlan, TreePlan, parse_plan


def tree(text: str) -> TreePlan:
    plan = parse_plan(text, "ABCD")
    assert isinstance(plan, TreePlan)
    return plan


def modules(program: Program) -> list[tuple[str, tuple[int, ...]]]:
    return [("".join("ABCD"[s] for s in sorted(step.target)), step.key) for step in program.steps]


ONE_CLASS = JoinGraph(4, (frozenset(range(4)),))
X, Y = 0, 1
TWO_CLASSES = JoinGraph(4, (frozenset({0, 1, 2}), frozenset({2, 3})), (frozenset({0, 3}),))
"""A.x = B.x = C.x, C.y = D.y, and a theta between A and D."""


def test_without_states_there_is_a_stem_per_stream_in_the_order_of_the_plan() -> None:
    routes = compile_routes(LinearPlan(((3, 1, 2), (0, 2, 3), (1, 3, 0), (2, 1, 0))), ONE_CLASS)
    assert [[name for name, _ in modules(program)] for program in routes.programs.heads] == [
        ["D", "B", "C"],
        ["A", "C", "D"],
        ["B", "D", "A"],
        ["C", "B", "A"],
    ]
    assert routes.climbs == ((), (), (), ())
    assert all(program.unordered for program in routes.programs.heads)


def test_a_tuple_climbs_through_the_kept_states_of_its_stream() -> None:
    routes = compile_routes(tree("((A B) C) D").keeping_all(), ONE_CLASS)
    lower, upper = frozenset({0, 1}), frozenset({0, 1, 2})
    assert routes.climbs == ((lower, upper), (lower, upper), (upper,), ())
    assert modules(routes.programs.heads[3])[0] == ("ABC", (X,))
    assert {name for name, _ in modules(routes.programs.heads[3])} == {"ABC", "AB", "A", "B", "C"}
    assert "AB" not in {name for name, _ in modules(routes.programs.heads[0])}


def test_a_stem_is_looked_up_by_each_class_and_scanned_if_it_shares_none_with_the_head() -> None:
    routes = compile_routes(tree("((A B) C) D"), TWO_CLASSES)
    assert set(modules(routes.programs.heads[0])) == {("B", (X,)), ("C", (X,)), ("C", (Y,)), ("D", (Y,)), ("D", ())}
    by_y = next(step for step in routes.programs.heads[0].steps if step.key == (Y,) and step.target == {2})
    assert by_y.checks == (X,)
    scanned = next(step for step in routes.programs.heads[0].steps if not step.key)
    assert scanned.thetas == (0,)


def test_completion_is_that_of_the_plan() -> None:
    plan = tree("(A B) (C D)").keeping_all()
    routes = compile_routes(plan, TWO_CLASSES)
    assert routes.programs.completions.keys() == plan.kept
    assert not any(program.unordered for program in routes.programs.completions.values())
