"""Join plans: trees with kept states, and linear orders.

A :class:`TreePlan` joins pairs of subtrees; each inner node below the root may keep
its result as a state. Keeping all of them is a pipeline of symmetric joins, keeping
none is an M-Join. A :class:`LinearPlan` keeps none either and gives every head stream
its own order of partners (M-Join, CACQ, NOS).

Plans are written as people write them, with the aliases of the query::

    ((A B) C) D             a tree
    (A B) (C D)             a bushy one
    A: B C; B: A C; C: A B  a linear order per head stream
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from thalweg.errors import PlanError

Node = frozenset[int]
"""The streams below a point of a tree: what its state holds, whatever its shape."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One base window."""

    stream: int

    @property
    def node(self) -> Node:
        return frozenset((self.stream,))


@dataclass(frozen=True, slots=True)
class Join:
    """The join of two subtrees."""

    left: Tree
    right: Tree

    @property
    def node(self) -> Node:
        return self.left.node | self.right.node


Tree = Leaf | Join


def joins(tree: Tree) -> Iterator[Join]:
    """All joins of a tree, children before parents."""
    if isinstance(tree, Join):
        yield from joins(tree.left)
        yield from joins(tree.right)
        yield tree


def state_nodes(tree: Tree) -> tuple[Node, ...]:
    """The nodes that could keep a state: every join but the root."""
    return tuple(join.node for join in joins(tree) if join != tree)


def left_deep(order: Sequence[int]) -> Tree:
    """The left-deep tree of an order: ``((o0 o1) o2) ...``."""
    tree: Tree = Leaf(order[0])
    for stream in order[1:]:
        tree = Join(tree, Leaf(stream))
    return tree


@dataclass(frozen=True, slots=True)
class TreePlan:
    """A tree and the nodes whose states are kept."""

    tree: Tree
    kept: frozenset[Node] = frozenset()

    def keeping_all(self) -> TreePlan:
        return TreePlan(self.tree, frozenset(state_nodes(self.tree)))

    def keeping_none(self) -> TreePlan:
        return TreePlan(self.tree)


@dataclass(frozen=True, slots=True)
class LinearPlan:
    """``orders[s]``: the other streams in the order in which a tuple of ``s`` probes them."""

    orders: tuple[tuple[int, ...], ...]


Plan = TreePlan | LinearPlan


def format_tree(tree: Tree, aliases: Sequence[str], *, outermost: bool = True) -> str:
    if isinstance(tree, Leaf):
        return quoted(aliases[tree.stream])
    left = format_tree(tree.left, aliases, outermost=False)
    right = format_tree(tree.right, aliases, outermost=False)
    return f"{left} {right}" if outermost else f"({left} {right})"


def format_plan(plan: Plan, aliases: Sequence[str]) -> str:
    """The text of a plan, as :func:`parse_plan` reads it.

    >>> format_plan(TreePlan(left_deep([0, 2, 1])), ["a", "b", "c"])
    '(a c) b'
    """
    if isinstance(plan, TreePlan):
        return format_tree(plan.tree, aliases)
    return "; ".join(
        f"{quoted(aliases[head])}: {' '.join(quoted(aliases[s]) for s in order)}"
        for head, order in enumerate(plan.orders)
    )


def format_node(node: Node, aliases: Sequence[str]) -> str:
    """The name of a state: its aliases in query order.

    >>> format_node(frozenset({2, 0}), ["a", "b", "c"])
    'a⋈c'
    """
    return "⋈".join(aliases[s] for s in sorted(node))


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*\Z")
_TOKEN = re.compile(r"\s*(?:(?P<mark>[():;])|`(?P<quoted>(?:[^`]|``)*)`|(?P<name>[^\s():;`]+))")


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    is_name: bool


def quoted(alias: str) -> str:
    return alias if _PLAIN.match(alias) else "`" + alias.replace("`", "``") + "`"


def parse_plan(text: str, aliases: Sequence[str]) -> Plan:
    """Read a plan text for a query with these aliases.

    A tree is returned with no state kept: which ones to keep is decided elsewhere.

    >>> parse_plan("(a b) c", ["a", "b", "c"]).tree == left_deep([0, 1, 2])
    True
    """
    tokens = read_tokens(text)
    if any(not token.is_name and token.text in ":;" for token in tokens):
        return _parse_linear(tokens, text, aliases)
    tree = _parse_tree(tokens, text, aliases)
    _check_complete(_streams(tree), text, aliases)
    return TreePlan(tree)


