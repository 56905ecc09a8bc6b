"""The simulation finds the bugs that are planted for it: were it blind, its silence would mean nothing."""

from __future__ import annotations

import pytest

from tests.simulation.mutations import MUTATIONS, Mutation
from tests.simulation.run import Outcome, run

MOST_SEEDS = 150
"""Runs in which a bug must show, of the kind in which it does soonest. Most show in the first; the search goes on where
a change of the program or of the simulation has made another run of it."""


def caught_by(mutation: Mutation, seeds: range) -> Outcome | None:
    """The first run that finds something. A run that merely ends with an exception has found nothing."""
    for seed in seeds:
        with mutation.patch():
            outcome = run(seed, focus=mutation.focus)
        if outcome.kinds - {"crashed"}:
            return outcome
    return None


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[mutation.name.replace(" ", "_") for mutation in MUTATIONS])
def test_planted_bug_is_found(mutation: Mutation) -> None:
    outcome = caught_by(mutation, range(mutation.first_seed, mutation.first_seed + MOST_SEEDS))
    assert outcome is not None, f"{mutation.name}: not found in {MOST_SEEDS} runs"
    print(f"{mutation.name}: found by seed {outcome.seed}: {outcome.findings[0].splitlines()[0]}")
