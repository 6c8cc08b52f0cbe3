"""Figures 6 and 7: the results of each policy, while streams fluctuate, and over all budgets."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from thalweg.experiments.experiment import Claim, Report, Row, at_least, at_most, rounded
from thalweg.experiments.jaqpot.driving import ALL, HALF_WAY, Course, Found
from thalweg.experiments.jaqpot.sizes import SEED, Budgets, Fluctuating
from thalweg.experiments.jaqpot.workloads import SHAPES, Setting, Shape, chain, draw_settings, keyed

FIGURE_6 = "figure 6: results while selectivities change, budget 30% of saturation"
FIGURE_7 = "figure 7: results by budget"
EACH = "figure 7: each setting"
KEPT = "figure 7, states kept: results by budget"
EACH_KEPT = "figure 7, states kept: each setting"

OPTIMUM = "the best possible"
"""What a budget can buy, by what each path costs and yields: no policy of half-way joins can do better."""
MINUTES = 10
SELECTIVITIES = ((3, (0.01, 0.01, 0.05)), (4, (0.03, 0.03, 0.05)), (3, (0.03, 0.03, 0.1)))
"""SEL1 to SEL3: for how many minutes, and of which joins. The last one is the root's."""

_MEAN_BARS: dict[Shape, float] = {"linear": 2.0, "bushy": 1.0}
"""How many times the results of the best half-way heuristic are asked for, on average over budgets."""

Shares = dict[str, dict[int, float]]
"""[policy][budget in percent of saturation] the share of the full answer that was found."""


def while_streams_change(sizes: Fluctuating, report: Report) -> tuple[list[Row], list[Claim]]:
    """Figure 6: one budget for the whole run, 30% of what the whole run needs."""
    rows: list[Row] = []
    ratios: dict[Shape, float] = {}
    stale = 0
    for shape in SHAPES:
        streams = (sizes.rate,) * 4, (sizes.window,) * 4
        phases = [(minutes * sizes.seconds, Setting(*streams, selected)) for minutes, selected in SELECTIVITIES]
        ends = tuple((minute + 1) * sizes.seconds for minute in range(MINUTES))
        course = Course(chain(shape, phases, SEED), ends)
        found = {policy: _told(course, policy, sizes.share, report, f"figure 6, {shape}") for policy in ALL}
        for policy, mine in found.items():
            whole = mine.results.cumsum().tolist()
            rows += [
                {
                    "part": FIGURE_6,
                    "plan": shape,
                    "policy": policy,
                    "minute": minute + 1,
                    "results": results,
                    "share_of_full": rounded(results / full if full else 0.0),
                    "probes_of_budget": rounded(mine.probes / (sizes.share * course.full.probes)),
                }
                for minute, (results, full) in enumerate(zip(whole, course.full.results.cumsum().tolist(), strict=True))
            ]
            stale += mine.stale
        ratios[shape] = found["jaqpot"].total / max(each.total for policy, each in found.items() if policy != "jaqpot")
    return rows, [
        *(
            at_least(f"figure 6, {shape}: results, jaqpot / the best rival", ratio, 0.97)
            for shape, ratio in ratios.items()
        ),
        at_most("figure 6: stale results at 1.5 times the windows", stale, 0),
    ]


