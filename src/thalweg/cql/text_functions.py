"""Spark's functions of texts, in process: their types, and their values by DuckDB.

Where the two know characters differently (full case mappings, graphemes, bytes), a row that has such characters is an
error here, never another value.
"""

from __future__ import annotations

import pyarrow as pa

from thalweg.cql.casts import to_text
from thalweg.cql.number_functions import MANY, Builder, arguments, integer
from thalweg.cql.regexes import matching
from thalweg.cql.typed import NotInProcessError, NoTypeError, Typed, failing, text_sql
from thalweg.cql.types import describe

_FULL_UPPER = (
    r"[\x{df}\x{149}\x{1f0}\x{390}\x{3b0}\x{587}\x{1e96}-\x{1e9a}\x{1f50}-\x{1f57}\x{1f80}-\x{1fff}\x{fb00}-\x{fb17}]"
)
"""Characters whose capitals are several."""
_ALL = 2**31 - 1
"""The length of a part that goes on to the end."""
_FULL_LOWER = r"[\x{130}\x{3a3}]"
"""Characters whose small letter depends on their neighbours."""


def text(item: Typed) -> str:
    """An argument that must be a text."""
    if pa.types.is_null(item.kind):
        return "CAST(NULL AS VARCHAR)"
    if item.kind != pa.string():
        raise NoTypeError(f"It takes texts, not {describe(item.kind)}.")
    return item.sql


def _plain(function: str, value: str, otherwise: str) -> str:
    """``otherwise``, for texts of ASCII characters alone."""
    message = f"{function.upper()} of a text with characters beyond ASCII is not computed in process"
    return failing(f"strlen({value}) <> length({value})", message, otherwise)


def _case(function: str, refused: str) -> Builder:
    def build(items: list[Typed]) -> Typed:
        value = text(items[0])
        message = (
            f"{function.upper()} of a character that becomes several, or depends on others, is not computed in process"
        )
        return Typed(failing(f"regexp_matches({value}, '{refused}')", message, f"{function}({value})"), pa.string())

    return arguments(1, 1, build)


def _initcap(items: list[Typed]) -> Typed:
    value = text(items[0])
    words = f"list_transform(string_split(lower({value}), ' '), lambda w: upper(w[1]) || w[2:])"
    return Typed(_plain("initcap", value, f"list_aggregate({words}, 'string_agg', ' ')"), pa.string())


def _length(items: list[Typed]) -> Typed:
    [item] = items
    if item.kind == pa.binary():
        return Typed(f"CAST(octet_length({item.sql}) AS INTEGER)", pa.int32())
    return Typed(f"CAST(length({text(item)}) AS INTEGER)", pa.int32())


def _bit_length(items: list[Typed]) -> Typed:
    return Typed(f"CAST(8 * strlen({text(items[0])}) AS INTEGER)", pa.int32())


def trimmed(function: str) -> Builder:
    """TRIM, LTRIM and RTRIM of one argument; of two: the characters are the second."""

    def build(items: list[Typed]) -> Typed:
        characters = text(items[1]) if len(items) == 2 else "' '"
        return Typed(f"{function}({text(items[0])}, {characters})", pa.string())

    return build


def _padded(function: str) -> Builder:
    def build(items: list[Typed]) -> Typed:
        value, length = text(items[0]), integer(items[1])
        filling = text(items[2]) if len(items) == 3 else "' '"
        enough = f"length({value}) >= {length} OR {filling} = ''"
        short = f"CASE WHEN {length} <= 0 THEN '' ELSE substring({value}, 1, {length}) END"
        known = f"{value} IS NULL OR {length} IS NULL OR {filling} IS NULL"
        padded = f"{function}({value}, {length}, CASE WHEN {filling} = '' THEN ' ' ELSE {filling} END)"
        return Typed(f"(CASE WHEN {known} THEN NULL WHEN {enough} THEN {short} ELSE {padded} END)", pa.string())

    return arguments(2, 3, build)


def _end(function: str) -> Builder:
    def build(items: list[Typed]) -> Typed:
        value, length = text(items[0]), integer(items[1])
        return Typed(f"{function}({value}, CASE WHEN {length} < 0 THEN 0 ELSE {length} END)", pa.string())

    return arguments(2, 2, build)


