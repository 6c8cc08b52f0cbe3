"""The picture that ``thalweg demo`` ends with: lines over time in panels, as SVG, which every browser shows.

It is written by hand, without a library, so that it looks the same wherever the demo runs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

NAME = "plan-change.svg"

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _GAP = 860, 190, 80, 190, 76, 56
_INK, _FAINT, _MARK = "#24292f", "#d8dee4", "#8250df"


@dataclass(frozen=True, slots=True)
class Line:
    """Values over time: points are (seconds from the change, value)."""

    name: str
    color: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines that share an axis."""

    title: str
    lines: Sequence[Line]


def write_picture(directory: Path, title: str, panels: Sequence[Panel]) -> Path:
    """Draw panels below each other; second 0, the change of plan, is marked. Returns where the picture is."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / NAME
    file.write_text(picture(title, panels), encoding="utf-8")
    return file


def picture(title: str, panels: Sequence[Panel]) -> str:
    """The SVG text."""
    times = [time for panel in panels for line in panel.lines for time, _ in line.points]
    height = _TOP + len(panels) * (_HEIGHT + _GAP) + 8
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'font-family="Helvetica, Arial, sans-serif" font-size="13" fill="{_INK}">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        _text(_LEFT, 28, title, 'font-size="17" font-weight="bold"'),
    ]
    for number, panel in enumerate(panels):
        drawn += _panel(panel, _TOP + number * (_HEIGHT + _GAP), min(times), max(times))
    return "\n".join([*drawn, "</svg>", ""])


def _panel(panel: Panel, top: int, first: float, last: float) -> Iterator[str]:
    bottom, right = top + _HEIGHT, _WIDTH - _RIGHT
    most = max(value for line in panel.lines for _, value in line.points)
    step = _tick(most)
    ticks = max(1, math.ceil(most / step))

    def across(time: float) -> float:
        return _LEFT + (time - first) / (last - first) * (right - _LEFT)

    def up(value: float) -> float:
        return bottom - value / (step * ticks) * _HEIGHT

    yield _text(_LEFT, top - 14, panel.title, 'font-weight="bold"')
    for number in range(ticks + 1):
        y = up(step * number)
        yield f'<path d="M{_LEFT} {y:.1f}H{right}" stroke="{_FAINT}"/>'
        yield _text(_LEFT - 8, y + 4, f"{step * number:,}", 'text-anchor="end"')
    for second in range(-int(-first // 10) * 10, int(last) + 1, 10):
        label = "noon" if second == 0 else f"{second:+d} s"
        yield _text(across(second), bottom + 20, label, 'text-anchor="middle"')
    yield f'<path d="M{across(0):.1f} {top}V{bottom}" stroke="{_MARK}" stroke-width="1.5" stroke-dasharray="3 3"/>'
    for number, line in enumerate(panel.lines):
        path = " ".join(f"{across(time):.1f},{up(value):.1f}" for time, value in line.points)
        style = ' stroke-dasharray="6 4"' if line.dashed else ""
        yield f'<polyline points="{path}" fill="none" stroke="{line.color}" stroke-width="2.5"{style}/>'
        y = top + 14 + 22 * number
        yield f'<path d="M{right + 14} {y - 4}h22" stroke="{line.color}" stroke-width="2.5"{style}/>'
        yield _text(right + 42, y, line.name)
    yield _text(across(0) - 6, top + 14, "plan change", f'fill="{_MARK}" text-anchor="end"')


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{escape(text)}</text>'.replace(" >", ">")


def _tick(most: float) -> int:
    """The distance of lines of which six or fewer reach so high: a round number.

    >>> _tick(10_500), _tick(41), _tick(0)
    (2000, 10, 1)
    """
    return next(step for power in itertools.count() for step in _round(10**power) if 6 * step >= most)


def _round(power: int) -> tuple[int, int, int]:
    return power, 2 * power, 5 * power
