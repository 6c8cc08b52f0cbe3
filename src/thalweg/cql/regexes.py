"""Java's regular expressions, as far as RE2 (DuckDB's) can be made to read them alike."""

from __future__ import annotations

from thalweg.cql.typed import NotInProcessError

_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
_ESCAPES = {"d": "[0-9]", "w": "[A-Za-z0-9_]", "s": r"[ \t\n\x0b\f\r]", "t": r"\t", "n": r"\n", "r": r"\r"}
_QUOTED = frozenset(".*+?()[]{}|^$\\/-")
_REFUSED = frozenset("{}]")


def matching(pattern: str) -> str:
    """An RE2 pattern that finds what a Java pattern finds; refused if it uses more than the common core.

    >>> matching("(a|b)[0-9]*")
    '(a|b)[0-9]*'
    """
    found, place = "", 0
    while place < len(pattern):
        character = pattern[place]
        place += 1
        if character == "\\":
            found += _escape(pattern[place : place + 1])
            place += 1
        elif character == "[":
            end = pattern.find("]", place + 1)
            found += _class(pattern[place:end] if end >= 0 else "")
            place = end + 1
        elif character == ".":
            found += f"[^{_LINE_ENDS}]"
        elif character == "$":
            found += rf"(?:\r\n|[{_LINE_ENDS}])?\z"
        elif character in _REFUSED or pattern.startswith(("(?", "*+", "++", "?+"), place - 1):
            raise _refusal()
        else:
            found += character
    return found


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character in _QUOTED and character:
        return "\\" + character
    raise _refusal()


def _class(inside: str) -> str:
    """``[...]`` of single characters and ranges."""
    body = inside.removeprefix("^")
    if not body or any(character in "\\[&" for character in body) or not body.isascii():
        raise _refusal()
    return f"[{inside}]"


def _refusal() -> NotInProcessError:
    return NotInProcessError("this regular expression is")
