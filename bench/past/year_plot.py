"""A plot of what a table costs over a year, as SVG: a panel for each figure, both axes by powers of ten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

FIGURES = {
    "commit_ms": "a commit, CPU-ms",
    "first_fetch_ms": "a new reader lists the files, CPU-ms",
    "plan_ms": "pyiceberg plans a scan, CPU-ms",
    "metadata_kib": "metadata.json, KiB",
    "files": "live files",
    "memory_kib": "the loaded table in memory, KiB",
}
ON, OFF = "#1f77b4", "#d62728"

_WIDTH, _HEIGHT, _LEFT, _TOP, _COLUMNS = 300, 210, 80, 40, 3
_ACROSS, _DOWN = 390, 280
"""From one panel to the next."""
_DAYS = {1 / 24: "1 hour", 1: "day 1", 30: "day 30", 365: "day 365"}
_LAST_DAY = max(_DAYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayCost:
    """What a table is and costs after ``days``: CPU of a commit, of a process that has just started until it has listed
    the files, and of pyiceberg's planning of a scan; the size of metadata.json; what the listed table takes in
    memory."""

    days: float
    files: int
    manifests: int
    snapshots: int
    commit_ms: float
    first_fetch_ms: float
    plan_ms: float
    metadata_kib: float
    memory_kib: float


def year_plot(loops_on: Sequence[DayCost], loops_off: Sequence[DayCost]) -> str:
    """Each point was measured. Without loops, a dashed line goes on from the last one in proportion to the commits."""
    panels = [
        _panel(index, title, _points(loops_on, figure), _points(loops_off, figure))
        for index, (figure, title) in enumerate(FIGURES.items())
    ]
    width, height = _ACROSS * _COLUMNS + _TOP, _DOWN * ceil(len(panels) / _COLUMNS) + _TOP
    legend = (
        f'<text x="{_LEFT}" y="16" fill="{ON}">● all loops on</text>'
        f'<text x="{_LEFT + 130}" y="16" fill="{OFF}">● without compaction and expiry, '
        "each commit made; dashed: in proportion to the commits, not measured</text>"
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
    background = f'<rect width="{width}" height="{height}" fill="white"/>'
    return "\n".join([f'{head}font-size="12">', background, legend, *panels, "</svg>", ""])


_Points = Sequence[tuple[float, float]]


def _points(costs: Sequence[DayCost], figure: str) -> _Points:
    return [(cost.days, float(getattr(cost, figure))) for cost in costs]


def _panel(index: int, title: str, loops_on: _Points, loops_off: _Points) -> str:
    days, last = loops_off[-1]
    beyond = [(days, last), (_LAST_DAY, last * _LAST_DAY / days)]
    values = [value for _, value in (*loops_on, *loops_off, *beyond)]
    first_day = min(days for days, _ in (*loops_on, *loops_off))
    low, high = floor(log10(min(values))), ceil(log10(max(values)))

    def x(days: float) -> float:
        return round(_WIDTH * log10(days / first_day) / log10(_LAST_DAY / first_day), 1)

    def y(value: float) -> float:
        return round(_HEIGHT * (high - log10(value)) / (high - low), 1)

    def line(points: _Points, colour: str, style: str = "") -> str:
        at = " ".join(f"{x(days)},{y(value)}" for days, value in points)
        return f'<polyline fill="none" stroke="{colour}" stroke-width="1.5"{style} points="{at}"/>'

    def dots(points: _Points, colour: str) -> list[str]:
        return [f'<circle cx="{x(days)}" cy="{y(value)}" r="3" fill="{colour}"/>' for days, value in points]

    parts = [f'<text x="0" y="-8" font-weight="bold">{title}</text>']
    for power in range(low, high + 1):
        height = y(10.0**power)
        parts.append(f'<line x1="0" x2="{_WIDTH}" y1="{height}" y2="{height}" stroke="#ddd"/>')
        parts.append(f'<text x="-4" y="{height + 4}" text-anchor="end" font-size="10">{10**power:,}</text>')
    for days, name in _DAYS.items():
        parts.append(f'<line x1="{x(days)}" x2="{x(days)}" y1="0" y2="{_HEIGHT}" stroke="#eee"/>')
        parts.append(f'<text x="{x(days)}" y="{_HEIGHT + 16}" text-anchor="middle">{name}</text>')
    parts += [line(loops_on, ON), *dots(loops_on, ON), line(loops_off, OFF), *dots(loops_off, OFF)]
    parts.append(line(beyond, OFF, ' stroke-dasharray="5 4"'))
    left, top = _LEFT + _ACROSS * (index % _COLUMNS), _TOP + 16 + _DOWN * (index // _COLUMNS)
    return "\n".join([f'<g transform="translate({left},{top})">', *parts, "</g>"])