def by_budget(sizes: Budgets, report: Report, *, kept: bool = False) -> tuple[list[Row], list[Claim]]:
    """Figure 7: settings of table 3, and the mean of them.

    ``kept``: plans that keep their states. These are joined on one key, since a budget lets states be kept only if all
    that they hold carries their key. Harvesting looks at parts of windows, which states do not have.
    """
    each: list[Row] = []
    rows: list[Row] = []
    means: dict[Shape, Shares] = {}
    stale = 0
    part, part_of_each = (KEPT, EACH_KEPT) if kept else (FIGURE_7, EACH)
    policies = [policy for policy in ALL if not (kept and policy == "harvest")]
    settings = draw_settings(SEED, sizes.settings, sizes.most_results, alike=kept)
    for shape in SHAPES:
        names: list[str] = [*policies] if kept else [*policies, OPTIMUM]
        shares: dict[str, dict[int, list[float]]] = {policy: {share: [] for share in sizes.shares} for policy in names}
        for number, setting in enumerate(settings, start=1):
            course = _long_enough(shape, setting, sizes.seconds, number, kept=kept)
            for share in sizes.shares:
                if not kept:
                    shares[OPTIMUM][share].append(course.optimum(share / 100))
                for policy in policies:
                    where = f"{part}, {shape}, setting {number} of {len(settings)}, {share}%"
                    found = _told(course, policy, share / 100, report, where)
                    shares[policy][share].append(found.total / course.full.total)
                    stale += found.stale
                    row: Row = {"part": part_of_each, "plan": shape, "setting": setting.text, "budget_%": share}
                    each.append(row | _columns(course, policy, found))
        means[shape] = {
            policy: {share: statistics.mean(many) for share, many in mine.items()} for policy, mine in shares.items()
        }
        rows += [
            {"part": part, "plan": shape, "policy": policy}
            | {f"at_{share}%": rounded(found) for share, found in mine.items()}
            for policy, mine in means[shape].items()
        ]
    claims = [
        *claims_of("figure 7, states kept" if kept else "figure 7", means, without=(OPTIMUM,)),
        at_most(f"{'figure 7, states kept' if kept else 'figure 7'}: stale results at 1.5 times the windows", stale, 0),
    ]
    return [*rows, *each], claims


def claims_of(figure: str, means: Mapping[Shape, Shares], *, without: Sequence[str] = ()) -> list[Claim]:
    """What figure 7 should show; ``without``: policies that are no rivals."""
    claims = []
    if 60 in means["linear"]["jaqpot"]:
        share = means["linear"]["jaqpot"][60]
        claims.append(at_least(f"{figure}, linear: results at 60% of saturation, of all", share, 0.8))
    rivals = [policy for policy in means["linear"] if policy not in ("jaqpot", *without)]
    least = min(_worst(shares, rivals) for shares in means.values())
    claims.append(at_least(f"{figure}, every budget and plan: results, jaqpot / the best rival", least, 0.97))
    for shape, bar in _MEAN_BARS.items():
        ratio = _mean_ratio(means[shape], [policy for policy in HALF_WAY if policy in means[shape]])
        claim = f"{figure}, {shape}: results, jaqpot / the best half-way heuristic, the mean over budgets"
        claims.append(at_least(claim, ratio, bar))
    if "random_shedding" in means["linear"]:
        for shape, shares in means.items():
            ratio = _mean_ratio(shares, ["random_shedding"])
            claim = f"{figure}, {shape}: results, jaqpot / random input shedding, the mean over budgets"
            claims.append(at_least(claim, ratio, 1.5))
    return claims


def _worst(shares: Shares, rivals: Sequence[str]) -> float:
    """At the worst budget, the results of jaqpot to those of the best rival."""
    ratios = []
    for share, found in shares["jaqpot"].items():
        best = max(shares[rival][share] for rival in rivals)
        ratios.append(found / best if best else 1.0)
    return min(ratios)


def _mean_ratio(shares: Shares, rivals: Sequence[str]) -> float:
    """The mean over all budgets that are too small, of jaqpot to the rival that is best at that budget."""
    budgets = [share for share in shares["jaqpot"] if 0 < share < 100]
    return statistics.mean(shares["jaqpot"][share] / max(shares[each][share] for each in rivals) for share in budgets)


def _long_enough(shape: Shape, setting: Setting, seconds: float, number: int, *, kept: bool) -> Course:
    """A course that goes on for so many seconds once the windows are full."""
    filling = 1.2 * max(window / rate for window, rate in zip(setting.windows, setting.rates, strict=True))
    whole = filling + seconds
    if kept:
        return Course(keyed(shape, whole, setting, SEED + number), (whole,), states="all")
    return Course(chain(shape, [(whole, setting)], SEED + number), (whole,))


def _told(course: Course, policy: str, share: float, report: Report, where: str) -> Found:
    report(f"{where}: {policy}")
    known = next(each for each in ALL if each == policy)
    return course.run(known, round(share * course.saturation))


def _columns(course: Course, policy: str, found: Found) -> Row:
    return {
        "policy": policy,
        "results": found.total,
        "share_of_full": rounded(found.total / course.full.total),
        "estimated_share": None if found.share is None else rounded(found.share),
        "probes": round(found.probes),
        "probes_of_full": rounded(found.probes / course.full.probes),
        "candidates": found.candidates,
    }
