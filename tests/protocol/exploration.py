"""Visits every state that a model can come to, and says by which steps it comes to one that breaks a promise."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

MOST_STATES = 1_000_000


class Model(Protocol):
    """States are hashable values."""

    def steps(self, state: Any) -> Iterator[tuple[str, Any]]: ...

    def broken(self, state: Any) -> str | None: ...

    def broken_step(self, before: Any, after: Any) -> str | None: ...


@dataclass
class Explored:
    """``states`` in the order they were found in; ``steps_from[i]`` and ``steps_to[i]`` are the numbers of the states
    that the i-th step lies between; ``trace`` leads to what is ``broken``, the shortest way."""

    states: list[Any]
    steps_from: array[int] = field(default_factory=lambda: array("i"))
    steps_to: array[int] = field(default_factory=lambda: array("i"))
    broken: str | None = None
    trace: list[str] = field(default_factory=list)


def explore(model: Model, start: Any) -> Explored:
    """Breadth first over every state that can be reached, until a promise is broken."""
    found = Explored(states=[start])
    number_of = {start: 0}
    came_from: list[tuple[int, str]] = [(-1, "")]
    for number, state in enumerate(found.states):
        for name, following in model.steps(state):
            to = number_of.setdefault(following, len(found.states))
            is_new = to == len(found.states)
            if is_new:
                found.states.append(following)
                came_from.append((number, name))
                assert to < MOST_STATES, "the model grew beyond what a test can visit"
            found.steps_from.append(number)
            found.steps_to.append(to)
            broken = model.broken_step(state, following) or (model.broken(following) if is_new else None)
            if broken is not None:
                found.broken, found.trace = broken, [*trace_to(number, came_from), name]
                return found
    return found


def trace_to(number: int, came_from: list[tuple[int, str]]) -> list[str]:
    names: list[str] = []
    while number:
        number, name = came_from[number]
        names.append(name)
    return names[::-1]
