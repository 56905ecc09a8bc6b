"""A fixed set of seeds, a few fresh ones, and what the simulation itself promises."""

from __future__ import annotations

import random

import pytest

from tests.simulation.__main__ import failure_report
from tests.simulation.minimiser import minimise
from tests.simulation.run import drawn, run
from tests.simulation.trace import Step, count_of

FIXED_SEEDS = range(40)
FRESH_SEEDS = 10


@pytest.mark.parametrize("first", range(0, len(FIXED_SEEDS), 10))
def test_nothing_is_lost_doubled_altered_or_stuck_in_the_runs_of_fixed_seeds(first: int) -> None:
    for seed in FIXED_SEEDS[first : first + 10]:
        outcome = run(seed)
        assert not outcome.findings, failure_report(outcome)


def test_nothing_is_lost_doubled_altered_or_stuck_in_the_runs_of_fresh_seeds() -> None:
    seeds = random.SystemRandom().sample(range(1 << 31), FRESH_SEEDS)
    print(f"fresh seeds: {seeds}")
    for seed in seeds:
        outcome = run(seed)
        assert not outcome.findings, failure_report(outcome)


def test_same_seed_gives_the_same_run() -> None:
    first, second = run(11), run(11)
    assert first.trace == second.trace
    assert first.counts == second.counts


def test_failing_list_of_steps_is_made_as_small_as_it_goes() -> None:
    needed = Step(kind="produce", seed=3)
    inner = Step(kind="pause", seed=4, inner=(Step(kind="roll", seed=5), needed, Step(kind="time", seed=6)))
    steps = (*drawn(0)[1][:20], inner, *drawn(1)[1][:20])

    def fails(tried: tuple[Step, ...]) -> bool:
        return any(needed in step.inner for step in tried)

    small = minimise(steps, fails)
    assert count_of(small) == 2
    assert fails(small)