def _substring(items: list[Typed]) -> Typed:
    value, position = text(items[0]), f"CAST({integer(items[1])} AS BIGINT)"
    backwards = f"WHEN {position} < 0 THEN length({value}) + {position}"
    start = f"(CASE WHEN {position} > 0 THEN {position} - 1 {backwards} ELSE 0 END)"
    end = f"({start} + {integer(items[2]) if len(items) == 3 else _ALL})"
    first = f"greatest({start}, 0)"
    known = f"{value} IS NULL OR {position} IS NULL OR {end} IS NULL"
    part = f"substring({value}, {first} + 1, {end} - {first})"
    return Typed(f"(CASE WHEN {known} THEN NULL WHEN {end} <= {first} THEN '' ELSE {part} END)", pa.string())


def _split_part(items: list[Typed]) -> Typed:
    value, delimiter, number = text(items[0]), text(items[1]), integer(items[2])
    part = failing(
        f"{number} = 0", "SPLIT_PART counts from 1, or from -1 backwards", f"split_part({value}, {delimiter}, {number})"
    )
    return Typed(
        failing(f"{delimiter} = ''", "SPLIT_PART by an empty text is not computed in process", part), pa.string()
    )


def _concat(items: list[Typed]) -> Typed:
    if any(item.kind == pa.binary() for item in items):
        raise NotInProcessError("CONCAT of binary values is")
    if not items:
        return Typed("''", pa.string())
    return Typed(f"({' || '.join(as_text(item) for item in items)})", pa.string())


def _concat_ws(items: list[Typed]) -> Typed:
    for item in items[1:]:
        text(item)
    separator = text(items[0])
    joined = f"concat_ws({', '.join([separator, *(item.sql for item in items[1:])])})" if len(items) > 1 else "''"
    return Typed(f"(CASE WHEN {separator} IS NULL THEN NULL ELSE {joined} END)", pa.string())


def as_text(item: Typed) -> str:
    """A value in a text: Spark casts what is none."""
    return "CAST(NULL AS VARCHAR)" if pa.types.is_null(item.kind) else to_text(item)


def _replace(items: list[Typed]) -> Typed:
    value, sought = text(items[0]), text(items[1])
    other = text(items[2]) if len(items) == 3 else "''"
    known = f"{value} IS NULL OR {sought} IS NULL OR {other} IS NULL"
    replaced = f"CASE WHEN {sought} = '' THEN {value} ELSE replace({value}, {sought}, {other}) END"
    return Typed(f"(CASE WHEN {known} THEN NULL ELSE {replaced} END)", pa.string())


def _translate(items: list[Typed]) -> Typed:
    sought = items[1].constant
    if not isinstance(sought, str) or len(set(sought)) < len(sought):
        raise NotInProcessError("TRANSLATE with characters that are not written down, or written twice, is")
    return Typed(f"translate({text(items[0])}, {text(items[1])}, {text(items[2])})", pa.string())


def _reverse(items: list[Typed]) -> Typed:
    value = text(items[0])
    return Typed(_plain("reverse", value, f"reverse({value})"), pa.string())


def _repeat(items: list[Typed]) -> Typed:
    return Typed(f"repeat({text(items[0])}, {integer(items[1])})", pa.string())


def _space(items: list[Typed]) -> Typed:
    return Typed(f"repeat(' ', {integer(items[0])})", pa.string())


def _ascii(items: list[Typed]) -> Typed:
    return Typed(f"CAST(ascii({text(items[0])}) AS INTEGER)", pa.int32())


def _chr(items: list[Typed]) -> Typed:
    if pa.types.is_null(items[0].kind) or not pa.types.is_integer(items[0].kind):
        raise NoTypeError(f"It takes a whole number, not {describe(items[0].kind)}.")
    number = items[0].sql
    return Typed(f"(CASE WHEN {number} < 0 THEN '' ELSE chr(CAST({number} % 256 AS INTEGER)) END)", pa.string())


def _locate(items: list[Typed]) -> Typed:
    sought, value = text(items[0]), text(items[1])
    if len(items) == 2:
        return Typed(f"CAST(instr({value}, {sought}) AS INTEGER)", pa.int32())
    position = integer(items[2])
    found = f"instr(substring({value}, {position}), {sought})"
    empty = failing(f"{sought} = ''", "LOCATE of an empty text behind a position is not computed in process", found)
    placed = f"CASE WHEN {empty} = 0 THEN 0 ELSE {found} + {position} - 1 END"
    nothing = f"WHEN {position} IS NULL THEN 0 WHEN {value} IS NULL OR {sought} IS NULL THEN NULL"
    return Typed(f"CAST(CASE {nothing} WHEN {position} < 1 THEN 0 ELSE {placed} END AS INTEGER)", pa.int32())


