"""Every interleaving of two daemons over one partition keeps the promises, and each rule is needed for it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import pytest

from tests.protocol.commit_model import LOG_END, START, CommitModel, Rules, State

MOST_STATES = 1_000_000


@dataclass
class Explored:
    """``trace`` leads to what is ``broken``, the shortest way; ``before`` has each state's predecessors."""

    broken: str | None = None
    trace: list[str] = field(default_factory=list)
    before: dict[State, list[State]] = field(default_factory=dict)


def explore(model: CommitModel) -> Explored:
    """Breadth first over every state that can be reached, until a promise is broken."""
    came_from: dict[State, tuple[State, str] | None] = {START: None}
    before: dict[State, list[State]] = {START: []}
    waiting = deque([START])
    while waiting:
        state = waiting.popleft()
        for name, following in model.steps(state):
            is_new = following not in came_from
            if is_new:
                came_from[following] = (state, name)
                before[following] = []
                waiting.append(following)
                assert len(came_from) <= MOST_STATES, "the model grew beyond what a test can visit"
            before[following].append(state)
            broken = model.broken_step(state, following) or (model.broken(following) if is_new else None)
            if broken is not None:
                return Explored(broken=broken, trace=[*trace_to(state, came_from), name])
    return Explored(before=before)


def trace_to(state: State, came_from: dict[State, tuple[State, str] | None]) -> list[str]:
    names: list[str] = []
    step = came_from[state]
    while step is not None:
        names.append(step[1])
        step = came_from[step[0]]
    return names[::-1]


def test_every_interleaving_keeps_the_promises_and_can_still_reach_the_end() -> None:
    found = explore(CommitModel())
    assert found.broken is None, "\n".join([*found.trace, found.broken or ""])
    states = found.before
    print(f"{len(states)} states, {sum(map(len, states.values()))} steps")
    assert len(states) > 10_000
    is_done = [state for state in states if state.entry is not None and state.entry.end == LOG_END]
    can_end = set(is_done)
    waiting = deque(is_done)
    while waiting:
        for earlier in states[waiting.popleft()]:
            if earlier not in can_end:
                can_end.add(earlier)
                waiting.append(earlier)
    assert can_end == set(states), "in some state nothing can be tiered any more"


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
def test_without_a_rule_a_promise_breaks(rules: Rules, broken: str) -> None:
    found = explore(CommitModel(rules))
    assert found.broken is not None
    assert broken in found.broken, found.trace
    print("\n".join([*found.trace, found.broken]))
