"""How a join gets from one plan to the next: policies over one engine, behind one interface.

The answer is the same under every policy; they differ in when the work of a change is done.

``jisc``
    States of the new plan alone start with every key absent; a probe completes the key it asks for (JISC 4). The
    output never stalls.
``moving_state``
    All states of the new plan are computed before the next tuple is taken (JISC 3.2). The output stalls meanwhile.
``parallel_track``
    The new plan starts empty, and both run until the old one holds no tuple from before (JISC 3.3). The output
    does not stall, but every tuple is processed once per plan. In unbounded windows the old plan never ends.
``cacq``, ``stairs``, ``stairs_jisc``
    An eddy decides after every hop where a tuple goes (:mod:`thalweg.engine.machine.eddy`): among base windows alone,
    or also among states that are computed at once, or on demand, when the plan changes (JISC 3.1, 4.6).
``parallel_track_printed``
    The same as it is usually described: duplicates are found by hashing results, and whether the old plan may
    end by walking through its states from time to time. For comparison.

JISC's procedure 1 to the letter is none of them: it takes a key for completed when it finds some entry of it, and loses
results, for an entry that was stored after the change hides that older ones are missing. For study,
``JoinEngine(..., as_printed=True)`` follows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from thalweg.cql.query import Query
from thalweg.engine.feedback.gates import Gated
from thalweg.engine.feedback.savings import Savings
from thalweg.engine.join.engine import JoinEngine
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.machine.accounts import Accounts
from thalweg.engine.migration.parallel_track import ParallelTrack
from thalweg.engine.migration.printed_parallel_track import PrintedParallelTrack
from thalweg.engine.migration.stream_partition import StreamPartition
from thalweg.engine.observations import Counts, Glimpse, StoreSize, Work
from thalweg.errors import PlanError
from thalweg.plan.program import Rank
from thalweg.plan.slices import Slicing
from thalweg.plan.tree import Plan
from thalweg.policies import DEFAULT_POLICIES, Policies


class Joiner(Protocol):
    """What a bucket needs of whatever joins its tuples; its class also declares what of it lasts in an image.

    Calls, over and over: :meth:`offer` tuples, :meth:`advance` through them, :meth:`take_deaths`. A change of plan
    takes place between two tuples: whatever was taken before it has gone all the way, so that it is safe at any time
    between two calls of :meth:`advance` (JISC 4.1); offered tuples that were not taken yet run under the new plan.
    """

    @property
    def plan(self) -> Plan:
        """The plan that runs, the newest if there are several."""

    @property
    def work(self) -> Work:
        """Work done since the start."""

    @property
    def counts(self) -> Counts:
        """The part of it that the cost model prices, for those who ask after every batch."""

    @property
    def seconds(self) -> float:
        """How long kernels have run for it, in this process."""

    @property
    def savings(self) -> Savings:
        """What feedback saved since the start; nothing, if none is given."""

    @property
    def gated(self) -> Gated | None:
        """Whose gates somebody else is to choose, with ``production="auto"``; None: there is no choice."""

    @property
    def accounts(self) -> Accounts | None:
        """What its probes are paid from; None: they are not."""

    def offer(self, batches: Sequence[Int64s], watermark: int | None = None) -> None:
        """Hand over new tuples, per stream in time order; see :meth:`JoinEngine.offer`."""

    def load(self, batches: Sequence[Int64s], watermark: int) -> None:
        """Fill the windows of a new joiner with tuples whose results were found before."""

    def advance(self, limit: int | None = None) -> Iterator[Int64s]:
        """Process up to ``limit`` of the offered tuples; yields blocks of results, each good until the next."""

    def take_deaths(self) -> Int64s:
        """(stream, row, time) of the tuples that left ROWS windows since this was last asked."""

    def transition(self, plan: Plan, rank: Rank | None = None) -> None:
        """Run under another plan from the next tuple on."""

    def held(self, stream: int) -> int:
        """How many tuples a base window holds, or more."""

    def rows(self, stream: int) -> Int64s:
        """The row numbers of the tuples in a base window."""

    def tuples(self, stream: int) -> Int64s:
        """The tuples in a base window, slice by slice, as its layout has them."""

    def unprocessed(self) -> tuple[list[Int64s], int | None]:
        """Per stream, the offered tuples that were not taken yet; and the watermark they were offered with."""

    def glimpse(self, most: int) -> Glimpse:
        """A look at up to ``most`` tuples of every base window."""

    def sizes(self) -> list[StoreSize]:
        """What every base window and kept state holds."""


def open_joiner(
    query: Query,
    plan: Plan,
    rank: Rank | None = None,
    policies: Policies = DEFAULT_POLICIES,
    *,
    timed: bool = True,
    slicing: Slicing | None = None,
) -> Joiner:
    """A joiner for a query that changes its plan by its policies; ``slicing``: if the query stands for several readers.

    ``push_down`` divides the windows of readers that select differently, under ``jisc`` and ``moving_state``.
    """
    migration = policies.migration
    if policies.budget is not None and not policies.can_rank_anew:
        raise PlanError(f"query '{query.name}': a budget does not go with migration {migration}")
    if policies.budget is not None and policies.sharing == "push_down":
        raise PlanError(f"query '{query.name}': a budget does not go with sharing push_down, which has many joins")
    is_divided = policies.sharing == "push_down" and policies.can_rank_anew
    if is_divided and slicing is not None and slicing.selections > 1:
        return StreamPartition(query, plan, rank, policies, slicing)
    if migration == "parallel_track":
        return ParallelTrack(query, plan, rank, policies, slicing)
    if migration == "parallel_track_printed":
        return PrintedParallelTrack(query, plan, rank, policies, slicing)
    return JoinEngine(query, plan, rank, policies, timed=timed, slicing=slicing)
