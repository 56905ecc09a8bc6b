"""A plot of what a table is on the days of a year, as SVG: both axes by powers of ten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10

_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 760, 420, 70, 20, 200, 50
_MOST = 10_000_000
_LAST_DAY = 365
_COLOURS = {"files": "#1f77b4", "manifests": "#2ca02c", "snapshots": "#d62728"}
_TICKS = (1, 7, 30, 90, 365)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayState:
    """What a table is at the end of a day: ``entries`` of each manifest, oldest first."""

    day: int
    commits: int
    files: int
    entries: tuple[int, ...]
    snapshots: int

    def count(self, what: str) -> int:
        """Of ``files``, ``manifests`` or ``snapshots``."""
        return {"files": self.files, "manifests": len(self.entries), "snapshots": self.snapshots}[what]


def year_plot(loops_on: Sequence[DayState], loops_off: Sequence[DayState]) -> str:
    """Lines of both: dashed where the loops are off."""
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
            'font-size="12">'
        ),
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        *_axes(),
    ]
    for what, colour in _COLOURS.items():
        parts += _line(loops_on, what, colour, f"{what}, all loops on", "")
        parts += _line(loops_off, what, colour, f"{what}, loops off", ' stroke-dasharray="5 4"')
    return "\n".join([*parts, "</svg>", ""])


def _axes() -> list[str]:
    parts = []
    for power in range(int(log10(_MOST)) + 1):
        y = _y(10**power)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{10**power:,}</text>')
    for day in _TICKS:
        x = _x(day)
        parts.append(f'<line x1="{x}" x2="{x}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" stroke="#eee"/>')
        parts.append(f'<text x="{x}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">day {day}</text>')
    return parts


def _line(states: Sequence[DayState], what: str, colour: str, title: str, style: str) -> list[str]:
    points = " ".join(f"{_x(one.day)},{_y(one.count(what))}" for one in states)
    last = states[-1]
    label_y = _y(last.count(what)) + (14 if what == "files" and style else 4)
    return [
        f'<polyline fill="none" stroke="{colour}" stroke-width="2"{style} points="{points}"/>',
        f'<text x="{_x(last.day) + 8}" y="{label_y}" fill="{colour}">{title}</text>',
    ]


def _x(day: int) -> float:
    return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * log10(day) / log10(_LAST_DAY), 1)


def _y(count: int) -> float:
    return round(_HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * log10(max(1, count)) / log10(_MOST), 1)