def read_tokens(text: str) -> list[Token]:
    """Names (quoted by backticks if need be) and the marks between them."""
    tokens: list[Token] = []
    position = 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            raise PlanError(f"plan '{text}': cannot read '{text[position:].strip()}'")
        if match["mark"]:
            tokens.append(Token(match["mark"], is_name=False))
        else:
            tokens.append(Token(match["name"] or match["quoted"].replace("``", "`"), is_name=True))
        position = match.end()
    return tokens


def _parse_tree(tokens: Sequence[Token], text: str, aliases: Sequence[str]) -> Tree:
    """Items side by side are joined from left to right; parentheses make one item of several."""
    opened: list[Tree | None] = []
    tree: Tree | None = None
    for token in tokens:
        if token.is_name:
            item: Tree = Leaf(position_of(token.text, text, aliases))
        elif token.text == "(":
            opened.append(tree)
            tree = None
            continue
        else:
            if not opened:
                raise PlanError(f"plan '{text}': a ')' without its '('")
            if tree is None:
                raise PlanError(f"plan '{text}': nothing to join here. Write it like {_example(aliases)}.")
            item, tree = tree, opened.pop()
        tree = item if tree is None else Join(tree, item)
    if opened:
        raise PlanError(f"plan '{text}': a '(' without its ')'")
    if tree is None:
        raise PlanError(f"plan '{text}': nothing to join here. Write it like {_example(aliases)}.")
    return tree


def _parse_linear(tokens: list[Token], text: str, aliases: Sequence[str]) -> LinearPlan:
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token == Token(";", is_name=False):
            parts.append([])
        else:
            parts[-1].append(token)
    orders: dict[int, tuple[int, ...]] = {}
    for part in filter(None, parts):
        if len(part) < 2 or not part[0].is_name or part[1] != Token(":", is_name=False):
            raise PlanError(
                f"plan '{text}': a linear order begins with its head stream and a colon, as in 'A: B C; B: A C; C: A B'"
            )
        head = position_of(part[0].text, text, aliases)
        if head in orders:
            raise PlanError(f"plan '{text}': head stream '{part[0].text}' has two orders")
        for token in part[2:]:
            if not token.is_name:
                raise PlanError(
                    f"plan '{text}': a linear order is a list of streams; '{token.text}' has no place in it"
                )
        order = tuple(position_of(token.text, text, aliases) for token in part[2:])
        _check_complete([head, *order], text, aliases)
        orders[head] = order
    missing = [alias for s, alias in enumerate(aliases) if s not in orders]
    if missing:
        raise PlanError(f"plan '{text}': head stream '{missing[0]}' has no order; every stream needs one")
    return LinearPlan(tuple(orders[s] for s in range(len(aliases))))


def position_of(name: str, text: str, aliases: Sequence[str]) -> int:
    lowered = [alias.lower() for alias in aliases]
    if name.lower() not in lowered:
        raise PlanError(f"plan '{text}': '{name}' is not a stream of the query. Its streams are {', '.join(aliases)}.")
    return lowered.index(name.lower())


def _streams(tree: Tree) -> list[int]:
    """Its leaves, however often they stand in it (without recursion: a text can nest deeply)."""
    found: list[int] = []
    waiting = [tree]
    while waiting:
        top = waiting.pop()
        if isinstance(top, Leaf):
            found.append(top.stream)
        else:
            waiting += [top.left, top.right]
    return found


def _check_complete(used: Sequence[int], text: str, aliases: Sequence[str]) -> None:
    for stream, alias in enumerate(aliases):
        count = used.count(stream)
        if count != 1:
            problem = "is missing" if count == 0 else f"stands {count} times"
            raise PlanError(
                f"plan '{text}': stream '{alias}' {problem}; every stream of the query "
                f"stands exactly once, as in {_example(aliases)}"
            )


def _example(aliases: Sequence[str]) -> str:
    return f"'{format_tree(left_deep(range(len(aliases))), aliases)}'"
