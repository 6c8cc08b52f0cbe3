"""The JAQPOT experiment from end to end, in sizes that take seconds."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.plan.allocation.linear_programs import least_cover_cost
from tests.plan.allocation.models import fresh_model, tree
from thalweg.errors import InputError, ThalwegError
from thalweg.experiments import EXPERIMENTS, answers, jaqpot
from thalweg.experiments.experiment import Claim, Document, Row
from thalweg.experiments.jaqpot import (
    analysis,
    correlated,
    driving,
    on_spark,
    sensors,
    staleness,
    throughput,
    unlimited,
)
from thalweg.experiments.jaqpot.driving import ALL, HALF_WAY, Course, Judge
from thalweg.experiments.jaqpot.pipeline import allowances_of, fill, pipeline_of, run
from thalweg.experiments.jaqpot.sizes import (
    TRIGGERS,
    Analysis,
    Budgets,
    Correlated,
    Fluctuating,
    Sensors,
    Sizes,
    Staleness,
    Unlimited,
)
from thalweg.experiments.jaqpot.workloads import SHAPES, Setting, Shape, Workload, chain, draw_settings
from thalweg.plan.allocation import AllocationModel, StreamLoad, allocate, model_of_tree, saturation
from thalweg.plan.allocation.freshness import refresh_rates
from thalweg.plan.allocation.set_cover import cost_of, greedy_cover, least_cover
from thalweg.plan.tree import Node, joins, state_nodes

SMALL = Sizes(
    Fluctuating(0.3, rate=400.0, window=100),
    Budgets(1, 1.0, (0, 30, 60, 100), 100_000),
    Sensors(0.2, compressed=500, window=100, budgets=(100,)),
    Staleness(2, 5.0, Budgets(1, 0.5, (0, 30, 60, 100), 1_000_000)),
    Analysis((3, 4), 2, 2, 1),
    Correlated(5.0, 200.0, 1.0, (40, 80)),
    Unlimited(20_000, 1),
)


@pytest.fixture(scope="module")
def document() -> Document:
    kept: list[int] = []
    document = jaqpot.measure("quick", SMALL, lambda text: None, lambda sofar: kept.append(len(sofar["rows"])))
    assert kept == sorted(set(kept)), "after every part there is more"
    assert kept[-1] == len(document["rows"])
    return document


def of(document: Document, part: str) -> list[Row]:
    return [row for row in document["rows"] if row["part"] == part]


def claimed(document: Document) -> dict[str, float]:
    return {claim["claim"]: claim["measured"] for claim in document["claims"]}


# -- The document ---------------------------------------------------------------------------


def test_the_document_has_the_agreed_fields_and_is_json(document: Document) -> None:
    assert list(document) == ["bench", "scale", "machine", "rows", "claims"]
    assert (document["bench"], document["scale"]) == ("jaqpot", "quick")
    assert json.loads(json.dumps(document)) == document


def test_rows_of_a_part_have_the_same_columns(document: Document) -> None:
    columns: dict[object, list[str]] = {}
    for row in document["rows"]:
        assert list(row) == columns.setdefault(row["part"], list(row))
    assert list(columns) == [
        throughput.FIGURE_6,
        throughput.FIGURE_7,
        throughput.EACH,
        throughput.KEPT,
        throughput.EACH_KEPT,
        sensors.FIGURE_8,
        staleness.FIGURE_9,
        staleness.FIGURE_9D,
        staleness.FIGURE_7,
        analysis.OVERHEAD,
        analysis.COVER,
        correlated.CORRELATED,
        unlimited.PART,
    ]


def test_results_add_up_minute_by_minute(document: Document) -> None:
    rows = of(document, throughput.FIGURE_6)
    assert [(row["plan"], row["policy"], row["minute"]) for row in rows] == list(product(SHAPES, ALL, range(1, 11)))
    for place in range(0, len(rows), throughput.MINUTES):
        results = [row["results"] for row in rows[place : place + throughput.MINUTES]]
        assert results == sorted(results)
        assert results[-1] > 0


def test_a_budget_leaves_results_out_and_nothing_else(document: Document) -> None:
    for row in of(document, throughput.FIGURE_7):
        assert row["at_0%"] == 0
        assert row["at_100%"] > 0.6, row
        if row["policy"] in ("jaqpot", throughput.OPTIMUM):
            assert row["at_100%"] == pytest.approx(1, abs=0.1), row
    full: dict[object, object] = {}
    for row in of(document, throughput.EACH):
        if row["budget_%"] == 0:
            assert row["results"] == row["probes"] == 0
        if row["budget_%"] == 60:
            assert row["probes_of_full"] < 0.8, row
            if row["policy"] != "random_shedding":
                assert row["estimated_share"] == pytest.approx(row["share_of_full"], rel=0.5, abs=0.05), row
        full.setdefault((row["plan"], row["setting"]), row)
    assert len(full) == len(SHAPES)


def test_claims_follow_from_the_rows(document: Document) -> None:
    found = claimed(document)
    linear = {row["policy"]: row for row in of(document, throughput.FIGURE_7) if row["plan"] == "linear"}
    assert found["figure 7, linear: results at 60% of saturation, of all"] == linear["jaqpot"]["at_60%"]
    mean = sum(linear["jaqpot"][at] / max(linear[each][at] for each in HALF_WAY) for at in ("at_30%", "at_60%")) / 2
    claim = "figure 7, linear: results, jaqpot / the best half-way heuristic, the mean over budgets"
    assert found[claim] == pytest.approx(mean, rel=0.01)
    for figure in ("figure 6", "figure 7", "figure 7, states kept", "figure 8", "correlated streams"):
        assert found[f"{figure}: stale results at 1.5 times the windows"] == 0
    worst = max(row["jaqpot"] or 0 for row in of(document, staleness.FIGURE_9))
    claim = "figure 9, by the model: share of stale results of jaqpot, where freshness can be held, at most"
    assert found[claim] == pytest.approx(worst)
    assert found["set cover, the cheapest cover: probes to those of the optimum, the mean"] == pytest.approx(1)
    assert found["no budget: joins that are given accounts to pay from"] == 0


def test_what_is_held_where_is_said(document: Document) -> None:
    rows = of(document, staleness.FIGURE_9)
    assert [(row["plan"], row["freshness"]) for row in rows] == list(product(staleness.PLANS, ("1.5 x", "3 x", "5 x")))
    for row in rows:
        assert row["feasible"] <= row["settings"]
        assert (row["jaqpot"] is None) == (row["feasible"] == 0)
        if row["plan"] != "weatherboards" and row["freshness"] == "5 x":
            assert row["feasible"] == row["settings"], "that is what settings are drawn for"
    for row in of(document, staleness.FIGURE_9D):
        if row["feasible"]:
            assert 0 < row["spent_by_the_cheapest_cover"] <= row["spent_by_GH-WMSCP"] <= 1


def test_plots_are_drawn(document: Document, tmp_path: Path) -> None:
    plot = EXPERIMENTS["jaqpot"].plot
    assert plot is not None
    files = plot(document, tmp_path / "new")
    assert [file.name for file in files] == [
        "figure_6.png",
        "figure_7.png",
        "figure_7_kept.png",
        "figure_7_model.png",
        "figure_8.png",
        "figure_9.png",
        "figure_9d.png",
        "analysis.png",
        "correlated.png",
    ]
    for file in files:
        assert file.read_bytes().startswith(b"\x89PNG")


def test_triggers_of_an_overload_are_drawn(document: Document, tmp_path: Path) -> None:
    trigger: Row = {"part": TRIGGERS, "begun": 9.0, "rows": 100, "seconds": 2.0, "target": 3.0, "share": 0.5}
    rows: list[Row] = [trigger, {**trigger, "begun": 12.0, "share": None}, {**trigger, "begun": 15.0, "rows": 0}]
    plot = EXPERIMENTS["jaqpot"].plot
    assert plot is not None
    (file,) = plot({**document, "rows": rows}, tmp_path)
    assert file.name == "overload.png"
    assert file.read_bytes().startswith(b"\x89PNG")


# -- Workloads, and who checks results --------------------------------------------------------


def small_chain(shape: Shape = "linear") -> Workload:
    return chain(shape, [(1.5, Setting((20.0, 30.0, 25.0, 20.0), (8, 12, 10, 9), (0.25, 0.5, 0.2)))], seed=3)


def naive(workload: Workload) -> list[tuple[int, ...]]:
    """All results, by comparing everything with everything."""
    tables = [table.to_pylist() for table in workload.tables.values()]
    arrived = sorted((row["ts"], stream, row["id"]) for stream, rows in enumerate(tables) for row in rows)
    windows: list[list[int]] = [[] for _ in tables]
    found = []
    for time, stream, row in arrived:
        windows[stream].append(row)
        if workload.unit == "rows":
            windows[stream] = windows[stream][-workload.windows[stream] :]
        else:
            for other, size in enumerate(workload.windows):
                windows[other] = [each for each in windows[other] if time - tables[other][each]["ts"] < size]
        held = [[row] if other == stream else each for other, each in enumerate(windows)]
        for ids in product(*held):
            mine = {name: tables[i][ids[i]] for i, name in enumerate(workload.names)}
            if all(mine[a][x] == mine[b][y] for (a, x), (b, y) in workload.equal):
                found.append(ids)
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_with_nothing_refused_all_results_are_found(shape: Shape) -> None:
    workload = small_chain(shape)
    every = naive(workload)
    course = Course(workload, (workload.seconds,))
    assert len(every) > 500
    judge = Judge(workload, 1.5)
    judged = judge.judge(np.array(every).T)
    assert judged.stale == 0
    assert course.full.total == int((judged.times >= workload.filled * 1e6).sum()) > 100
    assert sum(found for _, found in course.full.paths) == len(every)
    assert course.optimum(1.0) == pytest.approx(1)
    assert 1 / 3 <= course.optimum(1 / 3) < 1
    assert course.run("grepp", round(course.saturation / 3)).total < course.full.total


def test_windows_of_time_are_checked_too() -> None:
    workload = correlated.lagged(Correlated(3.0, 20.0, 1.0, (20,)), seed=1)
    every = naive(workload)
    course = Course(workload, (workload.seconds,))
    judged = Judge(workload, 1.5).judge(np.array(every).T)
    assert course.full.total == int((judged.times >= 1e6).sum()) > 100


def test_what_is_no_result_is_noticed() -> None:
    workload = small_chain()
    ids = np.array(naive(workload)).T
    judge = Judge(workload, 1.5)
    other = ids.copy()
    values = workload.tables["a"]["x"].to_numpy()
    other[0, 0] = int(np.flatnonzero(values != values[ids[0, 0]])[0])
    with pytest.raises(ThalwegError, match=r"a result has a\.x that is not its b\.x"):
        judge.judge(other)
    with pytest.raises(ThalwegError, match=r"1 of .* results were found twice"):
        judge.judge(np.hstack([ids, ids[:, :1]]))
    short = Judge(replace(workload, windows=(8, 12, 10, 5)), 1.5)
    with pytest.raises(ThalwegError, match="a result has a tuple of d that is not in its window"):
        short.judge(ids)
    assert Judge(workload, 0.5).judge(ids).stale > 0, "fresher than the window cannot be"


def test_a_join_that_answers_too_much_ends_the_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = answers.ids_of
    monkeypatch.setattr(driving.answers, "ids_of", lambda table: np.hstack([honest(table), honest(table)[:, :1]]))
    with pytest.raises(ThalwegError, match="found twice"):
        throughput.by_budget(SMALL.budgets, lambda text: None)


def test_settings_are_those_of_table_3() -> None:
    settings = draw_settings(1, 5, 200_000)
    assert settings == draw_settings(1, 5, 200_000)
    for setting in settings:
        joined = np.prod(setting.selectivities) * np.prod(setting.windows)
        assert joined * np.sum(np.divide(setting.rates, setting.windows)) <= 200_000
        assert all(300 <= rate <= 1200 for rate in setting.rates)
        assert all(200 <= window <= 5000 for window in setting.windows)
        assert all(0.01 <= share <= 0.1 for share in setting.selectivities)


# -- The model of the paper's states ----------------------------------------------------------


def three(sizes: float, *, selectivity: float = 1.0) -> AllocationModel:
    """(A B) C with windows of 3, 4 and 5 tuples."""
    shape = tree("(A B) C", 3)
    loads = [StreamLoad(name, 50.0, window, 1.5 * window / 50) for name, window in zip("ABC", (3, 4, 5), strict=True)]
    nodes: list[Node] = [join.node for join in joins(shape)]
    return model_of_tree(shape, loads, dict.fromkeys(nodes, selectivity), dict.fromkeys(state_nodes(shape), sizes))


def naive_pipeline(
    arrivals: list[tuple[float, int]], sizes: tuple[int, int, int, int], limits: list[float]
) -> list[int]:
    """(A B) C where everything joins: results, and the stale ones."""
    states: list[list[tuple[float, ...]]] = [[], [], [], []]
    counts = [0, 0]

    def insert(state: int, entry: tuple[float, ...]) -> None:
        states[state] = [*states[state], entry][-sizes[state] :]

    def emit(now: float, times: tuple[float, ...]) -> None:
        counts[0] += 1
        counts[1] += any(now - time > limit for time, limit in zip(times, limits, strict=True))

    for now, stream in arrivals:
        insert(stream, (now,))
        if stream == 2:
            for a, b in states[3]:
                emit(now, (a, b, now))
            continue
        for (partner,) in states[1 - stream]:
            pair = (now, partner) if stream == 0 else (partner, now)
            insert(3, pair)
            for (c,) in states[2]:
                emit(now, (*pair, c))
    return counts


def test_the_model_does_what_a_naive_twin_does() -> None:
    model = three(6.0)
    shape = tree("(A B) C", 3)
    pipeline = pipeline_of(shape, model)
    allowances = np.full(5, np.inf)
    counted = run(pipeline, model, allowances, (1.5,), np.random.default_rng(5), 0.0, 20.0)
    rng = np.random.default_rng(5)
    counts = [rng.poisson(50.0 * 20.0) for _ in range(3)]
    arrivals = sorted((float(time), stream) for stream in range(3) for time in rng.uniform(0.0, 20.0, counts[stream]))
    limits = [1.5 * window / 50 for window in (3, 4, 5)]
    results, stale = naive_pipeline(arrivals, (3, 4, 5, 6), limits)
    assert (counted.results, counted.stale) == (results, (stale,))
    assert 0 < stale < results


def test_a_starved_state_makes_results_stale() -> None:
    model = three(6.0)
    shape = tree("(A B) C", 3)
    only_c = {half_way.bound: float(half_way.bound == frozenset({2})) * 1e9 for half_way in model.half_ways}
    starving = tuple(only_c[half_way.bound] for half_way in model.half_ways)
    rng = np.random.default_rng(1)
    pipeline = pipeline_of(shape, model)
    begin = fill(pipeline, model, rng)
    counted = run(pipeline, model, allowances_of(shape, model, starving), (1.5, 1e9), rng, begin, 10.0)
    assert counted.stale[0] > 0.9 * counted.results > 0
    assert counted.stale[1] == 0


def test_nothing_is_paid_beyond_an_allowance() -> None:
    model = three(6.0)
    shape = tree("(A B) C", 3)
    budget = saturation(model) / 4
    half_ways = allocate(model, budget, "grepp").of_half_ways(model)
    rng = np.random.default_rng(1)
    pipeline = pipeline_of(shape, model)
    begin = fill(pipeline, model, rng)
    counted = run(pipeline, model, allowances_of(shape, model, half_ways), (), rng, begin, 200.0)
    assert 0.8 * budget * 200 < counted.probes <= budget * 200 + len(half_ways)


def test_states_that_nothing_joins_do_not_fill() -> None:
    model = three(6.0, selectivity=1e-12)
    with pytest.raises(ThalwegError, match="do not fill"):
        fill(pipeline_of(tree("(A B) C", 3), model), model, np.random.default_rng(1))


@pytest.mark.parametrize("seed", range(8))
def test_the_optimum_of_covers_is_that_of_a_linear_program(seed: int) -> None:
    model = fresh_model(random.Random(seed))
    refresh = refresh_rates(model)
    least = analysis.optimum(model, refresh)
    assert least == pytest.approx(least_cover_cost(model, refresh), rel=1e-5, abs=1e-9)
    assert cost_of(model, least_cover(model, refresh)) == pytest.approx(least, rel=1e-5, abs=1e-9)
    assert cost_of(model, greedy_cover(model, refresh)) >= least * (1 - 1e-5)


def test_spark_is_asked_last(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def told(sizes: object, report: object) -> tuple[list[Row], list[Claim]]:
        asked.append(sizes)
        return [{"part": on_spark.OVERLOAD}], [Claim(claim="so it is", measured=1.0, bar=">= 1", holds=True)]

    monkeypatch.setattr(on_spark, "overload_on_spark", told)
    nothing = replace(SMALL, analysis=replace(SMALL.analysis, streams=(3,), covers=1))
    for name in ("while_streams_change", "by_budget"):
        monkeypatch.setattr(throughput, name, lambda *_, **__: ([], []))
    for name in ("stale_results", "throughput"):
        monkeypatch.setattr(staleness, name, lambda *_: ([], []))
    monkeypatch.setitem(jaqpot.SIZES, "quick", nothing)
    document = jaqpot.run("quick", lambda _: None, lambda _: None)
    assert asked == [on_spark.SIZES["quick"]]
    assert document["rows"][-1] == {"part": on_spark.OVERLOAD}
    assert document["claims"][-1]["claim"] == "so it is"


# -- Sensors ----------------------------------------------------------------------------------


def test_generated_sensors_are_like_those_of_the_data() -> None:
    """Of the data's five days: 92,252 readings a day, temperatures 22.6 ± 3.3, humidity 38.7 ± 5.4, light 440 ± 580."""
    readings, positions = sensors.generated(2.0)
    assert len(readings) / 2 == pytest.approx(92_252, rel=0.02)
    assert readings.column_names == ["ts", "epoch", "moteid", "temperature", "humidity", "light", "voltage"]
    assert readings["ts"].type == pa.timestamp("us")
    means = {name: float(readings[name].to_numpy().mean()) for name in readings.column_names[3:]}
    assert means["temperature"] == pytest.approx(22.6, abs=1.5)
    assert means["humidity"] == pytest.approx(38.7, abs=2.5)
    assert means["light"] == pytest.approx(440, rel=0.5)
    assert means["voltage"] == pytest.approx(2.62, abs=0.05)
    assert float(readings["temperature"].to_numpy().std()) == pytest.approx(3.3, rel=0.3)
    assert len(positions) == 51
    assert np.unique(readings["moteid"].to_numpy()).tolist() == sorted(positions)


