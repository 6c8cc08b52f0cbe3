"""``docs/functions.md``, made from the table of expressions and what Spark says to them."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from tests.cql.conformance import ERROR, ROWS, Record, recorded
from thalweg.cql import Source, bind
from thalweg.cql.functions import AGGREGATES, FUNCTIONS
from thalweg.cql.number_functions import ROUNDED
from thalweg.errors import ThalwegError

PAGE = Path(__file__).parents[2] / "docs" / "functions.md"
WIDTH = 120
SOURCE = {"rows": Source(ROWS.schema, "m")}
_HEAD = """# Functions

This page is made from the table of expressions that the tests compare, for value and type, between plain Spark SQL,
`thalweg.App` and replay (`python -m tests.spark.record` makes it anew).

On Spark, in `thalweg.App`, an expression may be anything that Spark SQL can analyse, if it is a deterministic value of
one row: these functions, all others of Spark, and functions of your own. Spark computes it.

In process (`thalweg.replay`, `thalweg replay`) the functions below are computed, with Spark's types and values. Other
functions are refused by name. So is a call below that cannot be computed with Spark's value, for its types or for a
row's value. An error names it.

Arguments in the examples are columns: `t` TINYINT, `h` SMALLINT, `i` INT, `l` BIGINT, `f` FLOAT, `x` and `v` DOUBLE,
`d` DECIMAL(10,2), `e` DECIMAL(5,3), `w` DECIMAL(38,18), `s` and `u` STRING, `b` BOOLEAN, `y` BINARY, `q` DATE,
`z` TIMESTAMP, `m` TIMESTAMP_NTZ.

"""


def computed(expression: str) -> bool:
    """Whether a query may have this expression in process."""
    try:
        bind(f"SELECT {expression} AS r FROM rows [NOW]", SOURCE)  # noqa: S608 - our own table
    except ThalwegError:
        return False
    return True


def page() -> str:
    """The text of the page."""
    records = [record for record in recorded() if record.kind != ERROR]
    lines = ["| function | example, and the type of its result | computed in process for |", "| --- | --- | --- |"]
    for name in sorted(FUNCTIONS - {"case", "if", "cast", "try_cast"}):
        uses = [r for r in records if re.match(rf"{name}\(", r.expression, re.IGNORECASE)]
        lines += _lines(name, uses)
    operators = [r for r in records if not re.match(r"\w+\(", r.expression) and " " in r.expression]
    text = _HEAD + "\n".join(lines)
    rounded = ", ".join(f"`{name}`" for name in sorted(ROUNDED))
    text += "\n\n" + _wrapped(f"The last digit of these may differ, since Java leaves it open: {rounded}.")
    text += "\nThe aggregates are " + ", ".join(f"`{name.upper()}`" for name in AGGREGATES) + ".\n"
    text += "\n## Operators and casts\n\n| expression | type | in process |\n| --- | --- | --- |\n"
    for r in operators:
        shown = r.expression.replace("|", "\\|")
        text += f"| `{shown}` | {r.kind} | {'yes' if computed(r.expression) else 'no'} |\n"
    casts = [r for r in records if r.expression.startswith("CAST(") and len(r.expression.split()[0]) == len("CAST(x")]
    text += "\n| CAST of | to | in process |\n| --- | --- | --- |\n"
    for r in casts:
        text += f"| `{r.expression[5]}` | {r.kind} | {'yes' if computed(r.expression) else 'no'} |\n"
    text += "\n## On Spark alone\n\n"
    alone = [r for r in records if r.expression.split("(")[0].lower() not in FUNCTIONS and "(" in r.expression]
    alone = [r for r in alone if re.match(r"\w+\(", r.expression) and not computed(r.expression)]
    return text + _wrapped("For example: " + ", ".join(f"`{r.expression}` ({r.kind})" for r in alone) + ".")


def _wrapped(paragraph: str) -> str:
    """A paragraph in lines that fit; what is code is not parted."""
    whole = re.sub(r"`[^`]*`", lambda code: code[0].replace(" ", "\0"), paragraph)
    return textwrap.fill(whole, WIDTH, break_long_words=False, break_on_hyphens=False).replace("\0", " ") + "\n"


def _lines(name: str, uses: list[Record]) -> list[str]:
    """The row of a function; further rows, where its exceptions do not fit on one line."""
    if not uses:
        return [f"| `{name}` | | yes |"]
    able = [use for use in uses if computed(use.expression)]
    example = (able or uses)[0]
    unable = [f"`{use.expression}`".replace("|", "\\|") for use in uses if use not in able]
    lines = [f"| `{name}` | `{example.expression}`: {example.kind} | all that were tried" + " but" * bool(unable)]
    for number, each in enumerate(unable):
        text = each + "," * (number < len(unable) - 1)
        if len(f"{lines[-1]} {text} |") > WIDTH:
            lines.append("| | |")
        lines[-1] += f" {text}"
    return [f"{line} |" for line in lines]
