"""Every class of bad input to ``replay``, with the words that a person sees; nothing is dropped uncounted."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import thalweg
from thalweg.errors import BindError, InputError, OptionError, PlanError, QueryError
from thalweg.replayer import run

TEXT = "SELECT a.v AS x, b.v AS y FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS] WHERE a.k = b.k"
SECOND = 1_000_000


def stream(times: list[Any], keys: list[Any] | None = None) -> pa.Table:
    return pa.table(
        {
            "ts": pa.array(times, pa.int64()),
            "k": pa.array(keys or [1] * len(times), pa.int64()),
            "v": pa.array(range(len(times)), pa.int64()),
        }
    )


STREAMS = {"a": stream([0, SECOND, 2 * SECOND]), "b": stream([SECOND, 30 * SECOND])}


def test_rows_without_a_time_are_counted_and_kept_out() -> None:
    result = run(TEXT, {"a": stream([0, None, 2]), "b": stream([None, 1])})
    assert result.summary.bad == {"a": 1, "b": 1}
    assert result.summary.tuples_in == {"a": 2, "b": 1}
    assert result.table.to_pylist() == [{"x": 0, "y": 1}, {"x": 2, "y": 1}]


def test_unsorted_rows_are_sorted() -> None:
    shuffled = {"a": STREAMS["a"].take([2, 0, 1]), "b": STREAMS["b"].take([1, 0])}
    assert thalweg.replay(TEXT, shuffled).equals(thalweg.replay(TEXT, STREAMS))


def test_late_rows_are_counted_and_can_be_had() -> None:
    disordered = {"a": stream([0, 20 * SECOND, 5 * SECOND, 19 * SECOND]), "b": stream([0, 10 * SECOND, 30 * SECOND])}
    result = run(TEXT, disordered, options={"lateness": "2 seconds", "late_rows": "table"})
    assert result.summary.late == {"a": 1, "b": 0}
    assert result.late["a"].to_pylist() == [{"ts": 5 * SECOND, "k": 1, "v": 2}]
    assert run(TEXT, disordered).summary.late == {"a": 0, "b": 0}


@pytest.mark.parametrize("empty", ["a", "b"])
def test_an_empty_table_joins_nothing(empty: str) -> None:
    answer = thalweg.replay(TEXT, {**STREAMS, empty: stream([])})
    assert answer.num_rows == 0
    assert answer.schema.names == ["x", "y"]


def fails(error: type[Exception], says: str, text: str = TEXT, streams: Any = None, **arguments: Any) -> None:
    with pytest.raises(error) as caught:
        run(text, STREAMS if streams is None else streams, **arguments)
    assert str(caught.value) == says


def test_a_missing_time_column() -> None:
    fails(
        InputError,
        "stream 'a' has no column 'when' to take its event time from. Its columns are ts, k, v. "
        "Say which one it is with time=..., or that it is a static relation with time={'a': None}.",
        time={"a": "when"},
    )


def test_a_time_column_of_another_type() -> None:
    texts = pa.table({"ts": ["noon"], "k": [1], "v": [1]})
    with pytest.raises(BindError, match=r"'ts'.*string"):
        run(TEXT, {**STREAMS, "a": texts})


def test_a_missing_column() -> None:
    fails(
        BindError,
        "stream 'b' has no column 'key' (line 1, column 89). Its columns are ts, k, v.",
        TEXT.replace("b.k", "b.key"),
    )


def test_keys_of_types_that_cannot_be_equal() -> None:
    with pytest.raises(BindError, match=r"line 1, column \d+"):
        run(TEXT, {**STREAMS, "a": pa.table({"ts": [0], "k": ["x"], "v": [0]})})


def test_a_missing_stream() -> None:
    with pytest.raises(BindError, match="'b'"):
        run(TEXT, {"a": STREAMS["a"]})


def test_something_that_is_no_table() -> None:
    with pytest.raises(InputError, match="stream 'a' is a int that cannot be read as a table"):
        run(TEXT, {**STREAMS, "a": 7})


def test_plans_that_do_not_fit() -> None:
    fails(PlanError, "plan 'a c': 'c' is not a stream of the query. Its streams are a, b.", options={"plan": "a c"})
    fails(
        PlanError,
        "plan 'a': stream 'b' is missing; every stream of the query stands exactly once, as in 'a b'",
        options={"plan": "a"},
    )


def test_transitions_that_cannot_happen() -> None:
    fails(
        PlanError,
        "the transition to 'b a' at position 6 is past the end: the input has 5 tuples",
        transitions=[(6, "b a")],
    )
    fails(PlanError, "a transition happens at a position counted from 0, not -1", transitions=[(-1, "b a")])
    fails(PlanError, "a transition happens at a position counted from 0, not 1.5", transitions=[(1.5, "b a")])
    assert run(TEXT, STREAMS, transitions=[(5, "b a")]).summary.results == 3


def test_options_that_do_not_exist_or_fit() -> None:
    fails(OptionError, "unknown option 'plann'. Did you mean 'plan'?", options={"plann": "a b"})
    fails(OptionError, "option states is one of auto, all, none, not 'some'", options={"states": "some"})
    known = "jisc, moving_state, parallel_track, cacq, stairs, stairs_jisc, parallel_track_printed, jisc_printed"
    fails(OptionError, f"option migration is one of {known}, not 'lazy'", options={"migration": "lazy"})
    unlike = "option memory_limit is a number of bytes or a text such as '64 MB', not '64 loaves'"
    fails(OptionError, unlike, options={"memory_limit": "64 loaves"})
    alone = "option memory_limit makes keys absent, which goes with migration jisc, not moving_state"
    fails(OptionError, alone, options={"memory_limit": "64 MB", "migration": "moving_state"})
    fails(OptionError, "option batch_size is a number of tuples, at least 1, not 0", options={"batch_size": 0})
    fails(
        OptionError,
        "option adaptive is True, False or thalweg.Adaptivity(...), not 'yes'",
        options={"adaptive": "yes"},
    )
    fails(
        OptionError,
        "unknown setting of adaptive 'perod'. Did you mean 'period'?",
        options={"adaptive": {"perod": 1}},
    )
    fails(
        OptionError,
        "setting period of adaptive is a number, at least 1, not 0",
        options={"adaptive": {"period": 0}},
    )
    fails(
        OptionError,
        "setting gain of adaptive is a share, at least 0 and less than 1, not 1.5",
        options={"adaptive": {"gain": 1.5}},
    )
    fails(
        OptionError,
        "option production is push, jit, auto or thalweg.Feedback(...), not 'pull'",
        options={"production": "pull"},
    )
    fails(
        OptionError,
        "unknown setting of production 'latice'. Did you mean 'lattice'?",
        options={"production": {"latice": 2}},
    )
    fails(
        OptionError,
        "option production: when is one of always, auto, not 'never'",
        options={"production": {"when": "never"}},
    )
    for lattice in (0, 1.5, True):
        fails(
            OptionError,
            f"setting lattice of production is a number of components, at least 1, not {lattice}",
            options={"production": {"lattice": lattice}},
        )
    for bits in (0, 100, 2.0, True, 1 << 31):
        fails(
            OptionError,
            f"setting filter_bits of production is a power of two up to 1,073,741,824, or None, not {bits}",
            options={"production": {"filter_bits": bits}},
        )
    with pytest.raises(OptionError, match="option lateness is '2 fortnights': unknown unit of time 'fortnights'"):
        run(TEXT, STREAMS, options={"lateness": "2 fortnights"})


def test_several_queries_and_none_picked() -> None:
    two = f"CREATE QUERY p AS {TEXT}; CREATE QUERY q AS {TEXT}"
    fails(QueryError, "the text has 2 queries (p, q). Say which one to replay.", two)
    fails(QueryError, "the text has no query 'r'. Its queries are p, q.", two, query="r")
    assert run(two, STREAMS, query="q").summary.query == "q"