def test_groups_are_in_proximity() -> None:
    _, positions = sensors.generated(0.01)
    groups = sensors.groups_of(positions)
    assert [list(groups.values()).count(number) for number in range(5)] == [11, 10, 10, 10, 10]
    ends = [[positions[s][0] for s in positions if groups[s] == number] for number in range(5)]
    assert all(max(left) <= min(right) for left, right in pairwise(ends))


def test_data_are_read_from_a_file(tmp_path: Path) -> None:
    readings, positions = sensors.generated(0.2)
    file = tmp_path / "lab.parquet"
    with pytest.raises(InputError, match=r"there is no file .*lab\.parquet"):
        sensors.read(file)
    pq.write_table(readings, file)
    with pytest.raises(InputError, match=r"there is no file .*mote_locs\.txt"):
        sensors.read(file)
    lines = [f"{sensor} {x} {y}" for sensor, (x, y) in positions.items()]
    (tmp_path / "mote_locs.txt").write_text("\n".join(lines))
    read, places = sensors.read(file)
    assert places == positions
    assert len(read) == len(readings)
    small = replace(SMALL.sensors, window=50)
    mine, theirs = (sensors.workload_of(each, positions, small) for each in (readings, read))
    assert all(mine.tables[name].equals(theirs.tables[name]) for name in mine.names)
    (tmp_path / "mote_locs.txt").write_text("1 2\n")
    with pytest.raises(InputError, match=r"line 1: '1 2' is no sensor with its x and y"):
        sensors.read(file)
    (tmp_path / "mote_locs.txt").write_text("1 2 3\n")
    with pytest.raises(InputError, match="says nothing of the sensors 2, 3"):
        sensors.workload_of(*sensors.read(file), small)
    pq.write_table(readings.drop_columns(["temperature"]), file)
    with pytest.raises(InputError, match="has no column temperature"):
        sensors.read(file)


def test_a_group_with_less_than_a_window_is_refused() -> None:
    readings, positions = sensors.generated(0.05)
    with pytest.raises(InputError, match=r"has \d+ readings, and its window holds 100000"):
        sensors.workload_of(readings, positions, replace(SMALL.sensors, window=100_000))
