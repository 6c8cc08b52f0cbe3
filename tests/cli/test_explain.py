"""``thalweg explain``: text and JSON, from files and from schemas."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke
from thalweg.adapt.decision import Decision
from thalweg.cli.live import write_live
from thalweg.cli.progress import BatchReport, Totals

SCHEMAS = [
    argument
    for name, column in (("A", "x"), ("B", "y"), ("C", "z"))
    for argument in ("--schema", f"{name}=k BIGINT, {column} BIGINT, ts TIMESTAMP")
]
TWO = (
    "CREATE QUERY ab AS SELECT A.x, B.y FROM A [RANGE 10 SECONDS], B [RANGE 10 SECONDS] WHERE A.k = B.k;\n"
    "CREATE QUERY bc AS SELECT B.y, C.z FROM B [NOW], C [NOW] WHERE B.k = C.k;\n"
)


def document(result: object) -> list[dict[str, object]]:
    parsed: list[dict[str, object]] = json.loads(result.stdout)  # type: ignore[attr-defined]
    return parsed


def test_text_from_schemas(thalweg: Invoke, shop: Path) -> None:
    result = thalweg("explain", shop / "abc.cql", *SCHEMAS)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("query1: join of 3 streams")
    assert "A.k = B.k = C.k" in result.stdout
    assert "RANGE 10 seconds" in result.stdout


def test_text_from_files_has_their_statistics(thalweg: Invoke, shop: Path, sources: list[str]) -> None:
    assumed = thalweg("explain", shop / "abc.cql", *SCHEMAS, "--json")
    measured = thalweg("explain", shop / "abc.cql", *sources, "--json")
    assert measured.exit_code == 0, measured.output
    rates = [[stream["rate"] for stream in document(result)[0]["streams"]] for result in (assumed, measured)]  # type: ignore[attr-defined]
    assert rates[0] == [1000.0] * 3
    assert all(rate < 10 for rate in rates[1])


def test_with_buckets_also_what_travels_to_them(thalweg: Invoke, shop: Path) -> None:
    text = "SELECT A.x FROM A [NOW], B [NOW] WHERE A.k = B.k"
    result = thalweg("explain", "-", *SCHEMAS, "--buckets", "4", input=text)
    assert "columns that travel to the buckets\n  A: 3 of 3: k, x, ts\n  B: 2 of 3: k, ts\n" in result.stdout
    assert document(thalweg("explain", "-", *SCHEMAS, "--json", input=text))[0]["carried"] is None


def test_a_static_relation(thalweg: Invoke, shop: Path) -> None:
    (shop / "names.csv").write_text("k,name\n1,one\n2,two\n")
    text = "SELECT A.x, names.name FROM A, names WHERE A.k = names.k"
    result = thalweg("explain", "-", *SCHEMAS, f"--static=names={shop}/names.csv", input=text)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("query1: join of 1 stream and 1 static relation")
    assert "static relation, read once" in result.stdout
    clash = thalweg("explain", "-", *SCHEMAS, f"--static=A={shop}/names.csv", input=text)
    assert clash.exit_code == 2
    assert "'A' is a stream already." in clash.output


def test_a_plan_and_its_states(thalweg: Invoke, shop: Path) -> None:
    result = thalweg("explain", shop / "abc.cql", *SCHEMAS, "--plan", "(B C) A", "--states", "all", "--json")
    assert result.exit_code == 0, result.output
    (explained,) = document(result)
    assert explained["plan"]["text"] == "(B C) A"  # type: ignore[index]
    assert [state["state"] for state in explained["states"]] == ["B⋈C"]  # type: ignore[attr-defined]


def test_the_policy_of_production(thalweg: Invoke, shop: Path) -> None:
    plan = ["--plan", "(B C) A", "--states", "all"]
    assert "production  push: " in thalweg("explain", shop / "abc.cql", *SCHEMAS, *plan).stdout
    result = thalweg("explain", shop / "abc.cql", *SCHEMAS, *plan, "--production", "jit")
    assert result.exit_code == 0, result.output
    assert "production  jit: " in result.stdout
    assert "  B⋈C waits for A with its k: a new B or C stops at once\n" in result.stdout


def test_how_a_budget_is_divided(thalweg: Invoke) -> None:
    assert "budget" not in thalweg("explain", "-", *SCHEMAS, input=TWO).stdout
    result = thalweg("explain", "-", *SCHEMAS, "--budget", "50%", input=TWO)
    assert result.exit_code == 0, result.output
    assert "probes/s, divided by jaqpot: about " in result.stdout
    assert "enough: about " in thalweg("explain", "-", *SCHEMAS, "--budget", "100%", input=TWO).stdout
    nothing = thalweg("explain", "-", *SCHEMAS, "--budget", "0", "--json", input=TWO)
    budgets = [query["budget"] for query in json.loads(nothing.stdout)]
    assert [budget["share"] for budget in budgets] == [0] * len(budgets)
    assert all(step["allowed"] == 0 for budget in budgets for path in budget["programs"].values() for step in path)


def test_several_queries(thalweg: Invoke) -> None:
    every = thalweg("explain", "-", *SCHEMAS, "--json", input=TWO)
    assert [each["query"] for each in document(every)] == ["ab", "bc"]
    one = thalweg("explain", "-", *SCHEMAS, "--query", "bc", input=TWO)
    assert one.exit_code == 0, one.output
    assert one.stdout.startswith("bc: ")
    assert "ab: " not in one.stdout


SHARED = (
    "CREATE QUERY one AS SELECT A.x FROM A, B WHERE A.k = B.k WINDOW RANGE 1 SECOND;\n"
    "CREATE QUERY two AS SELECT A.x FROM A, B WHERE A.k = B.k AND A.x > 1 WINDOW RANGE 1 MINUTE;\n"
)


def test_queries_that_share_a_join(thalweg: Invoke) -> None:
    text = thalweg("explain", "-", *SCHEMAS, input=SHARED)
    assert text.exit_code == 0, text.output
    assert text.stdout.startswith(
        "2 queries, 1 join\n  one, two: share a join\n\none and 1 more: 2 queries over one join"
    )
    (group,) = document(thalweg("explain", "-", *SCHEMAS, "--json", "--sharing", "memory", input=SHARED))
    assert group["kind"] == "group"
    assert [query["query"] for query in group["queries"]] == ["one", "two"]  # type: ignore[attr-defined]
    assert group["sharing"]["strategy"] == "memory"  # type: ignore[index]
    apart = document(thalweg("explain", "-", *SCHEMAS, "--json", "--sharing", "none", input=SHARED))
    assert [each["query"] for each in apart] == ["one", "two"]
    assert thalweg("explain", "-", *SCHEMAS, "--query", "two", input=SHARED).stdout.startswith("two: join of 2 streams")


def test_what_travels_to_buckets_is_told_of_each_query(thalweg: Invoke) -> None:
    result = thalweg("explain", "-", *SCHEMAS, "--buckets", "4", input=SHARED)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("columns that travel to the buckets\n") == 2


def test_the_plan_of_an_except_query(thalweg: Invoke) -> None:
    text = "SELECT k FROM A [RANGE 1 HOUR] EXCEPT SELECT k FROM B [RANGE 1 HOUR]"
    result = thalweg("explain", "-", *SCHEMAS, "--json", input=text)
    assert result.exit_code == 0, result.output
    assert document(result)[0]["plan"] == {"text": "A - B", "kind": "difference", "tree": None}
    refused = thalweg("explain", "-", *SCHEMAS, "--plan", "A B", input=text)
    assert refused.exit_code == 1
    assert refused.stderr == ("error: plan 'A B': 'B' has no place there in a set difference. Write it like 'A - B'.\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--plan", "A B"], "error: plan 'A B': stream 'C' is missing"),
        (["--query", "nope"], "error: the text has no query 'nope'. Its queries are query1."),
    ],
)
def test_errors(thalweg: Invoke, shop: Path, arguments: list[str], message: str) -> None:
    result = thalweg("explain", shop / "abc.cql", *SCHEMAS, *arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(message)


def test_a_query_error_on_stdin_shows_its_place(thalweg: Invoke) -> None:
    result = thalweg("explain", "-", *SCHEMAS, input="SELECT A.k\nFROM A [NOW], D [NOW]")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "error: there is no stream 'D' (line 2, column 15). The streams are A, B, C.",
        " --> stdin:2:15",
        "  |",
        "2 | FROM A [NOW], D [NOW]",
        "  |               ^",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--schema", "A=k BIGNT"], "A: 'BIGNT' is no type"),
        (["--schema", "A"], "'A' is not of the form"),
        (["--schema", "A=k INT", "--source", "A=a.csv"], "'A' also has a --source"),
        (["--schema", "A=k INT", "--time", "B=ts"], "'B' is no source; the sources are: A"),
    ],
)
def test_wrong_usage_exits_with_2(thalweg: Invoke, shop: Path, arguments: list[str], message: str) -> None:
    result = thalweg("explain", shop / "abc.cql", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in " ".join(result.stderr.replace("│", " ").split())


HISTORY = [
    {
        "bucket": 0,
        "changes": 1,
        "periods": [
            {
                "batch": 0,
                "position": 0,
                "plan": "(A B) C",
                "reason": "chosen for the first rows",
                "states": [],
                "time": None,
            },
            {
                "batch": 7,
                "position": 91_000,
                "plan": "(B C) A keeping B⋈C",
                "reason": "the streams moved by 80%; a gain of 40% is expected",
                "states": [
                    {
                        "state": "B⋈C",
                        "complete_at_start": False,
                        "entries": 1200,
                        "live_keys": 300,
                        "completed_at": None,
                        "course": [[91_000, 0], [95_000, 300]],
                    }
                ],
                "time": "2024-05-01T12:00:00.250000+00:00",
            },
        ],
        "decisions": [
            Decision(
                position=91_000,
                action="change",
                reason="the streams moved by 80%; a gain of 40% is expected",
                plan="(A B) C",
                to="(B C) A keeping B⋈C",
                predicted_before=100.0,
                predicted_after=60.0,
                price=1e6,
                observed_before=120.0,
                observed_after=90.0,
            ).to_json(),
        ],
    },
    {"bucket": 1, "changes": 0, "periods": [], "decisions": []},
]


def totals(savings: dict[str, int] | None = None) -> Totals:
    """A run after batch 9."""
    none = Counter[str]()
    last = BatchReport(9, 0, 0, none, none, None, (), 0, 0, 0, 0, 0, 0.5, histories=tuple(HISTORY))
    return Totals(last=last, savings=Counter(savings or {}))


def test_the_plans_of_a_running_query(thalweg: Invoke, tmp_path: Path) -> None:
    write_live(tmp_path, "spread", totals())
    result = thalweg("explain", "--live", tmp_path)
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["spread", "after", "batch", "9"]
    assert "bucket 0: 1 plan change" in result.stdout
    assert "bucket 1: 0 plan changes" in result.stdout
    assert ["7", "91,000", "2024-05-01", "12:00:00.250"] in [line[:4] for line in lines]
    assert "(B C) A keeping B⋈C" in result.stdout
    assert "a gain of 40% is expected" in result.stdout
    assert ["B⋈C", "incomplete", "1,200", "300", "0", "keys", "at", "tuple", "91,000,"] in [line[:9] for line in lines]
    assert ["91,000", "change", "40%", "25%"] in [line[:4] for line in lines]
    assert document(thalweg("explain", "--live", tmp_path, "--json"))[0]["buckets"] == HISTORY


def test_what_feedback_saved_in_a_running_query(thalweg: Invoke, tmp_path: Path) -> None:
    savings = {"suspensions": 9, "resumptions": 2, "withheld": 1200, "unprobed": 34, "tests": 11, "suspended": 7}
    savings["unstored_bytes"] = 57_600
    write_live(tmp_path, "spread", totals(savings))
    result = thalweg("explain", "--live", tmp_path)
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[-7:] == [
        "values suspended now 7",
        "suspensions 9",
        "resumptions 2",
        "searches for a partner 11",
        "intermediate results not produced, at least 1,200",
        "probes not made, at least 34",
        "bytes of entries not stored, at least 56.2 KiB",
    ]
    assert document(thalweg("explain", "--live", tmp_path, "--json"))[0]["savings"] == savings


def test_no_plans_yet(thalweg: Invoke, tmp_path: Path) -> None:
    result = thalweg("explain", "--live", tmp_path)
    assert result.exit_code == 1
    assert "no query has left word of its plans in" in result.stderr


def test_either_a_text_or_a_running_query(thalweg: Invoke, shop: Path) -> None:
    for arguments in ([], [shop / "abc.cql", "--live", shop]):
        result = thalweg("explain", *arguments)
        assert result.exit_code == 2
        assert "either a query text or --live" in " ".join(result.stderr.replace("│", " ").split())
