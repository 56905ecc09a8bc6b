"""Every interleaving of two daemons over one partition keeps the promises, and each rule is needed for it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest

from tests.protocol.commit_model import LOG_END, START, CommitModel, Rules
from tests.protocol.exploration import explore

MERGING = CommitModel(elections=0, merges=True)
TWO_FILES = START._replace(leader=1, crashes_left=0)
"""Its leader commits two ranges: one beside what is made of the other."""


@pytest.fixture(autouse=True)
def no_garbage_collection() -> Iterator[None]:
    """States refer to nothing that refers to them: looking for cycles among them takes a quarter of the time."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("merges", [False, True], ids=["elections", "merges"])
def test_every_interleaving_keeps_the_promises_and_can_still_reach_the_end(merges: bool) -> None:
    found = explore(MERGING, TWO_FILES) if merges else explore(CommitModel(), START)
    assert found.broken is None, "\n".join([*found.trace, found.broken or ""])
    print(f"{len(found.states)} states, {len(found.steps_to)} steps")
    assert len(found.states) > 10_000
    can_end = np.array([state.line is not None and state.line.end == LOG_END for state in found.states])
    steps_from, steps_to = np.array(found.steps_from), np.array(found.steps_to)
    count = 0
    while count < (count := int(can_end.sum())):
        can_end[steps_from[can_end[steps_to]]] = True
    assert can_end.all(), "in some state nothing can be tiered any more"


@pytest.mark.parametrize(
    ("rules", "broken"),
    [
        (Rules(asserts_snapshot=False), "in the table twice"),
        (Rules(asserts_snapshot=False, decides_again=False), "in the table twice"),
        (Rules(checks_epoch=False), "epoch went from"),
        (Rules(horizon_makes_snapshot=False), "the ledger"),
        (Rules(copied_needs_ledger=False), "the broker dropped"),
    ],
    ids=["no_assertion", "blind_retry", "no_epoch", "properties_alone", "copied_unproven"],
)
def test_without_a_rule_an_append_breaks_a_promise(rules: Rules, broken: str) -> None:
    found = explore(CommitModel(rules), START)
    assert found.broken is not None
    assert broken in found.broken, found.trace
    print("\n".join([*found.trace, found.broken]))


@pytest.mark.parametrize(
    ("rules", "broken"),
    [
        (Rules(replaces_what_is_listed=False), "in the table twice"),
        (Rules(replaces_on_its_snapshot=False), "the ledger ends at 2, the files at 1"),
    ],
    ids=["replaced_unlooked", "no_assertion"],
)
def test_without_a_rule_a_replacement_breaks_a_promise(rules: Rules, broken: str) -> None:
    found = explore(CommitModel(rules, elections=0, merges=True), TWO_FILES)
    assert found.broken is not None
    assert broken in found.broken, found.trace
    assert any("merges sends" in step for step in found.trace)
    print("\n".join([*found.trace, found.broken]))
