"""Probe programs: what a plan makes every new tuple do.

A plan compiles to one program per head stream, a list of instructions: PROBE a base window
or a kept state for partners of a new tuple, STORE the growing tuple in the states on its
way up, EMIT it at the end. Policies that concern what a tuple does insert further ones
(:mod:`thalweg.plan.passes`). How plans become programs, :mod:`thalweg.plan.compiler` says. One kernel runs them all.

Each kept state also has a *completion program*, which computes the entries of one of
its keys from its children: the on-demand completion of JISC 4, and equally what a
restart or a memory limit calls for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from thalweg.plan.tree import Node

Rank = Callable[[Node, Node], float]
"""How much a partial result over these streams grows by joining those: the least goes first."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Look into one target for partners of the tuple so far; what follows is done for each of them.

    Attributes:
        target: a single stream (its base window) or the node of a kept state.
        key: the attribute classes by which it is looked up, if there are any.
        checks: further classes on which candidates must agree.
        thetas: the theta predicates that become decidable here.
        loops: whether candidates are compared one after the other although a key could look them up.

    """

    target: Node
    key: tuple[int, ...]
    checks: tuple[int, ...]
    thetas: tuple[int, ...]
    loops: bool = False

    @property
    def scans(self) -> bool:
        """Whether everything in the target is a candidate: a nested loop."""
        return self.loops or not self.key


@dataclass(frozen=True, slots=True)
class Store:
    """Make the tuple so far an entry of a kept state.

    ``always``: whatever the status of its key, for the key is being completed.
    """

    state: Node
    always: bool = False


@dataclass(frozen=True, slots=True)
class Emit:
    """The tuple so far is a result."""


Gap = tuple[Node, tuple[int, ...]]
"""A kept state, and the classes of its key whose values say where something is missing in it."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Stop here if a demand is not met (:mod:`thalweg.plan.demand`).

    Attributes:
        demand: which one.
        depth: the probe behind which it stands (of an eddy, the module); -1: before the first.
        size: how many components the part has that nobody may need; 0: the empty one.
        producer: the streams whose join would produce what nobody needs.
        gaps: where something is missing if the program stops here.

    """

    demand: int
    depth: int
    size: int
    producer: Node
    gaps: tuple[Gap, ...]


@dataclass(frozen=True, slots=True)
class Pay:
    """Stop here if the budget has no probe left for this.

    Attributes:
        account: which of its stream's accounts is asked; there is one for each probe of the program.
        gaps: where something is missing if the program stops here.

    """

    account: int
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class Send:
    """An eddy picks the next probe."""


@dataclass(frozen=True, slots=True)
class Land:
    """An eddy takes back what has grown by a match, and goes on with what is next for it."""


Instruction = Probe | Store | Emit | Gate | Pay | Send | Land


@dataclass(frozen=True, slots=True)
class Program:
    """Instructions that extend a tuple of ``head``, or compute entries of its state from the classes ``given``.

    ``unordered``: an eddy takes some of the probes, in any order (:mod:`thalweg.plan.passes.routes`).
    """

    head: Node
    instructions: tuple[Instruction, ...]
    given: tuple[int, ...] = ()
    unordered: bool = False

    @property
    def probes(self) -> tuple[Probe, ...]:
        """Its probes alone."""
        return tuple(each for each in self.instructions if isinstance(each, Probe))

    def stored_probes(self) -> Iterator[tuple[Probe, Node | None]]:
        """Each probe, with the state that its matches are entries of, if they are stored."""
        probe: Probe | None = None
        state: Node | None = None
        for each in self.instructions:
            if isinstance(each, Probe):
                if probe is not None:
                    yield probe, state
                probe, state = each, None
            elif isinstance(each, Store):
                state = each.state
        if probe is not None:
            yield probe, state


@dataclass(frozen=True, slots=True)
class Demand:
    """Whether some streams have a combination of tuples with given values.

    Attributes:
        key: the classes whose values are given; none: whether there is anything at all.
        others: the streams, each of which carries one of the classes.
        witness: the program that looks for a combination.
        state: without a key, the kept state that holds the combinations, if that is what is asked and nothing will be
            missing in it: it tells at once.

    """

    key: tuple[int, ...]
    others: tuple[int, ...]
    witness: Program
    state: Node | None = None


@dataclass(frozen=True, slots=True)
class Programs:
    """All programs of a plan.

    Attributes:
        heads: per stream, what its new tuples do.
        completions: per kept state, how one key of it is computed.
        keys: per kept state, the classes of its key.
        fills: per kept state, how all of it is computed, if that was asked for.
        demands: what the gates of the heads ask.
        searches: per kept state, how to find out whether a key has any entry, where it is dear to complete one.

    """

    heads: tuple[Program, ...]
    completions: dict[Node, Program]
    keys: dict[Node, tuple[int, ...]]
    fills: dict[Node, Program]
    demands: tuple[Demand, ...] = ()
    searches: dict[Node, Program] = field(default_factory=dict)

    def gaps(self, node: Node) -> tuple[tuple[int, ...], ...]:
        """The different classes by which something can be missing in a state, because a program stopped before it."""
        stops = (each for head in self.heads for each in head.instructions if isinstance(each, Gate | Pay))
        return tuple(sorted({classes for stop in stops for state, classes in stop.gaps if state == node}))
