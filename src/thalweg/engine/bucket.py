"""One bucket of a join and its readers, end to end: Arrow rows in, Arrow results for each reader out.

The bucket's owner (an in-process replay, a task on a cluster) feeds it batches and says how
far time has come; the answer does not depend on where the batches are cut.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Protocol

from thalweg.cql.group import Group
from thalweg.engine.chains import LineageShares
from thalweg.engine.difference_bucket import DifferenceBucket
from thalweg.engine.feedback.gates import Gated
from thalweg.engine.feedback.savings import Savings
from thalweg.engine.image.image import ImageTag
from thalweg.engine.join_bucket import JoinBucket
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.machine.accounts import Accounts
from thalweg.engine.observations import Counts, Glimpse, StoreSize, WindowGlimpse, Work
from thalweg.engine.outputs.ages import Times
from thalweg.engine.outputs.readers import Emitted
from thalweg.engine.rows.batch import Batch
from thalweg.engine.rows.payload import Rows
from thalweg.errors import PlanError
from thalweg.plan.difference import AnyPlan, DifferencePlan
from thalweg.plan.program import Rank
from thalweg.policies import DEFAULT_POLICIES, Policies


class AnyBucket(Protocol):
    """What every bucket does, be it one of a join or of a set difference.

    Calls, over and over: :meth:`offer` rows, :meth:`advance` through them, :meth:`settle` time.
    :meth:`advance` may go in as many parts as one likes; :meth:`transition` is possible between
    any two calls.
    """

    image: ImageTag

    def offer(self, batches: Sequence[Batch | None], watermark: int | None = None) -> None:
        """Hand over new rows of each stream.

        ``watermark``: no row before this time will come after this batch (its own rows may
        be older). Without one, the rows of all calls come in total order.
        """

    def advance(self, limit: int | None = None) -> Iterator[Emitted]:
        """Process up to ``limit`` of the offered rows; yields what can be emitted at once."""

    def settle(self, watermark: int) -> Iterator[Emitted]:
        """Time has passed ``watermark``: yields what could only be said now, and forgets what is over."""

    def close(self) -> Iterator[Emitted]:
        """The input has ended: time runs out for everything that time can end."""

    def transition(self, plan: AnyPlan) -> None:
        """Run under another plan from the next row on; the answer stays what it is."""

    def rows(self, stream: int) -> Int64s:
        """The numbers of the rows of a stream that are still needed, in any order, some perhaps more than once."""

    def sizes(self) -> list[StoreSize]:
        """What every store holds."""

    @property
    def work(self) -> Work:
        """Work done so far."""


class Bucket(AnyBucket, Protocol):
    """A bucket of a join: its plan matters, so it also tells what a plan is chosen by."""

    @property
    def can_load(self) -> bool:
        """Whether windows are all that has to be remembered.

        Not where results have yet to leave, and in ROWS windows: such a bucket has to take its rows again as if they
        were new.
        """

    def load(self, batches: Sequence[Sequence[Batch]], watermark: int) -> None:
        """Fill the windows of a new bucket that ``can_load`` with rows whose results were emitted before.

        ``batches`` are those of each stream. No row before ``watermark`` follows.
        """

    def advance(
        self,
        limit: int | None = None,
        between: Callable[[], None] | None = None,
        every: int | None = None,
        *,
        afresh: bool = False,
    ) -> Iterator[Emitted]:
        """As of every bucket; ``between`` is called from time to time on the way, and may change the plan.

        ``every``: whenever the number of tuples since the engine began (``afresh``: since now) is a multiple of this.
        """

    @property
    def coming(self) -> list[int]:
        """How many tuples of each stream are about to be taken."""

    def glimpse_coming(self, most: int) -> list[WindowGlimpse]:
        """For each stream a look at up to so many of these, as if its window held them and nothing else."""

    def transition(self, plan: AnyPlan, rank: Rank | None = None) -> None:
        """As of every bucket; ``rank`` is the order of probes where the plan leaves it open."""

    @property
    def counts(self) -> Counts:
        """The part of the work that the cost model prices, for those who ask after every batch."""

    @property
    def seconds(self) -> float:
        """How long kernels have joined so far, in this process."""

    @property
    def savings(self) -> Savings | None:
        """What feedback saved so far; None if joins give none here."""

    def serve(self, group: Group, watermark: int | None = None, anew: Collection[str] = ()) -> None:
        """Go on with other readers of the same join, from the next row on; see :meth:`JoinBucket.serve`."""

    group: Group

    def only(self, wanted: Mapping[str, Int64s] | None) -> None:
        """Rows come again: these readers get results that have a row of at least such a number, and others none."""

    @property
    def accounts(self) -> Accounts | None:
        """What its probes are paid from, if there is a budget. Other readers begin with new ones."""

    def take_ages(self) -> Times:
        """Event times of what results are made of, where somebody asks how fresh it is; see :mod:`outputs.ages`."""

    def renew_accounts(self, seed: int) -> None:
        """Let probes be paid from new accounts; ``seed``: where their random numbers begin.

        Estimates of what readers lack begin anew, too.
        """

    @property
    def gated(self) -> Gated | None:
        """Whose gates somebody else is to choose, with ``production="auto"``; None: there is no choice."""

    shares: LineageShares | None

    def slice_sizes(self) -> list[list[tuple[int | None, int]]]:
        """For each stream the slices of its window: for how long tuples are kept there, and how many there are."""

    @property
    def may_choose_chain(self) -> bool:
        """Whether another chain of slices may be chosen."""

    def lineage_shares(self) -> LineageShares:
        """For each stream, which share of its tuples has each lineage."""

    def chain_gain(self, shares: LineageShares) -> float:
        """The share of what probes cost that the best chain for such lineages would save."""

    def choose_chain(self, shares: LineageShares) -> None:
        """Split and merge slices so that they suit such lineages."""

    def glimpse(self, most: int) -> Glimpse:
        """A look at up to so many tuples of every window."""


def open_bucket(
    group: Group,
    plan: AnyPlan | None,
    rank: Rank | None = None,
    payloads: Sequence[Rows] | None = None,
    policies: Policies = DEFAULT_POLICIES,
    *,
    keeps_all: bool = False,
    shares: LineageShares | None = None,
) -> AnyBucket:
    """A bucket for the readers of a join, or for a set difference, which has one reader and needs no plan.

    ``payloads``: if the rows to come are all there already. ``keeps_all``, ``shares``: see :class:`JoinBucket`.
    """
    query = group.whole
    if query.kind == "difference":
        return DifferenceBucket(query, plan, payloads)
    if plan is None or isinstance(plan, DifferencePlan):
        raise PlanError(f"query '{query.name}' is a join and needs the plan of one")
    return JoinBucket(group, plan, rank, payloads, policies, keeps_all=keeps_all, shares=shares)
