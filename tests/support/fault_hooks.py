"""What tests do when a fault point is reached."""

from __future__ import annotations

from collections.abc import Callable

from engine.fault_points import FaultPoint


def once(point: FaultPoint, act: Callable[[], object]) -> Callable[[FaultPoint], None]:
    """A hook that acts when ``point`` is reached for the first time."""
    waiting = [act]

    def hook(reached: FaultPoint) -> None:
        if reached is point and waiting:
            waiting.pop()()

    return hook
