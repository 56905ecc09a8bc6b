"""Delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input"): the smallest list of
steps that still fails, by leaving out ever smaller parts of it."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.trace import Step

Steps = tuple[Step, ...]


def minimise(steps: Steps, fails: Callable[[Steps], bool], *, most_runs: int = 400) -> Steps:
    """Leave out whatever the failure does not need. ``fails`` runs a list of steps; at most ``most_runs`` times."""
    budget = _Budget(fails, most_runs)
    before: Steps = ()
    while steps != before and budget.left:
        before = steps
        steps = _shrink(steps, budget)
        steps = _shrink_inner(steps, budget)
    return steps


class _Budget:
    def __init__(self, fails: Callable[[Steps], bool], most_runs: int) -> None:
        self._fails = fails
        self.left = most_runs

    def __call__(self, steps: Steps) -> bool:
        if not self.left:
            return False
        self.left -= 1
        return self._fails(steps)


def _shrink(steps: Steps, fails: Callable[[Steps], bool]) -> Steps:
    size = max(1, len(steps) // 2)
    while True:
        at = 0
        while at < len(steps):
            shorter = steps[:at] + steps[at + size :]
            if fails(shorter):
                steps = shorter
            else:
                at += size
        if size == 1:
            return steps
        size //= 2


def _shrink_inner(steps: Steps, fails: Callable[[Steps], bool]) -> Steps:
    for at, step in enumerate(steps):
        if not step.inner:
            continue

        fails_with = _with_inner(steps, at, fails)
        inner = _shrink_inner(_shrink(step.inner, fails_with), fails_with)
        steps = (*steps[:at], step.with_inner(inner), *steps[at + 1 :])
    return steps


def _with_inner(steps: Steps, at: int, fails: Callable[[Steps], bool]) -> Callable[[Steps], bool]:
    """Whether ``steps`` fail with other inner steps in the one at ``at``."""
    return lambda inner: fails((*steps[:at], steps[at].with_inner(inner), *steps[at + 1 :]))
