from tests.plan.queries import equality, query, stream, theta
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.tree import Node

GRAPH = JoinGraph(5, (frozenset({0, 1, 2}), frozenset({2, 3})), (frozenset({0, 3}),))


def node(*streams: int) -> Node:
    return frozenset(streams)


def test_a_query_gives_its_graph() -> None:
    bound = query(
        [stream(alias) for alias in "ABC"],
        [equality("A.k", "C.k")],
        [theta("B.x", "<", "C.x"), theta("A.x", ">", "C.x")],
    )
    assert JoinGraph.of(bound) == JoinGraph(3, (node(0, 2),), (node(1, 2), node(0, 2)))


def test_a_class_connects_all_of_its_members() -> None:
    assert GRAPH.connecting(node(0), node(1)) == GRAPH.connecting(node(0), node(2)) == (0,)
    assert GRAPH.connecting(node(0, 2), node(1, 3)) == (0, 1)
    assert GRAPH.connecting(node(0), node(3)) == ()


def test_a_set_carries_the_classes_of_its_streams() -> None:
    assert GRAPH.carried(node(0, 3)) == {0, 1}
    assert GRAPH.carried(node(4)) == frozenset()


def test_thetas_are_decidable_once_both_ends_are_bound() -> None:
    assert GRAPH.thetas_completed(node(0, 1), node(3)) == (0,)
    assert GRAPH.thetas_completed(node(0, 3), node(1)) == ()


def test_connected_by_a_class_by_a_theta_or_not_at_all() -> None:
    assert GRAPH.connected(node(0), node(1))
    assert GRAPH.connected(node(0), node(3))
    assert not GRAPH.connected(node(1), node(3))
    assert GRAPH.neighbours(node(3), range(5)) == [0, 2, 3]
    assert GRAPH.neighbours(node(4), range(5)) == []
