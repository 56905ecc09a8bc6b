"""A run as a list of steps: drawn once from the seed, replayed with some of them left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that happens. All chance in it comes from ``seed``, so it means the same kind of thing whatever
    happened before. ``inner``: what happens to others while it is under way."""

    kind: str
    seed: int
    inner: tuple[Step, ...] = ()

    def with_inner(self, inner: tuple[Step, ...]) -> Step:
        return replace(self, inner=inner)


def count_of(steps: tuple[Step, ...]) -> int:
    return sum(1 + count_of(step.inner) for step in steps)


def kinds_of(steps: tuple[Step, ...]) -> Iterator[str]:
    for step in steps:
        yield step.kind
        yield from kinds_of(step.inner)


class Trace:
    """What happened, line by line, indented under the step during which it happened."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0

    def note(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)