def _test(function: str) -> Builder:
    def build(items: list[Typed]) -> Typed:
        return Typed(f"{function}({text(items[0])}, {text(items[1])})", pa.bool_())

    return arguments(2, 2, build)


def _levenshtein(items: list[Typed]) -> Typed:
    one, two = text(items[0]), text(items[1])
    distance = f"CAST(levenshtein({one}, {two}) AS INTEGER)"
    return Typed(_plain("levenshtein", one, _plain("levenshtein", two, distance)), pa.int32())


def _digest(function: str) -> Builder:
    def build(items: list[Typed]) -> Typed:
        [item] = items
        value = item.sql if item.kind == pa.binary() else text(item)
        return Typed(f"{function}({value})", pa.string())

    return arguments(1, 1, build)


def _sha2(items: list[Typed]) -> Typed:
    if items[1].constant not in (0, 256):
        raise NotInProcessError("SHA2 of other than 256 bits is")
    return _digest("sha256")(items[:1])


def like(value: Typed, pattern: Typed, escape: str = "\\", *, any_case: bool = False) -> Typed:
    """``LIKE`` and ``ILIKE`` with Spark's escape character."""
    if not isinstance(pattern.constant, str):
        raise NotInProcessError("LIKE with a pattern that is not written down is")
    rest = pattern.constant.replace(escape * 2, "").replace(f"{escape}%", "").replace(f"{escape}_", "")
    if escape in rest:
        raise NoTypeError(f"In a pattern, {escape} stands before %, _ or itself.")
    one, two = text(value), text(pattern)
    if any_case:
        one, two = (_plain("ilike", side, f"lower({side})") for side in (one, two))
    return Typed(f"({one} LIKE {two} ESCAPE {text_sql(escape)})", pa.bool_())


def _like(*, any_case: bool) -> Builder:
    def build(items: list[Typed]) -> Typed:
        if len(items) == 3:
            raise NotInProcessError("LIKE as a function with an escape character is")
        return like(items[0], items[1], any_case=any_case)

    return arguments(2, 3, build)


def rlike(value: Typed, pattern: Typed) -> Typed:
    """``RLIKE``: Java's regular expressions, as far as RE2 reads them alike."""
    if not isinstance(pattern.constant, str):
        raise NotInProcessError("RLIKE with a pattern that is not written down is")
    return Typed(f"regexp_matches({text(value)}, {text_sql(matching(pattern.constant))})", pa.bool_())


TEXTS: dict[str, Builder] = {
    **dict.fromkeys(("lower", "lcase"), _case("lower", _FULL_LOWER)),
    **dict.fromkeys(("upper", "ucase"), _case("upper", _FULL_UPPER)),
    "initcap": arguments(1, 1, _initcap),
    **dict.fromkeys(("length", "len", "char_length", "character_length"), arguments(1, 1, _length)),
    "bit_length": arguments(1, 1, _bit_length),
    "ltrim": arguments(1, 1, trimmed("ltrim")),
    "rtrim": arguments(1, 1, trimmed("rtrim")),
    "lpad": _padded("lpad"),
    "rpad": _padded("rpad"),
    "left": _end("left"),
    "right": _end("right"),
    **dict.fromkeys(("substring", "substr"), arguments(2, 3, _substring)),
    "split_part": arguments(3, 3, _split_part),
    "concat": arguments(0, MANY, _concat),
    "concat_ws": arguments(1, MANY, _concat_ws),
    "replace": arguments(2, 3, _replace),
    "translate": arguments(3, 3, _translate),
    "reverse": arguments(1, 1, _reverse),
    "repeat": arguments(2, 2, _repeat),
    "space": arguments(1, 1, _space),
    "ascii": arguments(1, 1, _ascii),
    **dict.fromkeys(("chr", "char"), arguments(1, 1, _chr)),
    "instr": arguments(2, 2, lambda items: _locate([items[1], items[0]])),
    **dict.fromkeys(("locate", "position"), arguments(2, 3, _locate)),
    "startswith": _test("starts_with"),
    "endswith": _test("ends_with"),
    "contains": _test("contains"),
    "levenshtein": arguments(2, 2, _levenshtein),
    "like": _like(any_case=False),
    "ilike": _like(any_case=True),
    **dict.fromkeys(("rlike", "regexp_like"), arguments(2, 2, lambda items: rlike(items[0], items[1]))),
    "md5": _digest("md5"),
    "sha1": _digest("sha1"),
    "sha2": arguments(2, 2, _sha2),
}
