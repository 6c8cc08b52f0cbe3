import pytest

from tests.plan.random_worlds import all_trees, seeded
from thalweg.errors import PlanError
from thalweg.plan.tree import (
    Join,
    Leaf,
    LinearPlan,
    TreePlan,
    format_node,
    format_plan,
    joins,
    left_deep,
    parse_plan,
    state_nodes,
)

ABC = ["A", "B", "C"]


def test_a_list_without_parentheses_is_left_deep() -> None:
    assert parse_plan("A C B", ABC) == TreePlan(left_deep([0, 2, 1]))


def test_a_bushy_tree() -> None:
    plan = parse_plan("(A B)(D C)", "ABCD")
    assert plan == TreePlan(Join(Join(Leaf(0), Leaf(1)), Join(Leaf(3), Leaf(2))))


def test_parentheses_around_everything_and_around_names_mean_nothing() -> None:
    assert parse_plan("(((A) B) (C))", ABC) == TreePlan(left_deep([0, 1, 2]))


def test_aliases_are_found_in_any_case() -> None:
    assert parse_plan("trades QUOTES", ["Trades", "Quotes"]) == TreePlan(left_deep([0, 1]))


def test_a_linear_plan() -> None:
    assert parse_plan("B: A C; A: C B; C: B A;", ABC) == LinearPlan(((2, 1), (0, 2), (1, 0)))


@pytest.mark.parametrize("streams", [1, 2, 3, 4, 5])
def test_every_tree_is_read_as_it_is_written(streams: int) -> None:
    aliases = ["a", "the stream", "c$", "_d", "e-e"][:streams]
    for tree in all_trees(range(streams)):
        assert parse_plan(format_plan(TreePlan(tree), aliases), aliases) == TreePlan(tree)


def test_every_linear_order_is_read_as_it_is_written() -> None:
    rng = seeded(3)
    aliases = ["a", "the stream", "c", "d d"]
    for _ in range(20):
        orders = tuple(tuple(rng.sample([s for s in range(4) if s != head], 3)) for head in range(4))
        assert parse_plan(format_plan(LinearPlan(orders), aliases), aliases) == LinearPlan(orders)


def test_a_single_stream() -> None:
    assert parse_plan("A", ["A"]) == TreePlan(Leaf(0))
    assert state_nodes(Leaf(0)) == ()


def test_joins_come_children_first() -> None:
    tree = left_deep([0, 1, 2])
    assert [sorted(join.node) for join in joins(tree)] == [[0, 1], [0, 1, 2]]


def test_every_join_but_the_root_may_keep_a_state() -> None:
    tree = left_deep([0, 1, 2, 3])
    assert state_nodes(tree) == (frozenset({0, 1}), frozenset({0, 1, 2}))
    plan = TreePlan(tree).keeping_all()
    assert plan.kept == {frozenset({0, 1}), frozenset({0, 1, 2})}
    assert plan.keeping_none().kept == frozenset()


def test_a_state_is_named_by_its_streams_in_query_order() -> None:
    assert format_node(frozenset({2, 0}), ABC) == "A⋈C"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "plan '': nothing to join here. Write it like '(A B) C'."),
        ("   ", "nothing to join here"),
        ("()", "nothing to join here"),
        ("(A B", "a '(' without its ')'"),
        ("A B) C", "a ')' without its '('"),
        ("A B", "stream 'C' is missing; every stream of the query stands exactly once, as in '(A B) C'"),
        ("A B B C", "stream 'B' stands 2 times"),
        ("A B X", "'X' is not a stream of the query. Its streams are A, B, C."),
        ("A `B", "cannot read '`B'"),
        ("A: B C; B: A C", "head stream 'C' has no order; every stream needs one"),
        ("A: B C; A: C B; B: A C; C: A B", "head stream 'A' has two orders"),
        ("A: B (C); B: A C; C: A B", "'(' has no place in it"),
        ("A: B; B: A C; C: A B", "stream 'C' is missing"),
        ("A: B C; B A C; C: A B", "a linear order begins with its head stream"),
        ("A B: C; B: A C; C: A B", "a linear order begins with its head stream"),
        ("A: A B C; B: A C; C: A B", "stream 'A' stands 2 times"),
    ],
)
def test_a_plan_that_does_not_fit_says_why(text: str, says: str) -> None:
    with pytest.raises(PlanError) as caught:
        parse_plan(text, ABC)
    assert says in str(caught.value)
